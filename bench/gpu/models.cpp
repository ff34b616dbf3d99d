// Every distinct kernel of whole models on a GPU: right against the CPU target that runs the same nest, and timed.
//   bench_gpu_models check|time|both MODEL [apart] [NAME=SIZE ...]   one line a kernel and a sum: what was measured,
//   what was predicted bench_gpu_models compile MODEL [apart] [NAME=SIZE ...]           without a GPU: what the
//   compiler says
#include "gpu/made.h"
#include "runtime/open.h"

namespace {

using namespace tilewright;
using namespace tilewright::bench;

Plan plan_of(int argc, char** argv) {
  OpenOptions o;
  o.open_weights = false;
  for (int i = 3; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "apart") {
      o.session.fuse = false;
      continue;
    }
    const std::size_t at = text.find('=');
    if (at == std::string::npos) throw Error(Code::option, text, "NAME=SIZE is wanted");
    o.session.sizes.insert(parse_size(text.substr(0, at), text.substr(at + 1)));
  }
  Program p = load_program(argv[2], o);
  std::erase_if(o.session.sizes, [&](const auto& size) { // an import has bound its own
    return std::none_of(p.sizes.begin(), p.sizes.end(), [&](const SizeDecl& d) { return d.name == size.first; });
  });
  o.session.machine = "h200";
  return plan_program(p, o.session);
}

double tolerance(const Program& p) {
  double most = 1e-6;
  for (TensorId t : p.outputs)
    most = std::max(most, p.tensor(t).dtype == DType::f16 ? 1e-3 : p.tensor(t).dtype == DType::bf16 ? 8e-3 : 1e-5);
  return most;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return std::fprintf(stderr, "usage: bench_gpu_models check|time|both|compile MODEL [NAME=SIZE ...]\n"), 2;
  const std::string mode = argv[1];
  try {
    const Plan plan = plan_of(argc, argv);
    const auto kernels = testing::distinct_kernels(plan);
    std::vector<GpuCase> cases;
    for (const auto& [c, count] : kernels) cases.push_back(c);
    std::optional<cuda::Device> device;
    if (mode != "compile") device.emplace();
    const std::vector<Made> made = make_all(cases, plan.machine.arch);
    double all = 0, predicted = 0;
    bool right = true;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Made& k = made[i];
      const int count = kernels[i].second;
      if (!k.source) {
        std::printf("%-26s refused: %s\n", k.c.name.c_str(), k.why.c_str());
        right = false;
        continue;
      }
      std::string said;
      if (device) {
        const Placed at = place(*device, k, mode == "check" ? 1 : 4);
        if (mode != "time") {
          const double error = error_of(*device, k, at);
          const bool fine = error < tolerance(*k.c.program);
          right &= fine;
          said += fmt::format("{} {:.1e} ", fine ? "right" : "WRONG", error);
        }
        if (mode != "check") {
          const double seconds = seconds_of(*device, k, at);
          all += seconds * count, predicted += k.c.predicted * count;
          said += fmt::format("{} x {:.2f} us (predicted {:.2f})", count, seconds * 1e6, k.c.predicted * 1e6);
        }
        device->release_memory();
      } else {
        predicted += k.c.predicted * count;
        said = fmt::format("{} x predicted {:.2f} us", count, k.c.predicted * 1e6);
      }
      std::printf("%-26s %s  %s\n", k.c.name.c_str(), said.c_str(), facts(k).c_str());
      std::fflush(stdout);
    }
    std::printf("%zu kernels, %zu distinct: %.1f us, predicted %.1f us\n", plan.kernels.size(), made.size(), all * 1e6,
                predicted * 1e6);
    return right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 4;
  }
}
