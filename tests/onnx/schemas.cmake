# The input types of the operator table against the schemas of the onnx package.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  add_test(NAME onnx_schemas COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/schemas.py
           ${CMAKE_SOURCE_DIR}/docs/onnx_operators.md)
endif()
