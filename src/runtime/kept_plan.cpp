#include "runtime/kept_plan.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "expr/text.h"
#include "plan/join.h"
#include "support/file.h"

namespace tilewright {

namespace {

constexpr std::string_view magic = "tilewright plan 1 ";

std::string hash_of(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

// Which build of the library this is: another one may plan otherwise.
std::string build() {
  Dl_info info{};
  struct stat s {};
  if (!dladdr(reinterpret_cast<const void*>(&plan_key), &info) || ::stat(info.dli_fname, &s) != 0) return {};
  return fmt::format("{} {} {} {}", TILEWRIGHT_VERSION, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

// Numbers and words, one behind the other; written and read by the same list of fields.
struct Writer {
  std::string text;
  void number(std::int64_t& v) { text += fmt::format("{} ", v); }
  void real(double& v) { text += fmt::format("{:a} ", v); }
  void word(std::string& v) { text += fmt::format("{}:{} ", v.size(), v); }
  bool reads() const { return false; }
};
struct Reader {
  std::string_view rest;
  struct Bad {};
  std::string_view until(char c) {
    const std::size_t end = rest.find(c);
    if (end == std::string_view::npos) throw Bad{};
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return taken;
  }
  void number(std::int64_t& v) {
    const std::string_view digits = until(' ');
    if (const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v); error != std::errc() || end != digits.data() + digits.size()) throw Bad{};
  }
  void real(double& v) { v = std::strtod(std::string(until(' ')).c_str(), nullptr); }
  void word(std::string& v) {
    std::int64_t n = 0;
    const std::string_view digits = until(':');
    std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (n < 0 || static_cast<std::size_t>(n) >= rest.size()) throw Bad{};
    v = rest.substr(0, static_cast<std::size_t>(n));
    rest.remove_prefix(static_cast<std::size_t>(n) + 1);
  }
  bool reads() const { return true; }
};

template <class A> void field(A& a, double& v) { a.real(v); }
template <class A> void field(A& a, std::string& v) { a.word(v); }
template <class A, class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>)
void field(A& a, T& v) {
  auto n = static_cast<std::int64_t>(v);
  a.number(n);
  v = static_cast<T>(n);
}
template <class A, class T> void field(A& a, std::vector<T>& list);
template <class A> void field(A& a, AxisStep& s) { field(a, s.how), field(a, s.axis), field(a, s.size); }
template <class A> void field(A& a, ValueAt& v) {
  field(a, v.tensor), field(a, v.level), field(a, v.order), field(a, v.pad), field(a, v.swizzled), field(a, v.stages), field(a, v.kept), field(a, v.bulk), field(a, v.lead);
}
template <class A> void field(A& a, LeafAt& l) {
  field(a, l.statement), field(a, l.tensor), field(a, l.group), field(a, l.tile), field(a, l.warps_m), field(a, l.warps_n), field(a, l.rows), field(a, l.columns), field(a, l.lanes), field(a, l.warps_k), field(a, l.by_element);
}
template <class A> void field(A& a, Schedule& s) {
  field(a, s.steps), field(a, s.threads), field(a, s.values), field(a, s.leaves), field(a, s.isa), field(a, s.resident), field(a, s.band), field(a, s.blocks), field(a, s.cluster);
  field(a, s.fragments), field(a, s.overlapped);
}
template <class A> void field(A& a, Moved& m) { field(a, m.tensor), field(a, m.bytes), field(a, m.store); }
template <class A> void field(A& a, Cost::Done& d) { field(a, d.points), field(a, d.multiply_adds), field(a, d.operations); }
template <class A> void field(A& a, Cost& c) {
  field(a, c.moved), field(a, c.done), field(a, c.loaded), field(a, c.stored), field(a, c.compulsory), field(a, c.multiply_adds), field(a, c.operations), field(a, c.tiles);
  field(a, c.seconds), field(a, c.bound);
}
template <class A> void field(A& a, Search& s) { field(a, s.candidates), field(a, s.priced), field(a, s.states), field(a, s.exact); }
template <class A> void field(A& a, Alternative& x) { field(a, x.kernels), field(a, x.together), field(a, x.apart), field(a, x.rule); }
template <class A> void field(A& a, PlannedKernel& k, std::vector<StatementId>& statements) {
  field(a, k.name), field(a, statements), field(a, k.opaque), field(a, k.schedule), field(a, k.cost), field(a, k.refusals), field(a, k.groups), field(a, k.together), field(a, k.apart);
  field(a, k.alternatives);
}
template <class A, class T> void field(A& a, std::vector<T>& list) {
  auto n = static_cast<std::int64_t>(list.size());
  a.number(n);
  if (a.reads()) {
    if (n < 0 || n > (std::int64_t{1} << 24)) throw Reader::Bad{};
    list.resize(static_cast<std::size_t>(n));
  }
  for (T& x : list) field(a, x);
}

std::string path_of(const std::string& folder, const std::string& key) { return fmt::format("{}/plans/{}.plan", folder, key); }

}  // namespace

std::string plan_key(const Program& normal, const Machine& machine, const std::string& machine_as_asked, const PlanOptions& o, const std::string& extra) {
  const std::string own = build();
  if (own.empty()) return {};
  std::string text = fmt::format("{}\n{}\n{} {} {}\n", own, print(normal), machine.name, machine_as_asked, machine.arch);
  if (std::error_code none; std::filesystem::is_regular_file(machine_as_asked, none)) text += read_text(machine_as_asked);
  text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", o.threads, o.isa, o.leaf_rows, o.leaf_columns, o.lanes, o.splits, static_cast<int>(o.objective), o.fuse, o.margin, o.joined, o.streams,
                      o.redundancy, o.paper_cost, o.strict, o.live, fmt::join(o.live_of, ","), o.interpreted);
  for (const Tensor& t : normal.tensors)
    if (!t.data.empty()) text += fmt::format("{:016x} ", XXH3_64bits(t.data.data(), t.data.size()));
  return hash_of(text + extra);
}

std::optional<Plan> kept_plan(const std::string& folder, const std::string& key, const std::shared_ptr<const Program>& normal, const Machine& machine, const PlanOptions& options) {
  if (folder.empty() || key.empty()) return {};
  const Program& p = *normal;
  try {
    const std::string text = read_text(path_of(folder, key));
    const std::size_t end = text.find('\n');
    if (end == std::string::npos || !text.starts_with(magic)) return {};
    const std::string_view body = std::string_view(text).substr(end + 1);
    if (hash_of(body) != text.substr(magic.size(), end - magic.size())) return {};
    Reader a{body};
    Plan plan{normal, machine, options, {}, {}, {}};
    std::int64_t kernels = 0;
    a.number(kernels);
    field(a, plan.layouts);
    field(a, plan.search);
    field(a, plan.merged);
    const Ends ends = ends_of(p);
    for (std::int64_t n = 0; n < kernels; ++n) {
      PlannedKernel& k = plan.kernels.emplace_back();
      std::vector<StatementId> statements;
      field(a, k, statements);
      if (statements.empty()) continue;
      auto region = unify(p, statements);
      if (!region) return {};
      fix_boundary(p, ends.readers, *region);
      k.region = std::move(*region);
    }
    return plan;
  } catch (const Error&) {
    return {};
  } catch (const Reader::Bad&) {
    return {};
  }
}

bool keep_plan(const std::string& folder, const std::string& key, const std::shared_ptr<const Program>& normal, const Plan& plan) {
  if (folder.empty() || key.empty() || plan.program != normal) return false;
  Writer a;
  Plan own = plan;
  auto kernels = static_cast<std::int64_t>(own.kernels.size());
  a.number(kernels);
  field(a, own.layouts);
  field(a, own.search);
  field(a, own.merged);
  for (PlannedKernel& k : own.kernels) {
    if (!k.gathered.empty() || !k.schedule.operands.empty()) return false;
    std::vector<StatementId> statements;
    if (k.region) statements = k.region->statements;
    field(a, k, statements);
  }
  std::error_code failed;
  std::filesystem::create_directories(folder + "/plans", failed);
  if (failed) return false;
  try {
    write_file(path_of(folder, key), fmt::format("{}{}\n{}", magic, hash_of(a.text), a.text));
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace tilewright
