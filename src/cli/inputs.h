// A model opened with values for all of its inputs: what run, verify and bench work on.
//
//   Opened m = open_model(arguments, arguments.in);       // x=cat.png, everything else random
//   Session s(m.program, m.options);
//   s.run(strided(m.inputs), ...);
//
// Free sizes come from --size, from the shapes of .npy inputs, or from their defaults; one that is an input's first dim
// is otherwise 1. A text program's weights are given like inputs, and are random where they are not.
#pragma once
#include "cli/arguments.h"

namespace tilewright {

struct Opened {
  Program program; // sizes fixed, weights bound
  SessionOptions options;
  std::vector<Array> inputs;        // in the order of program.inputs
  std::vector<std::string> origins; // of the inputs: "cat.png", "random, seed 0"
  double seconds = 0;               // to read and import the model
};
Opened open_model(const Common&, const InputArguments&);

// For plan and explain: no inputs, and free sizes that nobody gave take the value to plan for; without `batches` a batch too.
Opened open_to_plan(const Common&, bool batches = true);

std::vector<Strided> strided(const std::vector<Array>&);
std::vector<Array> make_outputs(const Program&);
// Of each output the rows that are results, as Session::run told them.
void cut(std::vector<Array>& outputs, const std::vector<std::vector<std::int64_t>>& dims);
double element(const Array&, std::int64_t position); // any type as a number

} // namespace tilewright
