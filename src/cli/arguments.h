// The command line as plain structs. Everything that a user can type is known here and in arguments.cpp only.
//
//   tilewright run net.onnx --input x=cat.png --size batch=1 --iterations 20
//   -> RunArguments{ model "net.onnx", inputs {"x=cat.png"}, sizes {batch: 1}, iterations 20 }
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/device.h"
#include "runtime/open.h"

namespace tilewright {

struct Common {
  std::string model;
  std::string device = "cpu";
  OpenOptions open; // sizes, threads, isa, program, passes to leave out
  int warmup = -1;  // -1: the command's own default
  int iterations = -1;
  bool json = false, quiet = false;
};

struct InputArguments {
  std::vector<std::string> inputs;     // NAME=FILE.npy, NAME=FILE.png, NAME=random[:SEED[:LOW:HIGH]]
  std::vector<double> mean, deviation; // of images, a value or one a channel
  std::string layout;                  // nchw, nhwc; empty: as the input's shape suggests
};

struct RunArguments : Common {
  InputArguments in;
  std::string output; // folder; empty: outputs are not written
};

struct PlanArguments : Common {
  std::string output; // file for the plan as JSON
};

struct ExplainArguments : Common {
  std::string kernel; // number or part of a name; empty: all
};

struct DeriveArguments : Common {
  std::string svg; // folder for the diagrams; empty: none
};
struct EmitArguments : Common {
  std::string target = "cuda", arch; // arch: of the machine, where --machine names none
  std::string kernel;                // number or part of a name; empty: all
};

struct VerifyArguments : Common {
  InputArguments in;
  std::string against = "reference";
  std::string python;
  double tolerance = 0; // 0: by the output's type
  bool bisect = false;
};

struct BenchArguments : Common {
  InputArguments in;
  std::string versus; // empty: nobody
  std::string python;
};

struct CacheArguments {
  std::string action; // ls, stat, clear
  bool json = false;
};

using Arguments = std::variant<RunArguments, PlanArguments, ExplainArguments, DeriveArguments, EmitArguments,
                               VerifyArguments, BenchArguments, DeviceOptions, CacheArguments>;

// None where help or the version was asked for; `text` is it. Error(option) for a line that makes no sense.
std::optional<Arguments> parse_arguments(int argc, const char* const* argv, std::string& text);

} // namespace tilewright
