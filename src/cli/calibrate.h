// Measures the running CPU: what one core multiplies, what each level of memory delivers, what a parallel region costs.
//
//   Calibration c = calibrate(read_host(), [](const std::string& line) { std::cerr << line << "\n"; });
//   save_calibration(c, calibration_path());          // from now on this_cpu() prices with these
//
// Plain loops, each repeated and the best kept, a few seconds in all. Other work on the machine makes the figures
// smaller, never larger.
#pragma once
#include <functional>
#include <string>

#include "machine/host.h"

namespace tilewright {

// Error(device) if this build is not optimised (it would measure the compiler's spilling), Error(memory) if too little
// is free. `seconds` is the time given to each figure.
Calibration calibrate(const Host&, const std::function<void(const std::string&)>& progress, double seconds = 0.2);

} // namespace tilewright
