# The NEON leaves under emulation, in the long tests: needs g++-aarch64-linux-gnu and qemu-user.
if(DEFINED ENV{TILEWRIGHT_LONG} AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  find_program(TILEWRIGHT_ARM_CXX aarch64-linux-gnu-g++)
  find_program(TILEWRIGHT_ARM_CC aarch64-linux-gnu-gcc)
  find_program(TILEWRIGHT_ARM_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
  if(TILEWRIGHT_ARM_CXX AND TILEWRIGHT_ARM_CC AND TILEWRIGHT_ARM_EMULATOR)
    set(_neon ${CMAKE_BINARY_DIR}/neon)
    add_test(NAME neon_build
             COMMAND sh -c "\"${CMAKE_COMMAND}\" -S \"${CMAKE_CURRENT_LIST_DIR}/neon\" -B \"${_neon}\" -G Ninja \
-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=${TILEWRIGHT_ARM_CXX} \
-DCMAKE_C_COMPILER=${TILEWRIGHT_ARM_CC} && \"${CMAKE_COMMAND}\" --build \"${_neon}\" --target test_leaves")
    add_test(NAME neon COMMAND ${CMAKE_COMMAND} -E env --unset=TILEWRIGHT_LONG ${TILEWRIGHT_ARM_EMULATOR}
                               -L /usr/aarch64-linux-gnu ${_neon}/test_leaves)
    set_tests_properties(neon_build PROPERTIES FIXTURES_SETUP neon)
    set_tests_properties(neon PROPERTIES FIXTURES_REQUIRED neon)
  else()
    message(STATUS "no neon test: it needs g++-aarch64-linux-gnu and qemu-user")
  endif()
endif()
