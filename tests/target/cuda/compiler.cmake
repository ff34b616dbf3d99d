# The run-time compiler that scripts/setup.sh puts beside the other Python packages.
file(GLOB TILEWRIGHT_NVRTC_HERE ${CMAKE_SOURCE_DIR}/.venv/lib/python*/site-packages/nvidia/cu*/lib/libnvrtc.so.*)
if(TILEWRIGHT_NVRTC_HERE AND TEST target_cuda)
  list(GET TILEWRIGHT_NVRTC_HERE 0 _nvrtc)
  set_tests_properties(target_cuda PROPERTIES ENVIRONMENT TILEWRIGHT_NVRTC=${_nvrtc})
endif()
