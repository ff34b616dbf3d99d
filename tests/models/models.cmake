# Models with free sizes at several shapes. Whole models against ONNX Runtime, intermediates included: trained ones, the pairs, and the
# zoo at 96 x 96; at full size with TILEWRIGHT_LONG.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python AND TARGET tilewright_library)
  set(_compare ${CMAKE_COMMAND} -E env TILEWRIGHT_LIBRARY=$<TARGET_FILE:tilewright_library> PYTHONPATH=${CMAKE_SOURCE_DIR}/python
      ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/compare.py)
  add_test(NAME models_free_sizes COMMAND ${CMAKE_COMMAND} -E env TILEWRIGHT_LIBRARY=$<TARGET_FILE:tilewright_library>
           ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/free_sizes.py $<TARGET_FILE:print_models>)
  add_test(NAME models COMMAND ${_compare} trained pairs)
  add_test(NAME models_zoo COMMAND ${_compare} networks)
  set_tests_properties(models models_zoo PROPERTIES TIMEOUT 1500)
  add_executable(run_quantised ${CMAKE_CURRENT_LIST_DIR}/run_quantised.cpp)
  target_link_libraries(run_quantised PRIVATE tw_runtime)
  add_test(NAME models_quantised COMMAND ${CMAKE_COMMAND} -E env TILEWRIGHT_LIBRARY=$<TARGET_FILE:tilewright_library>
           PYTHONPATH=${CMAKE_SOURCE_DIR}/python ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/quantised.py
           $<TARGET_FILE:run_quantised>)
  if(DEFINED ENV{TILEWRIGHT_LONG})
    add_test(NAME models_full_size COMMAND ${_compare} --long networks)
  endif()
endif()
# Peak memory, from opening to the first answer.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python AND TARGET tw_runtime)
  add_executable(measure_memory ${CMAKE_CURRENT_LIST_DIR}/memory.cpp)
  target_link_libraries(measure_memory PRIVATE tw_runtime)
  set(_measured mobilenet_v2 mobilenet_v1)
  if(DEFINED ENV{TILEWRIGHT_LONG})
    set(_measured networks)
  endif()
  if(NOT TILEWRIGHT_SANITIZE)
    add_test(NAME memory COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_LIST_DIR}/memory.py $<TARGET_FILE:measure_memory> ${_measured})
  endif()
endif()
