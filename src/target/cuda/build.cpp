#include "target/cuda/build.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "law/excerpt.h"
#include "loop/through.h"
#include "plan/choose.h"
#include "target/cuda/kernel_cache.h"
#include "target/cuda/masked_turns.h"

namespace tilewright::cuda {

namespace {

constexpr std::size_t most_tried = 40; // schedules of one region, by prediction

// A region's tensors in the order in which its statements name them.
std::vector<TensorId> tensors_of(const Program& p, const Region& r) {
  std::vector<TensorId> list;
  for (StatementId id : r.statements) {
    list.push_back(p.statement(id)->out);
    for_each_access(*p.statement(id), [&](const Access& a) { list.push_back(a.tensor); });
  }
  return list;
}

TensorId moved(TensorId t, const std::vector<TensorId>& from, const std::vector<TensorId>& to) {
  return to[static_cast<std::size_t>(std::find(from.begin(), from.end(), t) - from.begin())];
}

bool empty(const Region& r) {
  return std::any_of(r.axes.begin(), r.axes.end(), [](const Size& e) { return e == Size(0); });
}

// Whether a planner has already said how blocks and threads share the work.
bool has_blocks(const Schedule& s) { return !s.leaves.empty() || !s.values.empty(); }

Or<Tables> tables_of(const Plan& plan, const Nest& nest, const Schedule& s) {
  const Slots& l = nest.slots[0];
  auto made = detection(*plan.program, l, s.steps[static_cast<std::size_t>(l.step)].size, plan.layouts[static_cast<std::size_t>(l.of.source)]);
  if (!made) return Refused{made.reason()};
  Tables out;
  out.source = l.of.source;
  const auto bytes = [&](TensorId t) {
    std::int64_t n = t < 0 ? 0 : 4;
    for (std::size_t d = 0; t >= 0 && d < nest.program->tensor(t).dims.size(); ++d) n = checked_mul(n, nest.program->tensor(t).dims[d].constant());
    return n;
  };
  out.bytes = {only_marks(l) ? 0 : bytes(l.slot), bytes(l.count), bytes(l.tile), made->marks, made->parts};
  out.kernels = std::move((*made).kernels);
  return out;
}

// Why a schedule of a region cannot be printed goes to `why`.
bool print(const Plan& plan, const PlannedKernel& kernel, const Schedule& s, BuiltKernel& out) {
  const Program& p = *plan.program;
  const auto refused = [&](const std::string& why) {
    if (out.why.empty()) out.why = why;
    return false;
  };
  const auto expanded = expand_through(p, *kernel.region, s, kernel.name);
  if (!expanded) return refused(expanded.reason());
  const Nest nest = with_marks(p, *kernel.region, s, specialise(p, *expanded));
  auto source = source_of(program_of(p, nest), region_of(*kernel.region, nest), schedule_of(s, nest), nest, plan.layouts);
  if (!source) return refused(source.reason());
  out.tables.reset();
  if (!nest.slots.empty()) {
    auto tables = tables_of(plan, nest, s);
    if (!tables) return refused(tables.reason());
    out.tables = std::make_shared<const Tables>(std::move(*tables));
    const Slots& l = nest.slots[0];
    const auto behind = static_cast<TensorId>(p.tensors.size());
    for (TensorId& t : (*source).arguments)
      t = t == l.slot ? behind + (only_marks(l) ? Tables::marks : Tables::slot) : t == l.count ? behind + Tables::count : t == l.tile ? behind + Tables::tile : t;
  }
  out.source = std::move(*source);
  out.schedule = s;
  return true;
}

struct Builder {
  const Plan& plan;
  const std::string& arch;
  const BuildOptions& o;
  const std::string compiler; // its version
  std::atomic<std::size_t> cached{0};
  std::atomic<bool> not_kept{false};

  BuiltKernel made(const PlannedKernel& kernel) {
    BuiltKernel out;
    out.schedule = kernel.schedule;
    // A mistake of the planner or the printer costs the GPU one kernel, not the model: the CPU runs it, and `why`
    // tells.
    try {
      if (print_kernel(plan, kernel, out)) out.code = std::make_shared<const Compiled>(code_of(kernel.name, out.source.name, out.source.text));
      if (out.code && out.tables) {
        Tables tables = *out.tables;
        for (const Ahead& a : tables.kernels) tables.code.push_back(std::make_shared<const Compiled>(code_of(kernel.name, a.name, a.text)));
        out.tables = std::make_shared<const Tables>(std::move(tables));
      }
    } catch (const Error& e) {
      if (e.code != Code::internal) throw;
      out.why = e.message;
      out.code.reset();
    }
    return out;
  }

  Compiled code_of(const std::string& kernel, const std::string& entry, const std::string& printed) {
    const std::string text = std::string(primitives()) + printed, key = cache_key(text, arch, compiler);
    if (auto known = read_cached(o.cache, key)) {
      ++cached;
      return std::move(*known);
    }
    if (!o.compile)
      throw Error(Code::device, kernel, "the kernel is not in the cache, and TILEWRIGHT_JIT=off forbids compiling",
                  "run once without it, or set TILEWRIGHT_CACHE_DIR");
    Compiled k = compile(text, entry, arch); // without a compiler: Error(device)
    k.log.clear();
    if (!o.cache.empty() && !write_cached(o.cache, key, k)) not_kept = true;
    return k;
  }
};

// What makes views of operands different that lie in equal regions.
std::string views_text(const Program& p, const Schedule& s) {
  std::string text;
  for (const OperandAt& o : s.operands) {
    text += fmt::format(" through {} {} {} ", o.source == o.tensor ? "itself" : name_of(p.tensor(o.source).dtype), o.lengths, o.dims.size());
    for (std::size_t i = 0; i < o.dims.size(); ++i) text += fmt::format("{}x{} ", o.dims[i], o.unit[i]);
    for (std::size_t d : o.packed) text += fmt::format("packed {} ", d);
  }
  return text;
}

// Equal tables of one source are made once.
void share_tables(Built& built) {
  const auto equal = [](const Tables& a, const Tables& b) {
    return a.source == b.source && a.bytes == b.bytes && a.kernels.size() == b.kernels.size() &&
           std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), [](const Ahead& x, const Ahead& y) { return x.text == y.text; });
  };
  std::vector<std::shared_ptr<const Tables>> known;
  for (BuiltKernel& k : built.kernels) {
    if (!k.tables) continue;
    const auto at = std::find_if(known.begin(), known.end(), [&](const auto& t) { return equal(*t, *k.tables); });
    if (at == known.end()) known.push_back(k.tables);
    else k.tables = *at;
  }
}

// Runs work(0..n-1) on so many threads; the first failure is thrown after all have ended.
template <class F> void side_by_side(std::size_t n, int threads, F&& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failed;
  std::mutex failing;
  auto run = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(failing);
        if (!failed) failed = std::current_exception();
        next = n;
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < n; ++t) others.emplace_back(run);
  run();
  for (std::thread& t : others) t.join();
  if (failed) std::rethrow_exception(failed);
}

} // namespace

bool print_kernel(const Plan& plan, const PlannedKernel& kernel, BuiltKernel& out) {
  const Region& r = *kernel.region;
  if (empty(r)) {
    out.why = "an axis has no points";
    return false;
  }
  if (has_blocks(kernel.schedule) && print(plan, kernel, kernel.schedule, out)) {
    out.predicted = kernel.cost.seconds;
    return true;
  }
  // What stands behind a length is not zero by itself: another kernel would read it.
  for (const OperandAt& o : kernel.schedule.operands)
    if (o.lengths) return false;
  const auto choices = block_choices(*plan.program, r, plan.machine, plan.layouts);
  for (std::size_t i = 0; i < std::min(choices.size(), most_tried); ++i)
    if (print(plan, kernel, choices[i].schedule, out)) {
      out.predicted = choices[i].seconds;
      return true;
    }
  Schedule whole; // one block
  whole.threads = 256;
  return print(plan, kernel, whole, out);
}

Plan printable(const Plan& plan) {
  const auto can = [&](const PlannedKernel& k) {
    try {
      BuiltKernel out;
      return print_kernel(plan, k, out);
    } catch (const Error& e) {
      if (e.code != Code::internal) throw;
      return false;
    }
  };
  const Grouping parts = fold_maps(*plan.program);
  Grouping wanted;
  bool all = true;
  for (const PlannedKernel& k : plan.kernels) {
    if (!k.region) continue;
    if (k.groups < 2 || can(k)) {
      wanted.groups.push_back(k.region->statements);
      continue;
    }
    all = false;
    for (const auto& part : parts.groups)
      if (!part.empty() && k.region->position(part[0]) >= 0) wanted.groups.push_back(part);
  }
  if (all) return plan;
  wanted.refusals.resize(wanted.groups.size());
  Plan out = plan_groups(plan.program, plan.machine, plan.options, wanted);
  for (PlannedKernel& k : out.kernels) // what is as it was keeps all that was said of it
    for (const PlannedKernel& was : plan.kernels)
      if (k.region && was.region && was.groups > 1 && k.region->statements == was.region->statements) k = was;
  return out;
}

Built build(const Plan& plan, const std::string& arch, const BuildOptions& o) {
  const auto begin = std::chrono::steady_clock::now();
  const Program& p = *plan.program;
  Built out;
  out.kernels.resize(plan.kernels.size());
  std::map<std::string, std::size_t> first; // kernel that stands for all of its signature
  std::vector<std::size_t> distinct, same(plan.kernels.size());
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan.kernels[k];
    if (!kernel.region) {
      out.kernels[k].why = "an opaque node";
      continue;
    }
    const auto [at, fresh] = first.emplace(text(*kernel.region, kernel.schedule) + views_text(p, kernel.schedule) + signature(p, *kernel.region, &plan.layouts), k);
    same[k] = at->second;
    if (fresh) distinct.push_back(k);
  }
  Builder builder{plan, arch, o, compiler_found() ? compiler_version() : "none"};
  side_by_side(distinct.size(), o.threads,
               [&](std::size_t i) { out.kernels[distinct[i]] = builder.made(plan.kernels[distinct[i]]); });
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (!plan.kernels[k].region || same[k] == k) continue;
    const Region &from = *plan.kernels[same[k]].region, &to = *plan.kernels[k].region;
    const auto old = tensors_of(p, from), own = tensors_of(p, to);
    out.kernels[k] = out.kernels[same[k]];
    out.kernels[k].source.text.clear();
    if (out.kernels[k].tables) {
      Tables tables = *out.kernels[k].tables;
      const auto& views = plan.kernels[k].schedule.operands;
      tables.source = views.empty() ? moved(tables.source, old, own) : views[0].source;
      out.kernels[k].tables = std::make_shared<const Tables>(std::move(tables));
    }
    for (TensorId& t : out.kernels[k].source.arguments)
      if (t < static_cast<TensorId>(p.tensors.size())) t = moved(t, old, own);
    for (ValueAt& v : out.kernels[k].schedule.values) v.tensor = moved(v.tensor, old, own);
    for (LeafAt& l : out.kernels[k].schedule.leaves)
      l.statement = to.statements[static_cast<std::size_t>(from.position(l.statement))];
  }
  share_tables(out);
  out.distinct = distinct.size();
  out.cached = builder.cached;
  if (builder.not_kept) out.warning = fmt::format("compiled kernels cannot be kept in {}", o.cache);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

} // namespace tilewright::cuda
