# A GPU in host memory, and what translates printed kernels for it. Kernels are linked to the machine when a test compiles them; the
# functions that they call at each access have the names of ThreadSanitizer's, so that a build under that one goes without.
if(NOT TILEWRIGHT_SANITIZE)
  set(_emulator ${CMAKE_CURRENT_LIST_DIR}/emulator)
  add_library(emulated_gpu SHARED ${_emulator}/machine.cpp ${_emulator}/memory.cpp ${_emulator}/matrices.cpp)
  target_include_directories(emulated_gpu PRIVATE tests src)
  target_link_libraries(emulated_gpu PRIVATE tw_support)
  add_library(emulated_plans STATIC ${_emulator}/kernels.cpp ${_emulator}/translate.cpp ${_emulator}/planned.cpp)
  target_include_directories(emulated_plans PUBLIC tests)
  target_link_libraries(emulated_plans PUBLIC tw_target_cuda emulated_gpu)
  target_compile_definitions(emulated_plans PUBLIC TILEWRIGHT_HOST_COMPILER="${CMAKE_CXX_COMPILER}" TILEWRIGHT_EMULATOR="$<TARGET_FILE:emulated_gpu>"
    TILEWRIGHT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(TARGET test_target_cuda)
    target_link_libraries(test_target_cuda PRIVATE emulated_plans)
    target_compile_definitions(test_target_cuda PRIVATE TILEWRIGHT_EMULATED)
  endif()
endif()
