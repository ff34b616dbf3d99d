// How much memory a model needs from opening to its first answer: at most twice its weights and its largest live activations, above
// what the idle process has.
//
//   measure_memory [SIZE=N | MODEL.onnx]...        a row a model, each in a process of its own; exit code 1 if one needs more. A size
//                                                  holds for the next model; others that are free are 64, a batch is 1.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "expr/sizes.h"
#include "machine/isa.h"
#include "runtime/open.h"
#include "runtime/session.h"

using namespace tilewright;

namespace {

double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

int measure(const std::string& path, const Binding& sizes) {
  const double idle = status_mib("VmHWM");
  OpenOptions o;
  o.session.threads = 2;
  o.session.sizes = sizes;
  Program p = load_program(path, o);
  o.session.sizes.clear();  // they are fixed now
  for (const SizeDecl& size : p.sizes)
    if (is_free(size)) o.session.sizes[size.name] = size.name == "batch" ? 1 : 64;
  std::int64_t weights = 0;
  for (const Tensor& t : p.tensors)
    if (t.kind == Kind::weight) weights += static_cast<std::int64_t>(t.data.size());
  const double imported = status_mib("VmHWM") - idle;
  Session session(p, o.session);
  const double packed = status_mib("VmHWM") - idle;
  std::vector<Array> arrays;
  std::vector<Strided> in, out;
  std::int64_t own = 0;
  auto make = [&](TensorId t, std::vector<Strided>& list) {
    arrays.push_back(Array::make(session.program().tensor(t).dtype, dims_of(session.program().tensor(t))));
    std::memset(arrays.back().data, 0, arrays.back().bytes());
    own += static_cast<std::int64_t>(arrays.back().bytes());
    list.push_back(dense(arrays.back()));
  };
  for (TensorId t : session.program().inputs) make(t, in);
  for (TensorId t : session.program().outputs) make(t, out);
  session.run(in, out);
  const double peak = status_mib("VmHWM") - idle, activations = mib(session.arena_bytes() + own);
  const double scratch = mib(session.executable()->scratch * o.session.threads);   // what walks and packed operands keep, a worker
  const double planes = cpu_features().tiles ? mib(weights) / 2 : 0;      // packed weights as three bf16
  const double allowed = 2 * mib(weights) + planes + activations + scratch;
  std::printf("%-24s weights %6.1f MiB, activations %5.1f, scratch %5.1f, peak after import %6.1f, packing %6.1f, a run %6.1f, allowed %6.1f  %s\n",
              path.substr(path.rfind('/') + 1).c_str(), mib(weights), activations, scratch, imported, packed, peak, allowed,
              peak < allowed ? "ok" : "TOO MUCH");
  return peak < allowed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int failed = 0;
  Binding sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (const std::size_t equals = argument.find('='); equals != std::string::npos) {
      sizes[argument.substr(0, equals)] = std::stoll(argument.substr(equals + 1));
      continue;
    }
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      const int code = measure(argument, sizes);
      std::fflush(stdout);
      _exit(code);
    }
    sizes.clear();
    int status = 1;
    waitpid(child, &status, 0);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed > 0;
}
