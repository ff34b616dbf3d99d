# The Python package from the source tree, on the library of this build.
if(NOT DEFINED TILEWRIGHT_TEST_PYTHON)
  set(TILEWRIGHT_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(TARGET tilewright_library)
  add_test(NAME python COMMAND ${TILEWRIGHT_TEST_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/session_test.py)
  add_test(NAME python_operators COMMAND ${TILEWRIGHT_TEST_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/operators_test.py)
  add_test(NAME python_sparse_threads COMMAND ${TILEWRIGHT_TEST_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/sparse_threads_test.py)
  set_tests_properties(python python_operators python_sparse_threads PROPERTIES ENVIRONMENT
    "TILEWRIGHT_LIBRARY=$<TARGET_FILE:tilewright_library>;PYTHONPATH=${CMAKE_SOURCE_DIR}/python")
  if(NOT TILEWRIGHT_SANITIZE)  # the emulated GPU is not built then
    add_test(NAME python_sparse_gpu COMMAND ${TILEWRIGHT_TEST_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/sparse_gpu_test.py)
    add_test(NAME python_decode_gpu COMMAND ${TILEWRIGHT_TEST_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/decode_gpu_test.py)
    set_tests_properties(python_sparse_gpu python_decode_gpu PROPERTIES ENVIRONMENT
      "TILEWRIGHT_LIBRARY=$<TARGET_FILE:tilewright_library>;PYTHONPATH=${CMAKE_SOURCE_DIR}/python;TILEWRIGHT_CUDA=$<TARGET_FILE:emulated_cuda>;TILEWRIGHT_NVRTC=$<TARGET_FILE:emulated_cuda>;TILEWRIGHT_CACHE_DIR=${CMAKE_BINARY_DIR}/emulated_cache")
  endif()
  # What stands around kernels of a GPU, with a driver that has none; and the run-time compiler, if it is here.
  file(GLOB _nvrtc ${CMAKE_SOURCE_DIR}/.venv/lib/python*/site-packages/nvidia/cu*/lib/libnvrtc.so.*)
  if(_nvrtc)
    list(GET _nvrtc 0 _nvrtc)
    set_property(TEST python APPEND PROPERTY ENVIRONMENT "TILEWRIGHT_FAKE_CUDA=$<TARGET_FILE:fake_cuda>;TILEWRIGHT_NVRTC=${_nvrtc}")
  endif()
  add_test(NAME wheel COMMAND ${CMAKE_CURRENT_LIST_DIR}/wheel_test.sh ${TILEWRIGHT_TEST_PYTHON} $<TARGET_FILE:tilewright_library>)
  set_tests_properties(wheel PROPERTIES SKIP_RETURN_CODE 77)
endif()
