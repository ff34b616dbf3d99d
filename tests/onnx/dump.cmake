if(TARGET tw_onnx)
  add_executable(dump_model ${CMAKE_CURRENT_LIST_DIR}/dump_model.cpp)
  target_link_libraries(dump_model PRIVATE tw_onnx)
endif()
