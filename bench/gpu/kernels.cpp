// Kernels on a GPU: right against the CPU target that runs the same nest, and timed. Prints one line a kernel.
// FILTER: a part of its name, or several with commas between them.
//   bench_gpu check|small|time [FILTER]     small: the kernels that a sanitizer can go through
//   bench_gpu once [FILTER]                 each kernel once, for a profiler
//   bench_gpu explore N [FILTER]            N schedules of each kernel: what was predicted and what was measured
//   bench_gpu prices [FILTER]               without a GPU: every schedule and its predicted microseconds
//   bench_gpu dump DIR [FILTER]             machine code and manifest.json for peers.py
//   bench_gpu sources DIR [FILTER]          without a GPU: what is compiled, and what the compiler says
#include <fstream>

#include <fmt/ranges.h>

#include "gpu/made.h"

namespace {

using namespace tilewright;
using namespace tilewright::bench;

// A pair (depthwise 3 x 3, pointwise), a matmul or attention, as peers.py will make it too.
struct Kernel {
  enum class What { matmul, pair, attention } what = What::pair;
  int n = 1, size = 1, c = 1, f = 1, stride = 1;     // a matmul is n x size x c
  const char* dtype = "f16";
  bool small = false;
  testing::Attention attention = {};
  std::string called = {};               // of attention
  std::string behind = {};               // a matmul's: what is computed of it
  std::string name() const {
    return what == What::pair     ? fmt::format("pair_{0}x{0}x{1}_{2}{3}_n{4}_{5}", size, c, f, stride == 1 ? "" : "_s2", n, dtype)
           : what == What::matmul ? fmt::format("matmul_{}{}{}x{}x{}_{}", behind, behind.empty() ? "" : "_", n, size, c, dtype)
                                  : called;
  }
  std::string text() const {
    return what == What::pair     ? testing::depthwise_pointwise(n, size, c, f, stride, dtype)
           : what == What::matmul ? behind.empty() ? testing::matmul(n, size, c, dtype) : testing::matmul_with(behind, n, size, c, dtype)
                                  : testing::attention(attention);
  }
  const char* kind() const { return what == What::pair ? "pair" : what == What::matmul ? "matmul" : "attention"; }
};

using Weights = testing::Attention::Weights;
Kernel of(std::string kind, testing::Attention a, bool small = false) {
  Kernel k;
  k.what = Kernel::What::attention, k.attention = a, k.small = small, k.dtype = a.dtype;
  k.called = fmt::format("attention_{}{}_h{}_{}_d{}_{}", kind, small ? "_small" : "", a.heads * a.queries_heads, a.keys, a.depth, a.dtype);
  return k;
}

// Every kind in small, for comparison; and what peers are timed on: 16k tokens in batches of 1k, 4k and 16k.
std::vector<Kernel> attentions() {
  std::vector<Kernel> list = {
      of("full", {.heads = 2, .queries = 256, .keys = 320}, true), of("full", {.queries = 320, .keys = 320, .depth = 128, .width = 128, .dtype = "f16"}, true),
      of("causal", {.heads = 3, .queries = 330, .keys = 330, .depth = 128, .width = 128, .causal = true}, true), of("causal", {.heads = 2, .queries = 700, .keys = 700, .causal = true}, true),
      of("window", {.heads = 2, .queries = 600, .keys = 600, .causal = true, .window = 100}, true), of("alibi", {.heads = 2, .queries = 330, .keys = 330, .causal = true, .alibi = true}, true),
      of("softcap", {.heads = 2, .queries = 256, .keys = 330, .softcap = true}, true), of("grouped", {.heads = 2, .queries_heads = 4, .queries = 300, .keys = 300, .causal = true}, true),
      of("cross", {.heads = 2, .queries = 130, .keys = 500}, true), of("lengths", {.heads = 5, .queries = 200, .keys = 400, .lengths = true}, true),
      of("few_rows", {.heads = 3, .queries_heads = 4, .queries = 1, .keys = 640, .depth = 128, .width = 128}, true), of("l2", {.heads = 2, .queries = 256, .keys = 256, .weights = Weights::l2}, true), of("sigmoid", {.heads = 2, .queries = 256, .keys = 256, .weights = Weights::sigmoid}, true),
      of("sums", {.heads = 2, .queries = 256, .keys = 256, .causal = true, .sums = true}, true), of("full", {.heads = 2, .queries = 256, .keys = 256, .depth = 256, .width = 256}, true),
      of("full", {.heads = 2, .queries = 256, .keys = 256, .depth = 192, .width = 128}, true), of("full", {.heads = 2, .queries = 256, .keys = 256, .depth = 96, .width = 96}, true),
      of("causal", {.heads = 2, .queries = 256, .keys = 256, .depth = 80, .width = 80, .causal = true}, true), of("full", {.heads = 2, .queries = 256, .keys = 256, .depth = 32, .width = 32}, true),
  };
  for (const auto& [depth, heads] : {std::pair{64, 32}, {128, 16}, {256, 8}})
    for (bool causal : {false, true})
      for (int length : {1024, 4096, 16384}) {
        testing::Attention a{.heads = heads * 16384 / length, .queries = length, .keys = length, .depth = depth, .width = depth, .causal = causal};
        list.push_back(of(causal ? "causal" : "full", a));
      }
  for (bool causal : {false, true})
    for (int length : {2048, 8192, 32768})
      list.push_back(of(causal ? "grouped_causal" : "grouped", {.heads = 8 * std::max(1, 16384 / length), .queries_heads = 8, .queries = length, .keys = length, .depth = 128, .width = 128, .causal = causal}));
  const testing::Attention flex{.heads = 16, .queries = 16384, .keys = 16384, .depth = 128, .width = 128};
  auto with = [&](auto change) {
    testing::Attention a = flex;
    change(a);
    return a;
  };
  list.push_back(of("softcap", with([](auto& a) { a.softcap = true; })));
  list.push_back(of("alibi", with([](auto& a) { a.alibi = a.causal = true; })));
  list.push_back(of("window", with([](auto& a) { a.causal = true, a.window = 1024; })));
  list.push_back(of("l2", with([](auto& a) { a.weights = Weights::l2; })));
  list.push_back(of("sigmoid", with([](auto& a) { a.weights = Weights::sigmoid; })));
  list.push_back(of("full", with([](auto& a) { a.depth = 192; })));
  return list;
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> list = {
 {Kernel::What::pair, 2, 13, 40, 48, 1, "f16", true}, {Kernel::What::pair, 1, 9, 20, 24, 1, "f32", true}, {Kernel::What::pair, 1, 16, 32, 48, 2, "bf16", true}, {Kernel::What::pair, 1, 14, 512, 512, 1, "f16", true},
 {Kernel::What::matmul, 150, 96, 100, 1, 1, "f16", true}, {Kernel::What::matmul, 256, 192, 200, 1, 1, "f16", true}, {Kernel::What::matmul, 96, 72, 50, 1, 1, "f32", true}, {Kernel::What::pair, 32, 112, 32, 64, 1, "f16"},
 {Kernel::What::pair, 32, 56, 128, 128, 1, "f16"}, {Kernel::What::pair, 32, 28, 256, 256, 1, "f16"}, {Kernel::What::pair, 32, 14, 512, 512, 1, "f16"}, {Kernel::What::pair, 32, 7, 1024, 1024, 1, "f16"},
 {Kernel::What::pair, 1, 112, 32, 64, 1, "f16"}, {Kernel::What::pair, 1, 56, 128, 128, 1, "f16"}, {Kernel::What::pair, 1, 28, 256, 256, 1, "f16"}, {Kernel::What::pair, 1, 7, 1024, 1024, 1, "f16"},
 {Kernel::What::pair, 1, 56, 128, 128, 1, "f32"}, {Kernel::What::pair, 32, 56, 128, 128, 1, "f32"}, {Kernel::What::pair, 1, 14, 512, 512, 1, "f32"}, {Kernel::What::matmul, 4096, 4096, 4096, 1, 1, "f16"},
 {Kernel::What::matmul, 8192, 8192, 8192, 1, 1, "f16"}, {Kernel::What::matmul, 1024, 1024, 1024, 1, 1, "f32"}, {Kernel::What::matmul, 4096, 4096, 4096, 1, 1, "f32"},
 {Kernel::What::matmul, 8192, 6144, 4096, 1, 1, "bf16"}, {Kernel::What::matmul, 8192, 28672, 4096, 1, 1, "bf16"}, {Kernel::What::matmul, 8192, 4096, 14336, 1, 1, "bf16"},
  };
  for (const bool small : {true, false})
    for (const char* behind : {"bias", "relu", "residual", "gate", "normed"}) {
      Kernel k{Kernel::What::matmul, 8192, 6144, 4096, 1, 1, "bf16", small};
      if (small) k.n = 256, k.size = 192, k.c = 256;
      k.behind = behind, list.push_back(k);
    }
  for (Kernel& k : attentions()) list.push_back(std::move(k));
  return list;
}
const std::vector<Kernel> measured = all_kernels();

double multiply_adds(const GpuCase& c) {
  double n = 0;
  for (StatementId id : c.region.statements) {
    const Statement& s = *c.program->statement(id);
    if (s.reduced.empty()) continue;
    double points = 1;
    for (const Size& e : s.axes) points *= static_cast<double>(e.constant());
    n += points;
  }
  return n;
}

// Floats: sums of so many products differ by their roundings, which grow as a random walk does.
double bound_of_sums(const Program& p) {
  double most = 1;
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n))) {
      double products = 1;
      for (AxisId a : s->reduced) products *= static_cast<double>(s->axes[static_cast<std::size_t>(a)].constant());
      most = std::max(most, products);
    }
  return std::max(1e-6, 4e-8 * std::sqrt(most));
}

// One kernel: checked, timed, printed.
bool run(cuda::Device& device, const Made& k, bool check, bool time) {
  if (!k.source) {
    std::printf("%-28s refused: %s\n", k.c.name.c_str(), k.why.c_str());
    return false;
  }
  const Placed at = place(device, k, time ? 8 : 1);
  std::string verdict = "not checked", timing;
  bool right = true;
  if (check) {
    const double error = error_of(device, k, at);
    const DType t = k.c.program->tensor(k.c.program->outputs[0]).dtype;
    right = error < (t == DType::f32 ? bound_of_sums(*k.c.program) : t == DType::f16 ? 5e-4 : 4e-3);
    verdict = fmt::format("{} {:.1e}", right ? "right" : "WRONG", error);
  }
  if (time) {
    const double seconds = seconds_of(device, k, at);
    timing = fmt::format("{:9.2f} us (predicted {:.1f}) {:7.1f} TFLOP/s", seconds * 1e6, k.c.predicted * 1e6, 2e-12 * multiply_adds(k.c) / seconds);
  }
  if (!check && !time) {
    device.launch(launch_of(k, at), at.sets[0]);
    device.synchronise();
    const Cost moved = cost(*k.c.program, k.c.region, k.c.schedule, machine_named("h200"));
    timing = fmt::format("moves {} bytes, at least {}", moved.loaded + moved.stored, moved.compulsory);
  }
  device.release_memory();
  std::printf("%-28s %-14s %s  %s\n", k.c.name.c_str(), verdict.c_str(), timing.c_str(), facts(k).c_str());
  std::fflush(stdout);
  return right;
}

// `n` schedules: a third of them the best by prediction, the others drawn from those that are up to four times as slow.
void explore(cuda::Device& device, const Kernel& kernel, const Machine& machine, std::size_t n) {
  GpuCase first = testing::gpu_case(kernel.name(), kernel.text(), machine);
  const auto choices = block_choices(*first.program, first.region, machine, first.layouts);
  std::size_t end = 0;
  while (end < choices.size() && choices[end].seconds < 4 * choices[0].seconds) ++end;
  std::vector<GpuCase> cases;
  std::uint64_t seed = 1;
  for (std::size_t i = 0; i < std::min(n, end); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const double u = static_cast<double>(seed >> 40) / 16777216.0;
    const std::size_t at = i < n / 3 ? i : std::min(end - 1, n / 3 + static_cast<std::size_t>(u * u * static_cast<double>(end)));
    GpuCase c = first;
    c.schedule = choices[at].schedule, c.predicted = choices[at].seconds;
    c.nest = expand(*c.program, c.region, c.schedule, c.name);
    cases.push_back(std::move(c));
  }
  std::printf("== %s: %zu schedules priced\n", kernel.name().c_str(), choices.size());
  std::optional<Placed> at;
  std::vector<double> seconds;           // of those that have a source, the planned one first
  for (const Made& k : make_all(cases, device.arch())) {
    if (!k.source) {
      std::printf("refused: %s\n", k.why.c_str());
      continue;
    }
    if (!at) at = place(device, k, 8);
    at->function = device.load(k.code, k.source->name, k.source->scratch);
    seconds.push_back(seconds_of(device, k, *at));
    std::printf("%.2f %.2f %s\n", seconds.back() * 1e6, k.c.predicted * 1e6, facts(k).c_str());
    std::fflush(stdout);
  }
  if (!seconds.empty()) {
    const double best = *std::min_element(seconds.begin(), seconds.end());
    std::printf("%s: of %zu timed schedules the first planned takes %.2f us, the best %.2f: %.1f %% more\n", kernel.name().c_str(), seconds.size(), seconds[0] * 1e6, best * 1e6, (seconds[0] / best - 1) * 100);
  }
  device.release_memory();
}

bool has_one_of(const std::string& name, const std::string& filter) {
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(filter.find(',', at), filter.size());
    if (name.find(filter.substr(at, end - at)) != std::string::npos) return true;
    if (end == filter.size()) return false;
    at = end + 1;
  }
}

// The arguments by name, in order.
std::string inputs_of(const Made& k) {
  std::string text;
  for (TensorId t : k.source->arguments) text += fmt::format("{}\"{}\"", text.empty() ? "[" : ", ", k.c.program->tensor(t).name);
  return text + "]";
}
std::string facts_of(const testing::Attention& a) {
  const char* weights = a.weights == Weights::softmax ? "softmax" : a.weights == Weights::sigmoid ? "sigmoid" : "l2";
  return fmt::format("\"heads\": {}, \"queries_heads\": {}, \"queries\": {}, \"keys\": {}, \"depth\": {}, \"width\": {}, \"weights\": \"{}\", \"causal\": {}, \"window\": {}, "
                     "\"alibi\": {}, \"softcap\": {}, \"lengths\": {}, \"sums\": {}",
                     a.heads, a.queries_heads, a.queries, a.keys, a.depth, a.width, weights, a.causal, a.window, a.alibi, a.softcap, a.lengths, a.sums);
}

void dump(cuda::Device& device, const std::vector<Kernel>& list, const std::vector<Made>& made, const std::string& folder) {
  std::string json;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Made& k = made[i];
    if (!k.source) continue;
    std::ofstream(folder + "/" + k.c.name + ".cubin", std::ios::binary) << k.code.code;
    const Cost moved = cost(*k.c.program, k.c.region, k.c.schedule, machine_named("h200"));
    std::string maps;
    for (const cuda::TensorMap& map : k.source->maps)
      maps += fmt::format("{}{{\"argument\": {}, \"dtype\": \"{}\", \"dims\": [{}], \"box\": [{}], \"strides\": [{}]}}", maps.empty() ? "" : ", ", map.argument, name_of(map.dtype),
                          fmt::join(map.dims, ", "), fmt::join(map.box, ", "), fmt::join(map.strides, ", "));
    json += fmt::format("{}{{\"name\": \"{}\", \"entry\": \"{}\", \"kind\": \"{}\", \"n\": {}, \"size\": {}, \"c\": {}, \"f\": {}, \"stride\": {}, \"dtype\": \"{}\", \"blocks\": {}, "
                        "\"threads\": {}, \"scratch\": {}, \"predicted\": {}, \"l2_bytes\": {}, \"compulsory\": {}, \"multiply_adds\": {}, \"maps\": [{}], \"inputs\": {}, \"behind\": \"{}\", \"schedule\": \"{}\", {}}}",
                        json.empty() ? "[" : ",\n ", k.c.name, k.source->name, list[i].kind(), list[i].n, list[i].size, list[i].c, list[i].f, list[i].stride,
                        list[i].dtype, k.source->blocks, k.source->threads, k.source->scratch, k.c.predicted, moved.loaded + moved.stored, moved.compulsory, multiply_adds(k.c), maps, inputs_of(k),
                        list[i].behind, facts(k), facts_of(list[i].attention));
  }
  std::ofstream(folder + "/manifest.json") << json << "]\n";
  std::printf("%s: %zu kernels for %s\n", folder.c_str(), made.size(), device.arch().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "check";
  const bool counted = mode == "explore" || mode == "dump" || mode == "sources";
  const std::string filter = argc > (counted ? 3 : 2) ? argv[counted ? 3 : 2] : "";
  try {
    const Machine h200 = machine_named("h200");
    std::vector<Kernel> list;
    for (const Kernel& k : measured)
      // Long attention is judged beside its peers: the CPU takes too long for it. Small kernels have no peers.
      if (has_one_of(k.name(), filter) && (k.small ? mode != "dump" : !(mode == "small" || (mode == "check" && k.what == Kernel::What::attention)))) list.push_back(k);
    if (mode == "sources") {
      for (const Kernel& k : list) {
        const Made made = make(testing::gpu_case(k.name(), k.text(), h200), h200.arch);
        std::printf("%-28s %s\n", k.name().c_str(), made.source ? facts(made).c_str() : made.why.c_str());
        if (!made.source) continue;
        std::ofstream(fmt::format("{}/{}.cu", argv[2], k.name()))
            << print(*made.c.program, made.c.region, made.c.schedule, specialise(*made.c.program, made.c.nest)) << cuda::primitives() << made.source->text;
      }
      return 0;
    }
    if (mode == "prices") {
      for (const Kernel& k : list) {
        const GpuCase c = testing::gpu_case(k.name(), k.text(), h200);
        std::printf("== %s\n", k.name().c_str());
        for (const BlockChoice& choice : block_choices(*c.program, c.region, h200, c.layouts)) std::printf("%.2f %s\n", choice.seconds * 1e6, facts(c.region, choice.schedule).c_str());
      }
      return 0;
    }
    cuda::Device device;
    std::printf("%s, %s\n", device.name().c_str(), device.arch().c_str());
    if (mode == "explore") {
      for (const Kernel& k : list) explore(device, k, h200, static_cast<std::size_t>(std::stoul(argv[2])));
      return 0;
    }
    std::vector<GpuCase> cases;
    for (const Kernel& k : list) cases.push_back(testing::gpu_case(k.name(), k.text(), h200));
    const std::vector<Made> made = make_all(cases, device.arch());
    if (mode == "dump") return dump(device, list, made, argc > 2 ? argv[2] : "."), 0;
    bool right = true;
    for (std::size_t i = 0; i < made.size(); ++i) right &= run(device, made[i], mode == "check" || mode == "small", mode == "time");
    return right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 4;
  }
}
