# A driver without a GPU, for what stands around kernels.
add_library(fake_cuda MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_driver.cpp)
if(TARGET test_runtime)
  add_dependencies(test_runtime fake_cuda)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/tests/runtime/cuda_session_test.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    TILEWRIGHT_FAKE_CUDA="$<TARGET_FILE:fake_cuda>")
  file(GLOB _nvrtc ${CMAKE_SOURCE_DIR}/.venv/lib/python*/site-packages/nvidia/cu*/lib/libnvrtc.so.*)
  if(_nvrtc)
    list(GET _nvrtc 0 _nvrtc)
    set_tests_properties(runtime PROPERTIES ENVIRONMENT TILEWRIGHT_NVRTC=${_nvrtc})
  endif()
endif()
