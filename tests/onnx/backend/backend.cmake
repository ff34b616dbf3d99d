# The ONNX backend node tests: `generate.py DIR` writes them, run_node_tests DIR runs them.
add_executable(run_node_tests ${CMAKE_CURRENT_LIST_DIR}/run_node_tests.cpp)
target_include_directories(run_node_tests PRIVATE tests)
target_link_libraries(run_node_tests PRIVATE tw_runtime)
