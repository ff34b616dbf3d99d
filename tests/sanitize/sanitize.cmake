# Sanitizers in the usual tests, for a bounded time: the files with threads are compiled once more with ThreadSanitizer, and those that
# compute addresses with AddressSanitizer and UBSan; everything else comes from the libraries of this build. The readers run under
# sanitizers in scripts/fuzz.sh, and everything does in the long tests (scripts/sanitize.sh).
if(NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_FUZZ AND TARGET tilewright_library AND TARGET GTest::gtest_main)
  set(_src ${CMAKE_SOURCE_DIR}/src)
  set(_tests ${CMAKE_SOURCE_DIR}/tests)
  set(_cpu ${_src}/target/cpu)
  set(_flags -O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all)

  # The leaves of one instruction set: a library of their own, because their flags must not reach anything else.
  function(tilewright_sanitized_leaves name isa sanitizer)
    add_library(${name} OBJECT)
    foreach(file ${TILEWRIGHT_LEAVES})
      target_sources(${name} PRIVATE ${_cpu}/kernels/${file}.cpp)
    endforeach()
    target_include_directories(${name} PRIVATE ${_src})
    target_compile_definitions(${name} PRIVATE TW_ISA=${isa})
    target_compile_options(${name} PRIVATE -fno-exceptions -fno-strict-aliasing ${ARGN} ${_flags} -fsanitize=${sanitizer})
  endfunction()

  function(tilewright_sanitized name sanitizer)
    add_executable(${name} ${ARGN})
    target_include_directories(${name} PRIVATE ${_src} ${_tests} ${CMAKE_SOURCE_DIR}/include)
    target_compile_definitions(${name} PRIVATE TILEWRIGHT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_compile_options(${name} PRIVATE ${_flags} -fsanitize=${sanitizer})
    target_link_options(${name} PRIVATE -fsanitize=${sanitizer})
    target_link_libraries(${name} PRIVATE tw_report GTest::gtest_main Threads::Threads)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  endfunction()

  tilewright_sanitized_leaves(thread_leaves base thread -DHWY_COMPILE_ONLY_SCALAR)
  tilewright_sanitized(sanitized_threads thread $<TARGET_OBJECTS:thread_leaves> ${_cpu}/kernels/kernels.cpp ${_src}/support/threads.cpp ${_cpu}/executor.cpp
    ${_cpu}/kernel_run.cpp ${_src}/runtime/copy.cpp ${_src}/runtime/session.cpp ${_src}/runtime/sessions.cpp ${_src}/api/c_api.cpp
    ${_tests}/support/threads_test.cpp ${_tests}/runtime/concurrent_test.cpp ${_tests}/api/c_api_test.cpp)

  # Of the leaves only one vector set: the others are the same source.
  set(_address address,undefined)
  if(TARGET tw_kernels_avx2)
    tilewright_sanitized_leaves(address_leaves avx2 ${_address} -march=x86-64-v3 -DHWY_DISABLE_PCLMUL_AES)
  elseif(TARGET tw_kernels_neon)
    tilewright_sanitized_leaves(address_leaves neon ${_address} -DTOOLCHAIN_MISS_SYS_AUXV_H)
  else()
    tilewright_sanitized_leaves(address_leaves base ${_address} -DHWY_COMPILE_ONLY_SCALAR)
  endif()
  file(GLOB _cpu_files CONFIGURE_DEPENDS ${_cpu}/*.cpp)
  tilewright_sanitized(sanitized_addresses ${_address} $<TARGET_OBJECTS:address_leaves> ${_cpu_files} ${_src}/runtime/copy.cpp ${_src}/runtime/session.cpp
    ${_src}/api/c_api.cpp ${_tests}/target/cpu/execute_test.cpp ${_tests}/runtime/session_test.cpp ${_tests}/runtime/copy_test.cpp
    ${_tests}/api/c_api_test.cpp)
endif()
if(NOT TILEWRIGHT_SANITIZE AND DEFINED ENV{TILEWRIGHT_LONG})
  foreach(kind address thread)
    add_test(NAME everything_sanitized_${kind} COMMAND ${CMAKE_SOURCE_DIR}/scripts/sanitize.sh ${kind})
  endforeach()
endif()
