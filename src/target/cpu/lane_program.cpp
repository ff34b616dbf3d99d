#include "target/cpu/lane_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "target/cpu/lane_emit.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// The loops of a group: region axes merged where every pointer and index agrees that the inner axis continues the outer one.
struct LoopPlanner {
  const Region& r;
  const std::vector<Role>& role;
  const std::vector<bool>& used;       // axes of the group
  const std::vector<bool>& tiled;
  const LaneEmitter& e;

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  std::int64_t extent(const LaneProgram::Loop& l) const {
    std::int64_t n = 1;
    for (RegionAxis a : l.axes) n *= extent(a);
    return n;
  }
  static std::int64_t at(const std::vector<std::int64_t>& v, RegionAxis a) { return v[static_cast<std::size_t>(a)]; }

  bool continues(const LaneProgram::Loop& outer, const LaneProgram::Loop& inner) const {
    if (outer.reduced != inner.reduced) return false;
    for (RegionAxis a : inner.axes)
      if (tiled[static_cast<std::size_t>(a)]) return false;
    const RegionAxis o = outer.axes.back(), i = inner.axes.back();
    const std::int64_t n = extent(inner);
    for (const auto& p : e.pointers)
      if (at(p.axis, o) != n * at(p.axis, i)) return false;
    for (const auto& x : e.indices)
      if (at(x.axis, o) != n * at(x.axis, i)) return false;
    return true;
  }

  std::vector<LaneProgram::Loop> loops() const {
    std::vector<LaneProgram::Loop> list;
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (used[a] && (extent(static_cast<RegionAxis>(a)) != 1 || tiled[a]))
        list.push_back({{static_cast<RegionAxis>(a)}, role[a].reducer != Reducer::none});
    for (bool merged = true; merged;) {
      merged = false;
      for (std::size_t x = 0; x < list.size() && !merged; ++x)
        for (std::size_t y = 0; y < list.size() && !merged; ++y)
          if (x != y && continues(list[x], list[y])) {
            list[x].axes.insert(list[x].axes.end(), list[y].axes.begin(), list[y].axes.end());
            list.erase(list.begin() + static_cast<std::ptrdiff_t>(y));
            merged = true;
          }
    }
    return list;
  }

  // Cost of a point when this loop is the lanes: pointers that jump cost a gather, short loops waste dispatch.
  double price(const LaneProgram::Loop& l) const {
    double per_point = 0.5;
    for (const auto& p : e.pointers) {
      const std::int64_t s = at(p.axis, l.axes.back());
      per_point += s == 0 ? 0.5 : s == 1 ? 1 : 3;
    }
    const double dispatch = 8.0 * static_cast<double>(e.program.body.size() + e.program.end.size() + 2);
    const auto n = static_cast<double>(extent(l));
    return per_point + dispatch / std::min(n, 256.0);
  }
};

// Registers are made in single-assignment form; those that live inside one section are packed into few, by last use.
class RegisterPacker {
 public:
  explicit RegisterPacker(k::VectorProgram& p) : p_(p), pinned_(p.registers.size(), false), last_(p.registers.size(), -1) {}

  void run() {
    find_pinned();
    for (std::size_t i = 0; i < pinned_.size(); ++i)
      if (pinned_[i]) to_.emplace(static_cast<int>(i), make(p_.registers[i]));
    for (auto* list : {&p_.setup, &p_.begin, &p_.body, &p_.end}) pack(*list);
    p_.registers = std::move(types_);
  }

 private:
  static constexpr int operands = 5;
  static std::array<std::int32_t*, operands> of(k::Instruction& i) { return {&i.a, &i.b, &i.c, &i.mask, &i.dst}; }
  int make(k::Type t) {
    types_.push_back(t);
    return static_cast<int>(types_.size()) - 1;
  }

  // Pinned: seen in two sections, or read in a section before it is written there.
  void find_pinned() {
    std::vector<int> home(pinned_.size(), -1);
    int section = 0;
    for (auto* list : {&p_.setup, &p_.begin, &p_.body, &p_.end}) {
      std::vector<bool> written(pinned_.size(), false);
      for (k::Instruction& i : *list)
        for (std::int32_t* r : of(i)) {
          if (*r < 0) continue;
          const auto n = static_cast<std::size_t>(*r);
          if (home[n] >= 0 && home[n] != section) pinned_[n] = true;
          home[n] = section;
          if (r != &i.dst && !written[n] && !(r == &i.c && i.op >= k::Op::reduce_argmax)) pinned_[n] = true;
          if (r == &i.dst || i.op >= k::Op::reduce_argmax) written[n] = true;
        }
      ++section;
    }
    for (k::Instruction& i : p_.setup) pinned_[static_cast<std::size_t>(i.dst)] = true;
  }

  void pack(std::vector<k::Instruction>& list) {
    for (std::size_t n = 0; n < list.size(); ++n)
      for (std::int32_t* r : of(list[n]))
        if (*r >= 0) last_[static_cast<std::size_t>(*r)] = static_cast<int>(n);
    std::multimap<k::Type, int> free;
    for (std::size_t n = 0; n < list.size(); ++n) {
      std::vector<std::pair<k::Type, int>> dying;
      std::vector<int> old;
      for (std::int32_t* r : of(list[n]))
        if (*r >= 0 && std::find(old.begin(), old.end(), *r) == old.end()) old.push_back(*r);
      for (std::int32_t* r : of(list[n])) {
        if (*r < 0) continue;
        auto it = to_.find(*r);
        if (it == to_.end()) {
          const k::Type t = p_.registers[static_cast<std::size_t>(*r)];
          const auto spare = free.find(t);
          it = to_.emplace(*r, spare != free.end() ? spare->second : make(t)).first;
          if (spare != free.end()) free.erase(spare);
        }
        *r = it->second;
      }
      for (int r : old)
        if (!pinned_[static_cast<std::size_t>(r)] && last_[static_cast<std::size_t>(r)] == static_cast<int>(n))
          free.emplace(p_.registers[static_cast<std::size_t>(r)], to_.at(r));
    }
  }

  k::VectorProgram& p_;
  std::vector<bool> pinned_;
  std::vector<int> last_;
  std::map<int, int> to_;
  std::vector<k::Type> types_;
};

// Which region axes the group runs over.
std::vector<bool> axes_of(const Program& p, const Region& r, const Group& g) {
  std::vector<bool> used(r.axes.size(), false);
  for (int i : g.statements) {
    const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(i)]);
    const bool parallel_only = g.part == Group::Part::init || g.part == Group::Part::finish;
    for (std::size_t a = 0; a < s.axes.size(); ++a) {
      if (parallel_only && std::find(s.reduced.begin(), s.reduced.end(), static_cast<AxisId>(a)) != s.reduced.end()) continue;
      for (std::size_t x = 0; x < r.axes.size(); ++x)
        if (mentions_axis(r.image[static_cast<std::size_t>(i)][a], static_cast<AxisId>(x))) used[x] = true;
    }
  }
  return used;
}

int block_for(const k::VectorProgram& p) {
  std::size_t bytes = 0;
  for (k::Type t : p.registers) bytes += t == k::Type::b8 ? 1 : t == k::Type::f64 || t == k::Type::i64 ? 8 : 4;
  for (int block : {256, 192, 128})
    if (bytes * static_cast<std::size_t>(block) <= 20480) return block;
  return 64;
}

}  // namespace

Or<LaneProgram> compile_lanes(const Program& p, const Region& r, const Nest& nest, const Group& g, const std::vector<Stored>& buffers,
                              const std::vector<bool>& tiled, const std::vector<bool>& live) {
  const std::vector<Role> role = roles(p, r);
  const std::vector<bool> used = axes_of(p, r, g);
  LaneEmitter probe(p, r, nest, g, buffers, live, false);
  probe.run();
  const LoopPlanner planner{r, role, used, tiled, probe};
  LaneProgram out;
  std::vector<LaneProgram::Loop> loops = planner.loops();
  const Statement& first = *p.statement(r.statements[static_cast<std::size_t>(g.statements[0])]);
  const bool reduces = !first.reduced.empty() && (g.part == Group::Part::whole || g.part == Group::Part::accumulate);
  const bool guarded_pair = reduces && first.guard && (first.reducer == Reducer::argmax || first.reducer == Reducer::argmin);
  const auto reduced = std::count_if(loops.begin(), loops.end(), [](const auto& l) { return l.reduced; });
  // The lanes: the cheapest loop. Reduced lanes allow two reduced loops in one pass, parallel lanes one.
  int lanes = -1;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].reduced && guarded_pair) continue;
    const double price = planner.price(loops[i]) + (loops[i].reduced ? 40.0 / static_cast<double>(planner.extent(loops[i])) : 0);
    if (price < best) best = price, lanes = static_cast<int>(i);
  }
  const bool lanes_reduced = lanes >= 0 && loops[static_cast<std::size_t>(lanes)].reduced;
  if (reduces && reduced > (lanes_reduced ? 2 : 1)) {
    if (g.part == Group::Part::whole) return Refused{"more reduced loops than one pass has"};
  }
  // Order: far loops, outer, inner, lanes.
  auto take = [&](auto wanted) {
    int found = -1;
    for (std::size_t i = 0; i < loops.size(); ++i)
      if (wanted(loops[i]) && (found < 0 || planner.extent(loops[i]) > planner.extent(loops[static_cast<std::size_t>(found)]))) found = static_cast<int>(i);
    if (found < 0) return LaneProgram::Loop{};
    LaneProgram::Loop l = loops[static_cast<std::size_t>(found)];
    loops.erase(loops.begin() + found);
    return l;
  };
  LaneProgram::Loop lane, inner, outer;
  if (lanes >= 0) {
    lane = loops[static_cast<std::size_t>(lanes)];
    loops.erase(loops.begin() + lanes);
  }
  inner = reduces ? take([](const auto& l) { return l.reduced; }) : take([](const auto&) { return true; });
  outer = take([](const auto& l) { return !l.reduced; });
  std::stable_sort(loops.begin(), loops.end(), [](const auto& a, const auto& b) { return a.reduced < b.reduced; });
  out.loops = loops;
  for (auto [loop, where] : {std::pair{&outer, &out.outer}, {&inner, &out.inner}, {&lane, &out.lanes}})
    if (!loop->axes.empty()) {
      *where = static_cast<int>(out.loops.size());
      out.loops.push_back(*loop);
    }
  LaneEmitter emitter(p, r, nest, g, buffers, live, lanes_reduced);
  emitter.run();
  k::VectorProgram program = std::move(emitter.program);
  RegisterPacker(program).run();
  program.block = block_for(program);
  out.code = k::prepare(program);
  out.pointers = std::move(emitter.pointers);
  out.indices = std::move(emitter.indices);
  out.faults = std::move(emitter.faults);
  if (!out.faults.empty()) out.flags = lane.axes.empty() ? 1 : planner.extent(lane);
  return out;
}

namespace {

std::int64_t stride_of(const std::vector<std::int64_t>& axis, const LaneProgram& l, int loop) {
  return loop < 0 ? 0 : axis[static_cast<std::size_t>(l.loops[static_cast<std::size_t>(loop)].axes.back())];
}

}  // namespace

std::int64_t scratch_bytes(const LaneProgram& l) {
  return l.code.scratch_bytes + static_cast<std::int64_t>(l.faults.size()) * l.flags;
}

const LaneProgram::Fault* run_lanes(const k::Kernels& leaf, const LaneProgram& l, const std::vector<View>& buffers, const std::int64_t* low,
               const std::int64_t* high, std::byte* scratch) {
  constexpr std::size_t most = 64;
  std::array<k::Pointer, most> pointers;
  std::array<k::IndexValue, most> indices;
  TW_ASSERT(l.pointers.size() <= most && l.indices.size() <= most);
  std::byte* flags = scratch + l.code.scratch_bytes;
  std::memset(flags, 0, l.faults.size() * static_cast<std::size_t>(l.flags));
  for (std::size_t i = 0; i < l.pointers.size(); ++i) {
    const auto& from = l.pointers[i];
    if (from.buffer < 0) {
      pointers[i] = {flags + (-1 - from.buffer) * l.flags, 1, 0, 0};
      continue;
    }
    std::int64_t offset = from.offset;
    for (std::size_t a = 0; a < from.axis.size(); ++a) offset += from.axis[a] * low[a];
    pointers[i] = {buffers[static_cast<std::size_t>(from.buffer)].origin + offset * static_cast<std::int64_t>(bytes_of(from.dtype)),
                   stride_of(from.axis, l, l.lanes), stride_of(from.axis, l, l.inner), stride_of(from.axis, l, l.outer)};
  }
  for (std::size_t i = 0; i < l.indices.size(); ++i) {
    const auto& from = l.indices[i];
    std::int64_t start = from.offset;
    for (std::size_t a = 0; a < from.axis.size(); ++a) start += from.axis[a] * low[a];
    indices[i] = {start, stride_of(from.axis, l, l.lanes), stride_of(from.axis, l, l.inner), stride_of(from.axis, l, l.outer)};
  }
  std::array<std::int64_t, most> extent{};
  for (std::size_t i = 0; i < l.loops.size(); ++i) {
    extent[i] = 1;
    for (RegionAxis a : l.loops[i].axes) extent[i] *= high[a] - low[a];
  }
  auto size = [&](int loop) { return loop < 0 ? 1 : extent[static_cast<std::size_t>(loop)]; };
  k::Frame frame{pointers.data(), indices.data(), size(l.lanes), size(l.inner), size(l.outer), scratch};
  if (frame.lanes * frame.outer == 0) return nullptr;
  // The far loops, like an odometer: each step moves every pointer and index.
  int far = static_cast<int>(l.loops.size()) - (l.outer >= 0) - (l.inner >= 0) - (l.lanes >= 0);
  for (int i = 0; i < far; ++i)
    if (extent[static_cast<std::size_t>(i)] == 0) return nullptr;
  std::array<std::int64_t, most> at{};
  for (bool more = true; more;) {
    k::run(leaf, l.code, frame);
    more = false;
    for (int i = far; i-- > 0 && !more;) {
      const auto n = static_cast<std::size_t>(i);
      const std::int64_t move = at[n] + 1 < extent[n] ? 1 : -at[n];
      at[n] += move;
      more = move == 1;
      for (std::size_t x = 0; x < l.pointers.size(); ++x)
        if (l.pointers[x].buffer >= 0)
          pointers[x].base = static_cast<std::byte*>(pointers[x].base) +
                             move * stride_of(l.pointers[x].axis, l, i) * static_cast<std::int64_t>(bytes_of(l.pointers[x].dtype));
      for (std::size_t x = 0; x < l.indices.size(); ++x) indices[x].start += move * stride_of(l.indices[x].axis, l, i);
    }
  }
  const LaneProgram::Fault* found = nullptr;
  for (const LaneProgram::Fault& fault : l.faults) {
    if (std::any_of(flags, flags + l.flags, [](std::byte b) { return b != std::byte{0}; })) found = earlier(found, &fault);
    flags += l.flags;
  }
  return found;
}

}  // namespace tilewright::cpu
