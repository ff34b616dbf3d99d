// A contraction on the tensor instructions: a warp owns rows x columns of the tile as 16 x 8 fragments; operands come from scratch
// by ldmatrix, so that their rows are whole pixels or keys at any stride, and columns of B may lie along either dim.
#pragma once
#include "target/cuda/vector_leaf_inl.h"

namespace tilewright::cuda {

struct TensorLeaf : VectorLeaf {
  struct Tile { const Access *a, *b; std::vector<RegionAxis> m, n, taps; RegionAxis k; std::int64_t rows = 1, columns = 1; bool k_last = true; };

  std::int64_t full(const Points& points, RegionAxis a) const { return points.full[static_cast<std::size_t>(a)]; }

  // The stride of an operand in scratch along an axis of the points.
  std::int64_t stride_along(const Points& points, StatementId id, const Access& a, RegionAxis x) const {
    const auto& image = points.region.image[static_cast<std::size_t>(points.region.position(id))];
    std::int64_t stride = 0;
    for (std::size_t d = 0; d < a.at.size(); ++d)
      stride += coefficient_of(substitute(p, a.at[d], image), x).constant() * where.at(a.tensor).stride[d];
    return stride;
  }

  Or<Tile> tensor_tile(const Points& points, const Leaf& leaf) const {
    const Statement& st = statement(leaf.first);
    const Or<Contraction> c = contraction(p, st);
    if (!c) return Refused{c.reason()};
    Tile t{c->a, c->b, {}, {}, {}, -1};
    const auto& image = points.region.image[static_cast<std::size_t>(points.region.position(leaf.first))];
    auto region_axis = [&](AxisId a) { return *plain_axis(image[static_cast<std::size_t>(a)]); };
    std::vector<RegionAxis> m, n;
    for (AxisId a : c->m) m.push_back(region_axis(a));
    for (AxisId a : c->n) n.push_back(region_axis(a));
    for (AxisId a : c->batch)
      if (full(points, region_axis(a)) != 1) return Refused{"a batch axis is not cut to single elements"};
    for (RegionAxis a : leaf.parallel) {          // in the order in which the result lies
      if (std::count(m.begin(), m.end(), a)) t.m.push_back(a), t.rows *= full(points, a);
      if (std::count(n.begin(), n.end(), a)) t.n.push_back(a), t.columns *= full(points, a);
    }
    for (const Access* x : {t.a, t.b})
      if (!in_scratch(buffer_of(x->tensor))) return Refused{p.tensor(x->tensor).name + " is not in scratch"};
    const DType type = p.tensor(t.a->tensor).dtype;
    if (type != p.tensor(t.b->tensor).dtype || (type != DType::f16 && type != DType::bf16))
      return Refused{fmt::format("no tensor instruction for {} x {}", name_of(type), name_of(p.tensor(t.b->tensor).dtype))};
    for (AxisId a : c->k) {
      const RegionAxis x = region_axis(a);
      if (t.k < 0 && stride_along(points, leaf.first, *t.a, x) == 1) t.k = x;
      else t.taps.push_back(x);
    }
    if (t.k < 0) return Refused{p.tensor(t.a->tensor).name + " is not contiguous along a reduced axis"};
    if (full(points, t.k) % 16) return Refused{fmt::format("{} products are no multiple of 16", full(points, t.k))};
    t.k_last = stride_along(points, leaf.first, *t.b, t.k) == 1;
    if (!t.k_last && (t.n.size() != 1 || stride_along(points, leaf.first, *t.b, t.n[0]) != 1))
      return Refused{p.tensor(t.b->tensor).name + " is contiguous along neither the products nor the columns"};
    const LeafAt& at = *leaf.at;
    if (at.rows % 16 || at.columns % 16 || at.warps_m * at.warps_n * 32 != s.threads || at.warps_m * at.rows < t.rows ||
        at.warps_n * at.columns != t.columns)
      return Refused{fmt::format("{} x {} warps of {} x {} do not make a tile of {} x {}", at.warps_m, at.warps_n, at.rows, at.columns, t.rows, t.columns)};
    return t;
  }

  // Declares the axes of a flat row or column number.
  void unflatten(const Points& points, const std::vector<RegionAxis>& list, const std::string& flat) {
    std::int64_t divisor = 1;
    for (std::size_t i = list.size(); i-- > 0;) {
      const RegionAxis a = list[i];
      line(fmt::format("const int {} = {} + {} / {} % {};", axis(points, a), low(points, a), flat, divisor, full(points, a)));
      divisor *= full(points, a);
    }
  }
  // The axes that a tile holds fixed.
  void fixed_axes(const Points& points, const Leaf& leaf, const Tile& t) {
    for (RegionAxis a : leaf.parallel)
      if (!std::count(t.m.begin(), t.m.end(), a) && !std::count(t.n.begin(), t.n.end(), a)) line(fmt::format("const int {} = {};", axis(points, a), low(points, a)));
  }
  std::string element(const Points& points, StatementId id, const Access& a) {
    ScalarSource source(p, points, where, axes(points), pad());
    std::vector<Index> at;
    for (const Index& i : a.at) at.push_back(substitute(p, i, points.region.image[static_cast<std::size_t>(points.region.position(id))]));
    return source.address(a.tensor, at);
  }

  void warp_names(const LeafAt& at) {
    line(fmt::format("const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % {0}, warp_n = threadIdx.x / 32 / {0};", at.warps_m));
  }

  void tensor_step(const Points& points, const Leaf& leaf) {
    const auto t = tensor_tile(points, leaf);
    if (!t) {
      why = t.reason();
      return;
    }
    const LeafAt& at = *leaf.at;
    const int m_fragments = at.rows / 16, n_fragments = at.columns / 8;
    const std::string type = stored_type_of(p.tensor(t->a->tensor).dtype);
    const std::int64_t b_k = stride_along(points, leaf.first, *t->b, t->k);
    line("{");
    ++depth;
    warp_names(at);
    fixed_axes(points, leaf, *t);
    for (RegionAxis x : t->taps) {
      line(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0}) {{", axis(points, x), low(points, x), high(points, x)));
      ++depth;
    }
    line(fmt::format("const int {} = {};", axis(points, t->k), low(points, t->k)));
    line(fmt::format("const {}* a_row[{}];", type, m_fragments));
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m) {{", m_fragments));
    ++depth;
    line(fmt::format("const int row = min(warp_m * {} + m * 16 + lane % 16, {});", at.rows, t->rows - 1));
    unflatten(points, t->m, "row");
    line(fmt::format("a_row[m] = &{} + lane / 16 * 8;", element(points, leaf.first, *t->a)));
    close(1);
    line(fmt::format("const {}* b_row[{}];", type, n_fragments / 2));
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n) {{", n_fragments / 2));
    ++depth;
    line(t->k_last ? fmt::format("const int column = warp_n * {} + n * 16 + lane / 16 * 8 + lane % 8;", at.columns)
                   : fmt::format("const int column = warp_n * {} + n * 16 + lane / 16 * 8;", at.columns));
    unflatten(points, t->n, "column");
    line(fmt::format("b_row[n] = &{} + lane / 8 % 2 * {}{};", element(points, leaf.first, *t->b), 8 * b_k, t->k_last ? "" : fmt::format(" + lane % 8 * {}", b_k)));
    close(1);
    line("#pragma unroll");
    line(fmt::format("for (int k = 0; k < {}; k += 16) {{", full(points, t->k)));
    ++depth;
    line(fmt::format("unsigned a[{}][4], b[{}][4];", m_fragments, n_fragments / 2));
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m) load_matrices(a[m], a_row[m] + k);", m_fragments));
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n) load_matrices{}(b[n], b_row[n] + k * {});", n_fragments / 2, t->k_last ? "" : "_transposed", b_k));
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m)", m_fragments));
    line("#pragma unroll");
    line(fmt::format("  for (int n = 0; n < {0}; ++n) multiply_add<{1}>(acc_{2} + (m * {0} + n) * 4, a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);",
                     n_fragments, type, tensor(statement(leaf.first).out)));
    close(2 + static_cast<int>(t->taps.size()));
  }

  void tensor_finish(const Points& points, const std::vector<StatementId>& group) {
    const Leaf leaf = leaf_of(points, group[0], group.back());
    const auto t = tensor_tile(points, leaf);
    if (!t) {
      why = t.reason();
      return;
    }
    const LeafAt& at = *leaf.at;
    line("{");
    ++depth;
    warp_names(at);
    fixed_axes(points, leaf, *t);
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) {{", at.rows * at.columns / 32));
    ++depth;
    const int n_fragments = at.columns / 8;
    line(fmt::format("const int row = warp_m * {} + e / {} * 16 + lane / 4 + e / 2 % 2 * 8;", at.rows, 4 * n_fragments));
    line(fmt::format("const int column = warp_n * {} + e / 4 % {} * 8 + lane % 4 * 2 + e % 2;", at.columns, n_fragments));
    unflatten(points, t->m, "row");
    unflatten(points, t->n, "column");
    line(fmt::format("const bool boxed = row < {};", t->rows));
    std::string live = "boxed";
    for (RegionAxis a : leaf.parallel) live += fmt::format(" && {} < {}", axis(points, a), high(points, a));
    line(fmt::format("const bool live = {};", live));
    finish_point(points, group, fmt::format("acc_{}[e]", tensor(statement(group[0]).out)));
    close(2);
  }
};

}  // namespace tilewright::cuda
