// Normal forms: every program is brought into one shape before it is planned, however it was spelled.
//
// normalise runs the passes below in order, each named, each leaving an equal program; a pass can be left out by name. Sizes are
// fixed. Example: a reshape, a transpose and a scale between two contractions leave no statement behind, only indices.
#pragma once
#include "expr/program.h"

namespace tilewright {

struct Pass {
  const char* name;
  const char* does;
  Program (*run)(Program);
  std::vector<std::string> (*refusals)(const Program&) = nullptr;                  // what it leaves of a program, and why, for the log
};
const std::vector<Pass>& passes();                                                  // in the order in which they run
Program normalise(Program, const std::vector<std::string>& without = {});           // Error(option) for a name that is no pass
// log: what changed, a line a pass ("views: 41 statements less"), for explain. times: of each pass that ran.
struct PassTime { const char* name; double seconds; };
Program normalise(Program, const std::vector<std::string>& without, std::vector<std::string>* log, std::vector<PassTime>* times = nullptr);

}  // namespace tilewright
