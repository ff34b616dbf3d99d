#include "target/cuda/masked_turns.h"

#include <algorithm>

#include <fmt/format.h>

#include "sparse/pattern.h"
#include "target/cpu/masked_turns.h"

namespace tilewright::cuda {

namespace {

const Node* stream_of(const Block& nodes) {
  for (const Node& n : nodes)
    if (const For* f = std::get_if<For>(&n.op)) {
      if (f->kind == For::Kind::seq) return &n;
      if (const Node* inner = stream_of(n.body)) return inner;
    }
  return nullptr;
}

// How a guard reads the mask, in the axes of the region.
const Access* read_of(const ScalarRef& g, TensorId mask) {
  if (!g) return nullptr;
  if (g->op == Op::read) return std::get<Access>(g->leaf).tensor == mask ? &std::get<Access>(g->leaf) : nullptr;
  for (const ScalarRef& a : g->args)
    if (const Access* found = read_of(a, mask)) return found;
  return nullptr;
}

// Of each dim of the mask the one step that cuts it, -1: none does. Nothing where a dim is no axis, or is cut twice, or statements read
// the mask in several ways.
std::optional<std::vector<int>> steps_of(const Program& p, const Region& r, const Schedule& s, TensorId mask) {
  std::optional<std::vector<int>> all;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Access* a = read_of(p.statement(r.statements[i])->guard, mask);
    if (!a) continue;
    std::vector<int> list;
    for (const Index& x : a->at) {
      const auto own = plain_axis(x);
      const auto axis = own ? plain_axis(r.image[i][static_cast<std::size_t>(*own)]) : std::nullopt;
      if (!axis) return std::nullopt;
      int step = -1;
      for (std::size_t k = 0; k < s.steps.size(); ++k)
        if (s.steps[k].axis == *axis) {
          if (step >= 0) return std::nullopt;
          step = static_cast<int>(k);
        }
      list.push_back(step);
    }
    if (all && *all != list) return std::nullopt;
    all = list;
  }
  return all;
}

}  // namespace

Nest with_marks(const Program& planned, const Region& planned_region, const Schedule& s, Nest nest) {
  const Program& p = program_of(planned, nest);
  const Region& r = region_of(planned_region, nest);
  const Node* stream = stream_of(nest.body);
  if (!stream || s.cluster > 1 || !nest.slots.empty()) return nest;         // blocks of a cluster take the same turns
  const For& f = std::get<For>(stream->op);
  for (const Node& n : stream->body)
    if (const Pipe* at = std::get_if<Pipe>(&n.op); at && at->kept > 1) return nest;
  const BufferId b = cpu::mask_of_turns(p, r, nest, stream->body);
  if (b < 0) return nest;
  const TensorId mask = nest.buffers[static_cast<std::size_t>(b)].tensor;
  const auto steps = steps_of(p, r, s, mask);
  if (!steps || std::count(steps->begin(), steps->end(), f.step) != 1) return nest;
  Slots l;
  l.step = f.step, l.of.tensor = l.of.source = mask, l.unit = f.size;
  std::vector<std::int64_t> extent;
  for (std::size_t d = 0; d < steps->size(); ++d) {
    extent.push_back(p.tensor(mask).dims[d].constant());
    l.of.dims.push_back(d);
    l.of.unit.push_back((*steps)[d] < 0 ? extent.back() : s.steps[static_cast<std::size_t>((*steps)[d])].size);
    if ((*steps)[d] == f.step) l.of.packed = {d};
  }
  const Cells c = cells(extent, l.of.unit, l.of.packed);
  l.most = c.length();
  std::int64_t stride = 1;
  for (std::size_t d = extent.size(); d-- > 0;) {
    if (c.is_packed(d)) continue;
    if ((*steps)[d] >= 0) l.group.push_back({2 * (*steps)[d], l.of.unit[d], stride});
    stride *= c.along(d);
  }
  auto own = std::make_shared<Program>(p);
  Tensor t;
  t.name = p.tensor(mask).name + "_marks", t.dtype = DType::u8, t.dims = {Size(c.count())}, t.kind = Kind::input;
  own->tensors.push_back(std::move(t));
  l.slot = static_cast<TensorId>(own->tensors.size()) - 1;
  nest.inputs.push_back(l.slot);
  nest.slots = {std::move(l)};
  if (!nest.region) nest.region = std::make_shared<const Region>(planned_region);
  nest.program = std::move(own);
  return nest;
}

Detection marks_of_turns(const Program& p, const Slots& l, const DimOrder& layout) {
  std::vector<std::int64_t> extent;
  for (const Size& d : p.tensor(l.of.source).dims) extent.push_back(d.constant());
  const DimOrder order = layout.size() == extent.size() ? layout : row_major(extent.size());
  const auto stride = dense_strides(extent, order);
  const Cells c = cells(extent, l.of.unit, l.of.packed);
  const auto in = static_cast<std::size_t>(order.back());
  std::int64_t v = 16, pieces = 0;                                 // elements of a piece; pieces along the inner dim
  while (v > 1 && (extent[in] % v || l.of.unit[in] % v)) v = v == 4 ? 1 : v / 2;
  pieces = ceil_div_i64(l.of.unit[in], v);
  std::int64_t along = 1;                                          // lanes along the inner dim; the others share the rows
  while (along < 32 && 2 * along <= pieces) along *= 2;
  std::string t = fmt::format("  await_predecessor();\n  const i64 cell = i64(blockIdx.x) * 8 + threadIdx.x / 32;\n  const int lane = threadIdx.x % 32;\n  if (cell >= {}) return;\n", c.count());
  t += fmt::format("  i64 group = cell / {0}, at = cell % {0};\n", c.length());
  for (std::size_t d = extent.size(); d-- > 0;) {
    const char* from = c.is_packed(d) ? "at" : "group";
    t += fmt::format("  const int low_{0} = int({1} % {2}) * {3}, high_{0} = min(low_{0} + {3}, {4}); {1} /= {2};\n", d, from, c.along(d), l.of.unit[d], extent[d]);
  }
  const std::string none = v == 1 ? "1u" : "0x01010101u";
  t += fmt::format("  unsigned any = 0, all = {};\n", none);
  std::size_t rows = SIZE_MAX;                                     // the dim whose elements lanes share
  for (int d : order)
    if (static_cast<std::size_t>(d) != in && l.of.unit[static_cast<std::size_t>(d)] > 1) rows = static_cast<std::size_t>(d);
  std::string place;
  for (int o : order) {
    const auto d = static_cast<std::size_t>(o);
    if (d == in) continue;
    t += fmt::format("  #pragma unroll 8\n  for (int i_{0} = low_{0}{1}; i_{0} < high_{0}; i_{0} += {2})\n", d, d == rows ? fmt::format(" + lane / {}", along) : "", d == rows ? 32 / along : 1);
    place += fmt::format("i64(i_{}) * {} + ", d, stride[d]);
  }
  t += fmt::format("  for (int i_{0} = low_{0} + lane % {1} * {2}; i_{0} < high_{0}; i_{0} += {3}) {{\n", in, along, v, along * v);
  if (v == 1) {
    t += fmt::format("    const unsigned e = source[{}i_{}];\n    any |= e, all &= e;\n", place, in);
  } else {
    t += fmt::format("    const auto e = *reinterpret_cast<const word<{}>*>(source + {}i_{});\n    unsigned part[{}]; memcpy(part, &e, sizeof part);\n", v, place, in, v / 4);
    t += fmt::format("    #pragma unroll\n    for (int k = 0; k < {}; ++k) any |= part[k], all &= part[k];\n", v / 4);
  }
  t += fmt::format("  }}\n  const bool some = __any_sync(0xffffffffu, any != 0), whole = !__any_sync(0xffffffffu, all != {});\n  if (lane == 0) marks[cell] = some + 2 * (some && whole);\n", none);
  Ahead a;
  a.name = "mark";
  a.text = fmt::format("extern \"C\" __global__ void __launch_bounds__(256) mark(const bool* __restrict__ source, unsigned char* __restrict__ marks) {{\n{}}}\n", t);
  a.arguments = {Ahead::Argument::source, Ahead::Argument::marks};
  a.blocks = std::max<std::int64_t>(1, ceil_div_i64(c.count(), 8));
  Detection out;
  out.kernels.push_back(std::move(a));
  out.marks = c.count();
  return out;
}

}  // namespace tilewright::cuda
