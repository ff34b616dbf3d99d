# The fuzzers of the two readers. They need clang; scripts/fuzz.sh builds and runs them:
#   cmake -DTILEWRIGHT_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-16
# Compiled from sources, so that the readers themselves are instrumented for coverage.
option(TILEWRIGHT_FUZZ "build the fuzzers (clang only)" OFF)
if(TILEWRIGHT_FUZZ)
  set(_src ${CMAKE_SOURCE_DIR}/src)
  file(GLOB _support ${_src}/support/*.cpp)
  file(GLOB _expr ${_src}/expr/*.cpp)
  function(tilewright_fuzzer name)
    add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
    target_include_directories(${name} PRIVATE ${_src} ${CMAKE_SOURCE_DIR}/tests)
    target_compile_options(${name} PRIVATE -O1 -gline-tables-only -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_libraries(${name} PRIVATE Threads::Threads)
  endfunction()
  tilewright_fuzzer(fuzz_onnx_reader ${CMAKE_CURRENT_LIST_DIR}/onnx_reader_fuzz.cpp ${_support}
    ${_src}/onnx/wire.cpp ${_src}/onnx/model.cpp ${_src}/onnx/external.cpp ${_src}/onnx/tensor.cpp
    ${_src}/onnx/reader.cpp ${_src}/onnx/sort.cpp ${_src}/onnx/functions.cpp)
  tilewright_fuzzer(fuzz_text ${CMAKE_CURRENT_LIST_DIR}/text_fuzz.cpp ${_support} ${_expr})
endif()
