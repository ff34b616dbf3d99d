# Installs into a scratch folder and builds two small consumers from there: by find_package and by pkg-config.
if(TARGET tilewright_library AND TARGET tilewright_tool)
  add_test(NAME install COMMAND ${CMAKE_CURRENT_LIST_DIR}/install_test.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR}
    ${CMAKE_CXX_COMPILER} ${CMAKE_C_COMPILER} ${PROJECT_VERSION})
endif()
