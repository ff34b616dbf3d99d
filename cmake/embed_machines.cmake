# cmake -DFILES="a.json;b.json" -DOUT=x.cpp -P embed_machines.cmake
set(_delimiter tw_machine)
set(_entries "")
foreach(_file IN LISTS FILES)
  file(READ ${_file} _text)
  get_filename_component(_name ${_file} NAME_WE)
  string(FIND "${_text}" ")${_delimiter}\"" _clash)
  if(NOT _clash EQUAL -1)
    message(FATAL_ERROR "${_file} contains )${_delimiter}\"")
  endif()
  string(APPEND _entries "    {\"${_name}\", R\"${_delimiter}(${_text})${_delimiter}\"},\n")
endforeach()
file(WRITE ${OUT}.new "// Made from machines/*.json by cmake/embed_machines.cmake.
#include \"machine/embedded.h\"

namespace tilewright {

const std::vector<EmbeddedMachine>& embedded_machines() {
  static const std::vector<EmbeddedMachine> machines = {
${_entries}  };
  return machines;
}

}  // namespace tilewright
")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
file(TOUCH ${OUT})
file(REMOVE ${OUT}.new)
