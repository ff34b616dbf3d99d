# The C interface as a stranger sees it: one header, the shared library, nothing of src/.
if(TARGET tilewright_library AND TARGET GTest::gtest_main)
  add_executable(test_api ${CMAKE_CURRENT_LIST_DIR}/c_api_test.cpp ${CMAKE_CURRENT_LIST_DIR}/operators_test.cpp)
  target_compile_definitions(test_api PRIVATE TILEWRIGHT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(test_api PRIVATE tilewright_library GTest::gtest_main Threads::Threads)
  add_test(NAME api COMMAND test_api)
endif()
