// tilewright device [--calibrate]: what we run on, what it is believed to do, and how we know.
#pragma once
#include <ostream>

namespace tilewright {

struct DeviceOptions {
  bool calibrate = false; // measure this CPU first, and keep the figures in the user's settings
  bool json = false;      // one object on the output, nothing else
  bool quiet = false;     // no progress on stderr
  int threads = 0;        // the CPU as so many threads see it; 0: every core
};

int device_command(const DeviceOptions&, std::ostream& out); // the exit code; throws Error

} // namespace tilewright
