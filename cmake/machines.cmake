# The shipped machines travel inside the library: machines/*.json becomes one .cpp at build time (cmake -P, no Python).
file(GLOB _machine_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/machines/*.json)
set(_embedded ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded_machines.cpp)
add_custom_command(
  OUTPUT ${_embedded}
  COMMAND ${CMAKE_COMMAND} "-DFILES=${_machine_files}" -DOUT=${_embedded}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_machines.cmake
  DEPENDS ${_machine_files} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_machines.cmake
  COMMENT "Embedding machines/*.json" VERBATIM)
target_sources(tw_machine PRIVATE ${_embedded})
