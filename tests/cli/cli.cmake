# The tool as a user meets it, driven by a script of Python's unittest.
if(NOT DEFINED TILEWRIGHT_TEST_PYTHON)
  set(TILEWRIGHT_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(TARGET tilewright_tool)
  add_test(NAME cli COMMAND ${TILEWRIGHT_TEST_PYTHON} -m unittest discover -s ${CMAKE_CURRENT_LIST_DIR} -p "*_test.py")
  set_tests_properties(cli PROPERTIES ENVIRONMENT "TILEWRIGHT_TOOL=$<TARGET_FILE:tilewright_tool>")
endif()
