# Test programs that are no GoogleTest folder bring a .cmake file of their own.
file(GLOB _more CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*/*.cmake ${CMAKE_CURRENT_LIST_DIR}/*/*/*.cmake)
foreach(file ${_more})
  include(${file})
endforeach()
