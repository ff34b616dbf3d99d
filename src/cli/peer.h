// ONNX Runtime as a peer: a child process of the Python in which it is installed, .npy in and out.
//
//   Peer peer(python, "net.onnx", threads, names, inputs);
//   peer.version()            // "onnxruntime 1.32.0"
//   peer.outputs(names)       // as arrays
//   peer.time(10)             // seconds of ten runs
//
// Error(device) if there is no such Python or it has no onnxruntime; Error(check) if the peer refuses the model.
#pragma once
#include <string>
#include <vector>

#include "cli/console.h"
#include "expr/program.h"

namespace tilewright {

struct NamedArray {
  std::string name;
  Array array;
};

// --python, TILEWRIGHT_PYTHON, the active virtual environment, or python3.
std::string python_for_peer(const std::string& option);

class Peer {
public:
  Peer(const std::string& python, const std::string& model, int threads, const std::vector<NamedArray>& inputs);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& version() const { return version_; }
  std::vector<Array> outputs(const std::vector<std::string>& names, const std::vector<DType>& types);
  std::vector<double> time(int runs);

private:
  void start(const std::vector<std::string>& command);
  void stop();
  std::string ask(const std::string& line);
  std::string read_line();

  Cancellable region_; // Ctrl-C interrupts our waiting, so that the folder is removed and the child ends
  ScratchFolder folder_;
  std::string version_, pending_;
  int to_ = -1, from_ = -1, process_ = -1;
};

} // namespace tilewright
