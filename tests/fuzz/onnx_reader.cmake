# Needs clang: cmake -DTILEWRIGHT_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-16, then
#   fuzz_onnx_reader -max_total_time=60 -malloc_limit_mb=64 NEW_CORPUS tests/fuzz/corpus/onnx
option(TILEWRIGHT_FUZZ "build the fuzzers (clang only)" OFF)
if(TILEWRIGHT_FUZZ)
  set(_src ${CMAKE_SOURCE_DIR}/src)
  # Compiled from sources, so that the reader itself is instrumented for coverage.
  add_executable(fuzz_onnx_reader
    ${CMAKE_CURRENT_LIST_DIR}/onnx_reader_fuzz.cpp
    ${_src}/support/error.cpp ${_src}/support/dtype.cpp ${_src}/support/file.cpp
    ${_src}/onnx/wire.cpp ${_src}/onnx/model.cpp ${_src}/onnx/external.cpp ${_src}/onnx/tensor.cpp
    ${_src}/onnx/reader.cpp ${_src}/onnx/sort.cpp ${_src}/onnx/functions.cpp)
  target_include_directories(fuzz_onnx_reader PRIVATE ${_src} ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(fuzz_onnx_reader PRIVATE -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(fuzz_onnx_reader PRIVATE -fsanitize=fuzzer,address,undefined)
endif()
