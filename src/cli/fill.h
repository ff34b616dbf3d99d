// Values for inputs: random ones, and pictures.
#pragma once
#include <string>
#include <vector>

#include "expr/program.h"

namespace tilewright {

// random[:SEED[:LOW:HIGH]]. Floats are normal, or uniform between the bounds; integers are 0 or 1 (which any table can
// be asked for), or uniform between the bounds.
struct RandomSpec {
  std::uint64_t seed = 0;
  bool bounded = false;
  double low = 0, high = 1;
};
bool is_random(const std::string& spec);
RandomSpec random_spec(const std::string& spec);                          // Error(option)
Array random_array(const Tensor&, const RandomSpec&, std::size_t number); // number: inputs of one seed differ
Array random_weight(const Tensor&, std::size_t number);                   // small, so that sums over them stay moderate

struct PictureOptions {
  std::vector<double> mean, deviation;
  std::string layout;
};
Array picture(const Tensor&, const std::string& path, const PictureOptions&);

void set_element(const Array&, std::int64_t position, double value);

} // namespace tilewright
