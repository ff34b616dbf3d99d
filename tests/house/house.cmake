# No names in passes: a pass that knows a model or an operator by name has a special case where a law is missing.
add_test(NAME no_names_in_passes
         COMMAND sh -c "cd ${CMAKE_SOURCE_DIR}/src && for d in law schedule cost sparse plan loop model target; do [ ! -d $d ] || echo $d; done | xargs grep -rniE 'softmax|attention|layernorm|gelu|mobilenet|resnet|dwpw|pwdw|pwpw|moe\\b'; test $? -ne 0")
# Folders stand in pipeline order: a file includes only its own folder and those before it.
add_test(NAME includes_follow_the_pipeline COMMAND ${CMAKE_SOURCE_DIR}/scripts/check_includes.sh)
# Do the tests notice mistakes in what decides which bytes move?
if(DEFINED ENV{TILEWRIGHT_LONG})
  add_test(NAME mistakes_are_noticed COMMAND ${CMAKE_SOURCE_DIR}/scripts/mutate.py --scratch ${CMAKE_BINARY_DIR}/mutate)
endif()
