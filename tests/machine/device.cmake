# `tilewright device` is part of the tool, which no test links: its two files are compiled into the test.
if(TARGET test_machine)
  target_sources(test_machine PRIVATE ${CMAKE_SOURCE_DIR}/src/cli/device.cpp ${CMAKE_SOURCE_DIR}/src/cli/calibrate.cpp)
  target_link_libraries(test_machine PRIVATE tw_target_cpu ${CMAKE_DL_LIBS})
endif()
