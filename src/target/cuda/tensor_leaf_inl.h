// A contraction on the tensor instructions: a warp owns rows x columns of the tile as 16 x 8 fragments; operands come from scratch
// by ldmatrix, so that their rows are whole pixels or keys at any stride, and columns of B may lie along either dim.
#pragma once
#include "target/cuda/riding_rows_inl.h"

namespace tilewright::cuda {

struct TensorLeaf : RidingRows {
  struct Tile { const Access *a, *b; std::vector<RegionAxis> m, n, taps; RegionAxis k; std::int64_t rows = 1, columns = 1; bool k_last = true, turned = false, clamp_a = false, clamp_b = false; };

  std::string group_primitives{};        // of the instructions of four warps that the kernel uses

  std::int64_t full(const Points& points, RegionAxis a) const { return points.full[static_cast<std::size_t>(a)]; }

  // The stride of an operand in scratch along an axis of the points.
  std::int64_t stride_along(const Points& points, StatementId id, const Access& a, RegionAxis x) const {
    const auto& image = points.region.image[static_cast<std::size_t>(points.region.position(id))];
    std::int64_t stride = 0;
    for (std::size_t d = 0; d < a.at.size(); ++d)
      stride += coefficient_of(substitute(p, a.at[d], image), x).constant() * where.at(a.tensor).stride[d];
    return stride;
  }

  bool holds(const Points& points, const Leaf& leaf, const Access& x) const { return all_live_points(points, leaf) || box_holds(points, x.tensor, indices(points, leaf.first, x.at)); }

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
      if (!leaf.at->by_element && t.k < 0 && stride_along(points, leaf.first, *t.a, x) == 1) t.k = x;
      else t.taps.push_back(x);
    }
    if (leaf.at->by_element) return element_tile(points, leaf, std::move(t));
    // Its rows may lie side by side instead: then its fragments are turned as they are read.
    if (t.k < 0 && t.taps.size() == 1 && t.m.size() == 1 && t.rows % 8 == 0 && stride_along(points, leaf.first, *t.a, t.m[0]) == 1 && stride_along(points, leaf.first, *t.a, t.taps[0]) % 8 == 0)
      t.k = t.taps[0], t.taps.clear(), t.turned = true;
    if (t.k < 0) return Refused{p.tensor(t.a->tensor).name + " is contiguous along neither a reduced axis nor its rows"};
    if (full(points, t.k) % (leaf.at->group ? 16 : 8)) return Refused{fmt::format("{} products are no multiple of 8", full(points, t.k))};
    t.k_last = stride_along(points, leaf.first, *t.b, t.k) == 1;
    if (leaf.at->group) {
      if (auto refusal = group_fits(points, leaf, t); !refusal.empty()) return Refused{std::move(refusal)};
    }
    if (!t.k_last && (t.n.size() != 1 || stride_along(points, leaf.first, *t.b, t.n[0]) != 1))
      return Refused{p.tensor(t.b->tensor).name + " is contiguous along neither the products nor the columns"};
    t.clamp_a = !holds(points, leaf, *t.a), t.clamp_b = !holds(points, leaf, *t.b);
    if (((leaf.at->group || t.turned) && t.clamp_a) || ((leaf.at->group || !t.k_last) && t.clamp_b))
      return Refused{p.tensor(t.clamp_b ? t.b->tensor : t.a->tensor).name + " ends within a tile, where points that do not exist would read"};
    const LeafAt& at = *leaf.at;
    if (!at.group && (buffer_of(t.a->tensor).at->swizzled || (buffer_of(t.b->tensor).at->swizzled && (!t.k_last || t.n.size() != 1 || full(points, t.k) != 64))))
      return Refused{"swizzled rows are not those of the products"};
    if ((at.warps_k > 1 && full(points, t.k) % (16 * at.warps_k)) || !covers(at, t)) return Refused{no_cover(at, t)};
    return t;
  }
  bool covers(const LeafAt& at, const Tile& t) const {
    return at.rows % 16 == 0 && at.columns % 16 == 0 && at.warps_m * at.warps_n * at.warps_k * 32 == s.threads && at.warps_m * at.rows >= t.rows && at.warps_n * at.columns == t.columns;
  }
  static std::string no_cover(const LeafAt& at, const Tile& t) {
    return fmt::format("{} x {} warps of {} x {} do not make a tile of {} x {}", at.warps_m, at.warps_n, at.rows, at.columns, t.rows, t.columns);
  }
  // All reduced axes are taps there.
  Or<Tile> element_tile(const Points& points, const Leaf& leaf, Tile t) const {
    for (const Access* x : {t.a, t.b})
      if (buffer_of(x->tensor).at->swizzled) return Refused{p.tensor(x->tensor).name + " is swizzled"};
    t.clamp_a = !holds(points, leaf, *t.a), t.clamp_b = !holds(points, leaf, *t.b);
    if (leaf.at->group || leaf.at->warps_k > 1 || !covers(*leaf.at, t)) return Refused{no_cover(*leaf.at, t)};
    return t;
  }

  // An instruction of four warps takes 64 rows and all of a group's columns; rows lie one behind the other in panels of 128 bytes.
  std::string group_fits(const Points& points, const Leaf& leaf, const Tile& t) const {
    const Buffer &a = buffer_of(t.a->tensor), &b = buffer_of(t.b->tensor);
    if (!a.at->swizzled || !b.at->swizzled) return "the operands are not swizzled";
    if (!t.taps.empty()) return "more than one axis of products";
    if (leaf.at->rows != 16 || leaf.at->warps_m % 4 || leaf.at->warps_m * 16 != t.rows || leaf.at->columns > 256) return "no rows of 64 and columns of at most 256";
    auto flat = [&](const Access& x, const std::vector<RegionAxis>& axes_) {
      std::int64_t n = 64;
      for (std::size_t i = axes_.size(); i-- > 0;) {
        if (full(points, axes_[i]) > 1 && stride_along(points, leaf.first, x, axes_[i]) != n) return false;
        n *= full(points, axes_[i]);
      }
      return true;
    };
    if ((!t.turned && !flat(*t.a, t.m)) || (t.k_last && !flat(*t.b, t.n))) return "rows do not follow one another in scratch";
    if (!t.k_last && leaf.at->warps_n > 1 && leaf.at->columns % 64) return "columns of a group do not fill panels";
    return {};
  }

  // Declares the axes of a flat row or column number.
  // `clamp`: points that do not exist are the last one that does, where their place in scratch is not there.
  void unflatten(const Points& points, const std::vector<RegionAxis>& list, const std::string& flat, bool clamp = false) {
    std::int64_t divisor = 1;
    for (std::size_t i = list.size(); i-- > 0;) {
      const RegionAxis a = list[i];
      const std::string point = fmt::format("{} + int(unsigned({}) / {} % {})", low(points, a), flat, divisor, full(points, a));
      line(clamp ? fmt::format("const int {} = min({}, {} - 1);", axis(points, a), point, high(points, a)) : fmt::format("const int {} = {};", axis(points, a), point));
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
    line(fmt::format("const int lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % {0}, warp_n = threadIdx.x / {1}{2};", at.warps_m, 32 * at.warps_m,
                     at.warps_k > 1 ? fmt::format(" % {}, warp_k = threadIdx.x / {}", at.warps_n, 32 * at.warps_m * at.warps_n) : ""));
  }

  void tensor_step(const Points& points, const Leaf& leaf) {
    const auto t = tensor_tile(points, leaf);
    if (!t) {
      why = t.reason();
      return;
    }
    const LeafAt& at = *leaf.at;
    if (at.group) return group_step(points, leaf, *t);
    if (at.by_element) return element_step(points, leaf, *t);
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
    const std::int64_t a_k = t->turned ? stride_along(points, leaf.first, *t->a, t->k) : 1;
    line(t->turned ? fmt::format("const int row = min(warp_m * {} + m * 16 + lane / 8 % 2 * 8, {});", at.rows, t->rows - 8) : fmt::format("const int row = min(warp_m * {} + m * 16 + lane % 16, {});", at.rows, t->rows - 1));
    unflatten(points, t->m, "row", t->clamp_a);
    line(t->turned ? fmt::format("a_row[m] = &{} + (lane / 16 * 8 + lane % 8) * {};", element(points, leaf.first, *t->a), a_k) : fmt::format("a_row[m] = &{} + lane / 16 * 8;", element(points, leaf.first, *t->a)));
    close(1);
    line(fmt::format("const {}* b_row[{}];", type, n_fragments / 2));
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n) {{", n_fragments / 2));
    ++depth;
    const bool swizzled = buffer_of(t->b->tensor).at->swizzled;      // a row's pieces are exchanged by its number, here the lane's
    line(t->k_last ? fmt::format("const int column = warp_n * {} + n * 16 + lane / 16 * 8 + lane % 8;", at.columns)
                   : fmt::format("const int column = warp_n * {} + n * 16 + lane / 16 * 8;", at.columns));
    unflatten(points, t->n, "column", t->clamp_b);
    line(swizzled ? fmt::format("b_row[n] = &{};", element(points, leaf.first, *t->b))
                  : fmt::format("b_row[n] = &{} + lane / 8 % 2 * {}{};", element(points, leaf.first, *t->b), 8 * b_k, t->k_last ? "" : fmt::format(" + lane % 8 * {}", b_k)));
    close(1);
    const std::int64_t products = full(points, t->k) / at.warps_k;
    line(fmt::format("unsigned a[2][{}][4], b[2][{}][4];", m_fragments, n_fragments / 2));
    if (at.warps_k > 1) line(fmt::format("const int share = warp_k * {};  // of the products", products));
    const std::string share = at.warps_k > 1 ? "share + " : "";
    load_fragments(*t, m_fragments, n_fragments, "0", "(" + share + "0)", a_k, b_k, products);
    line("#pragma unroll");
    line(fmt::format("for (int k = 0; k < {}; k += 16) {{", products));
    ++depth;
    if (products > 16) {  // eight are left in the end where there is no whole step
      line(fmt::format("if (k + 16 < {}) {{  // the next products, while these are multiplied", products));
      ++depth;
      load_fragments(*t, m_fragments, n_fragments, "(k / 16 + 1) % 2", "(" + share + "k + 16)", a_k, b_k, products);
      close(1);
    }
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m)", m_fragments));
    line("#pragma unroll");
    line(fmt::format("  for (int n = 0; n < {0}; ++n) multiply_add<{1}>(acc_{2} + (m * {0} + n) * 4, a[k / 16 % 2][m], b[k / 16 % 2][n / 2][n % 2 * 2], b[k / 16 % 2][n / 2][n % 2 * 2 + 1]{3});",
                     n_fragments, type, tensor(statement(leaf.first).out), products % 16 ? fmt::format(", k + 16 <= {}", products) : ""));
    close(2 + static_cast<int>(t->taps.size()));
  }
  void load_fragments(const Tile& t, int m_fragments, int n_fragments, const std::string& at, const std::string& k, std::int64_t a_k, std::int64_t b_k, std::int64_t products) {
    const bool tail = products % 16 != 0;
    line("#pragma unroll");
    // Where only eight products are left, what lanes would bring of the next eight is not there.
    const std::string a_back = tail ? fmt::format(" - ({} + 16 > {} ? lane / 16 * {} : 0)", k, products, 8 * a_k) : "", b_back = tail ? fmt::format(" - ({} + 16 > {} ? lane / 8 % 2 * {} : 0)", k, products, 8 * b_k) : "";
    line(fmt::format("for (int m = 0; m < {}; ++m) load_matrices{}(a[{}][m], a_row[m] + {}{}{});", m_fragments, t.turned ? "_transposed" : "", at, k, t.turned ? fmt::format(" * {}", a_k) : "", a_back));
    line("#pragma unroll");
    const std::string along = buffer_of(t.b->tensor).at->swizzled ? fmt::format("(({} / 8 + lane / 8 % 2) ^ lane % 8) * 8", k)
                              : b_k == 1                          ? k
                                                                  : fmt::format("{} * {}", k, b_k);
    line(fmt::format("for (int n = 0; n < {}; ++n) load_matrices{}(b[{}][n], b_row[n] + {}{});", n_fragments / 2, t.k_last ? "" : "_transposed", at, along, b_back));
  }

  // ---- fragments of single elements: a thread has two products side by side, and those eight further on, of rows lane / 4 and eight below

  void element_step(const Points& points, const Leaf& leaf, const Tile& t) {
    const LeafAt& at = *leaf.at;
    const int m_fragments = at.rows / 16, n_fragments = at.columns / 8;
    const std::string type = stored_type_of(p.tensor(t.a->tensor).dtype);
    std::int64_t products = 1;
    for (RegionAxis x : t.taps) products *= full(points, x);
    line("{");
    ++depth;
    warp_names(at);
    fixed_axes(points, leaf, t);
    for (RegionAxis x : t.taps) line(fmt::format("const int {} = {};", axis(points, x), low(points, x)));
    line(fmt::format("const {0} *a_row[{1}][2], *b_column[{2}];", type, m_fragments, n_fragments));
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m) {{", 2 * m_fragments));
    ++depth;
    line(fmt::format("const int row = min(warp_m * {} + m * 8 + lane / 4, {});", at.rows, t.rows - 1));
    unflatten(points, t.m, "row", t.clamp_a);
    line(fmt::format("a_row[m / 2][m % 2] = &{};", element(points, leaf.first, *t.a)));
    close(1);
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n) {{", n_fragments));
    ++depth;
    line(fmt::format("const int column = warp_n * {} + n * 8 + lane / 4;", at.columns));
    unflatten(points, t.n, "column", t.clamp_b);
    line(fmt::format("b_column[n] = &{};", element(points, leaf.first, *t.b)));
    close(1);
    line("#pragma unroll");
    line(fmt::format("for (int k = 0; k < {}; k += 16) {{", products));
    ++depth;
    name_products(points, leaf, t, products);
    line(fmt::format("unsigned b[{}][2];", n_fragments));
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n) b[n][0] = two(b_column[n], b_at[0], b_at[1], there[0], there[1]), b[n][1] = two(b_column[n], b_at[2], b_at[3], there[2], there[3]);", n_fragments));
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m) {{", m_fragments));
    ++depth;
    line("unsigned a[4];");
    line("#pragma unroll");
    line("for (int i = 0; i < 4; ++i) a[i] = two(a_row[m][i % 2], a_at[i / 2 * 2], a_at[i / 2 * 2 + 1], there[i / 2 * 2], there[i / 2 * 2 + 1]);");
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {0}; ++n) multiply_add<{1}>(acc_{2} + (m * {0} + n) * 4, a, b[n][0], b[n][1]);", n_fragments, type, tensor(statement(leaf.first).out)));
    close(3);
  }
  // Where a thread's four products of a step are in both operands, from their first ones on.
  void name_products(const Points& points, const Leaf& leaf, const Tile& t, std::int64_t products) {
    line("int a_at[4], b_at[4];");
    line("bool there[4];");
    line("#pragma unroll");
    line("for (int i = 0; i < 4; ++i) {");
    ++depth;
    line("const int product = k + lane % 4 * 2 + i % 2 + i / 2 * 8;");
    line(products % 16 ? fmt::format("there[i] = product < {};", products) : "there[i] = true;");
    line("unsigned rest = there[i] ? product : 0;");
    line("a_at[i] = b_at[i] = 0;");
    for (std::size_t i = t.taps.size(); i-- > 0;) {
      const RegionAxis x = t.taps[i];
      line(fmt::format("a_at[i] += int(rest % {0}) * {1}, b_at[i] += int(rest % {0}) * {2}, rest /= {0};", full(points, x), stride_along(points, leaf.first, *t.a, x), stride_along(points, leaf.first, *t.b, x)));
    }
    close(1);
  }

  // ---- instructions of four warps

  void group_step(const Points& points, const Leaf& leaf, const Tile& t) {
    const LeafAt& at = *leaf.at;
    const bool bf16 = p.tensor(t.a->tensor).dtype == DType::bf16;
    const std::int64_t products = full(points, t.k);
    group_primitives = group_instruction(out.name, at.columns, bf16, !t.k_last, false, t.turned);
    line("{");
    ++depth;
    line(fmt::format("const int group_m = threadIdx.x / 128 % {0}, group_n = threadIdx.x / 128 / {0};", at.warps_m / 4));
    line(fmt::format("const unsigned long long rows = operand(shared_address({}) + group_m * {}, 16, 1024);", where.at(t.a->tensor).pointer, (t.turned ? products : 64) * 128));
    line(fmt::format("const unsigned long long columns = operand(shared_address({}) + group_n * {}, {}, 1024);", where.at(t.b->tensor).pointer,
                     t.k_last ? at.columns * 128 : at.columns / 64 * products * 128, t.k_last ? 16 : products * 128));
    line("group_begin();");
    line("#pragma unroll");
    line(fmt::format("for (int k = 0; k < {}; k += 16)", products));
    line(fmt::format("  group_multiply_{}(acc_{}, rows + {}, columns + {});", out.name, tensor(statement(leaf.first).out), t.turned ? "k * 8" : panel_step(products, t.rows),
                     t.k_last ? panel_step(products, t.columns) : "k * 8"));
    line("group_commit();");
    ride(*t.a, t.rows);
    line(fmt::format("group_wait<{}>();", buffer_of(t.a->tensor).at->kept));
    close(1);
  }
  // From products 0 to k of an operand whose rows run along them, in the units of its description: 16 bytes. Panels hold 64 products.
  static std::string panel_step(std::int64_t products, std::int64_t rows) {
    return products > 64 ? fmt::format("(k / 64 * {} + k % 64 / 8)", rows * 8) : "k / 8";
  }
  // `turned`: a's rows lie side by side. `registers`: a's fragments are held there, four a thread. Without `add` what was in d is overwritten.
  static std::string group_instruction(const std::string& name, int columns, bool bf16, bool transposed, bool registers = false, bool turned = false) {
    std::string list, operands;
    const int n = columns / 2, inputs = registers ? 4 : 1;
    for (int i = 0; i < n; ++i) list += fmt::format("{}%{}", i ? ", " : "", i), operands += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
    const std::string a = registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", n, n + 1, n + 2, n + 3) : fmt::format("%{}", n);
    return fmt::format("// d[64 x {0}] += a[64 x 16] * b[16 x {0}]\n"
                       "TW_DEVICE void group_multiply_{1}(float* d, {2}, unsigned long long b, int add = 1) {{\n"
                       "  asm volatile(\"{{ .reg .pred p; setp.ne.b32 p, %{3}, 0; wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{4}.{4} {{{5}}}, {6}, %{7}, p, 1, 1{8}, {9}; }}\"\n"
                       "    : {10} : {11}, \"l\"(b), \"r\"(add));\n}}\n",
                       columns, name, registers ? "const unsigned* a" : "unsigned long long a", n + inputs + 1, bf16 ? "bf16" : "f16", list, a, n + inputs, registers ? "" : turned ? ", 1" : ", 0",
                       transposed ? 1 : 0, operands, registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
  }

  // ---- finish

  // A condition that the named axes exist; empty where that is certain.
  std::string alive(const Points& points, const std::vector<RegionAxis>& list) const {
    std::string all;
    for (RegionAxis a : list)
      if (const std::string one = exists(points, a); !one.empty()) all += (all.empty() ? "" : " && ") + one;
    return all;
  }
  static std::string both(const std::string& a, const std::string& b) { return a.empty() ? b : b.empty() ? a : a + " && " + b; }

  // How many columns of a row a thread stores at once: 4 of 16 bits (two threads exchange
  // halves of two fragments, so that four of them fill a sector), or the two of a fragment.
  std::int64_t columns_together(const Points& points, const Tile& t, const std::vector<StatementId>& group) {
    std::int64_t n = 4;
    for (StatementId id : group) {
      if (!is_stored(group, id)) continue;
      const TensorId out_ = statement(id).out;
      if (t.n.empty()) return 1;
      n = std::min(n, stored_as_one(points, id, t.n.back(), 4));
      if (bytes_of(p.tensor(out_).dtype) != 2 || !plain_float(DType::f32, p.tensor(out_).dtype)) n = std::min<std::int64_t>(n, 2);
    }
    return n;
  }

  // What maps read point by point behind the last product (a residual, a gate) is asked for ahead of the first: it waits in the L2 then.
  void bring_near(const Points& points, const std::vector<StatementId>& group) {
    const Leaf leaf = leaf_of(points, group[0], group.back());
    if (!leaf.at || !leaf.at->group || !leaf.at->tensor) return;
    const auto t = tensor_tile(points, leaf);
    if (!t || t->n.size() != 1) return;
    std::set<TensorId> asked;
    for (StatementId id : group)
      if (statement(id).reduced.empty())
        for_each_access(statement(id), [&](const Access& a) {
          const std::int64_t line_elements = 128 / static_cast<std::int64_t>(bytes_of(p.tensor(a.tensor).dtype));
          const auto at = indices(points, id, a.at);
          const bool made = std::any_of(group.begin(), group.end(), [&](StatementId other) { return statement(other).out == a.tensor; });
          const bool by_row = std::any_of(t->m.begin(), t->m.end(), [&](RegionAxis x) { return depends(at, x); });
          const bool affine = std::all_of(at.begin(), at.end(), [](const Index& i) { return is_affine(i); });
          if (made || a.otherwise || !by_row || !affine || t->columns % line_elements || in_scratch(buffer_of(a.tensor)) || !where.at(a.tensor).through.empty()) return;
          std::int64_t stride = 0;
          for (std::size_t d = 0; d < at.size(); ++d) stride += coefficient_of(at[d], t->n[0]).constant() * where.at(a.tensor).stride[d];
          if (stride != 1 || !asked.insert(a.tensor).second) return;
          const std::int64_t lines = t->columns / line_elements;
          line(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) {{  // {}: on its way to the L2", t->rows * lines, s.threads, p.tensor(a.tensor).name));
          ++depth;
          line(fmt::format("const int row = i / {0}, column = i % {0} * {1};", lines, line_elements));
          unflatten(points, t->m, "row");
          unflatten(points, t->n, "column");
          fixed_axes(points, leaf, *t);
          std::vector<RegionAxis> all = t->m;
          all.push_back(t->n[0]);
          const std::string live = alive(points, all), address = ScalarSource(p, points, where, axes(points), pad()).address(a.tensor, at);
          line(fmt::format("{}bring_near(&{});", live.empty() ? "" : fmt::format("if ({}) ", live), address));
          close(1);
        });
  }

  // Operands that only the columns decide (a bias) are fetched once.
  std::vector<Fetch> column_operands(const Points& points, const Tile& t, const std::vector<StatementId>& group) const {
    std::vector<Fetch> list;
    for (StatementId id : group)
      if (statement(id).reduced.empty())
        for_each_access(statement(id), [&](const Access& a) {
          for (StatementId other : group)
            if (statement(other).out == a.tensor) return;
          Fetch f{&a, indices(points, id, a.at), {}, {}, 0, 1, 1};
          Access read = a;
          read.at = f.at;
          ScalarSource source(p, points, where, axes(points), "");
          bool by_column = !source.conditional(read);
          for (const Index& i : f.at) by_column &= is_affine(i);
          for (RegionAxis x : t.m) by_column &= !depends(f.at, x);
          if (by_column) list.push_back(std::move(f));
        });
    return list;
  }
  void open_columns(const Points& points, const Tile& t, const LeafAt& at, int count) {
    line("#pragma unroll");
    line(fmt::format("for (int u = 0; u < {}; ++u) {{", count));
    ++depth;
    line(fmt::format("const int column = warp_n * {} + n * 16 + u / 2 * 8 + lane % 4 * 2 + u % 2;", at.columns));
    unflatten(points, t.n, "column");
  }

  void tensor_finish(const Points& points, const std::vector<StatementId>& group) {
    const Leaf leaf = leaf_of(points, group[0], group.back());
    const auto t = tensor_tile(points, leaf);
    if (!t) {
      why = t.reason();
      return;
    }
    const LeafAt& at = *leaf.at;
    const std::int64_t together_ = columns_together(points, *t, group);
    if (at.group) line("group_wait<0>();");
    line("{");
    ++depth;
    warp_names(at);
    if (at.warps_k > 1) add_shares(at, tensor(statement(leaf.first).out));
    fixed_axes(points, leaf, *t);
    const auto operands = column_operands(points, *t, group);
    const std::string column_live = alive(points, t->n);
    // Sums of four warps take most registers: there columns go around rows, so that few operands are held at a time.
    const auto over_columns = [&] {
      line("#pragma unroll");
      line(fmt::format("for (int n = 0; n < {}; ++n) {{", at.columns / 16));
      ++depth;
    };
    if (at.group) over_columns(), fetch_columns(points, *t, at, operands, column_live, 4);
    else fetch_columns(points, *t, at, operands, column_live, at.columns / 4);
    line("#pragma unroll");
    line(fmt::format("for (int m = 0; m < {}; ++m){}", at.rows / 8, at.group ? " {" : ""));
    if (at.group) ++depth;
    else over_columns();
    line(fmt::format("const int row = warp_m * {} + m * 8 + lane / 4;", at.rows));
    unflatten(points, t->m, "row");
    const std::string row_boxed = at.rows * at.warps_m > t->rows ? fmt::format("row < {}", t->rows) : "";
    std::vector<RegionAxis> rest;
    for (RegionAxis a : leaf.parallel)
      if (!std::count(t->n.begin(), t->n.end(), a)) rest.push_back(a);
    const std::string row_live = both(row_boxed, alive(points, rest));
    line(fmt::format("const bool boxed = {}, row_live = {};", row_boxed.empty() ? "true" : row_boxed, row_live.empty() ? "true" : row_live));
    const std::string acc = fmt::format("acc_{}[((m / 2 * {} + n * 2 + u / 2) * 2 + m % 2) * 2 + u % 2]", tensor(statement(leaf.first).out), at.columns / 8);
    if (together_ == 1) finish_singly(points, *t, at, group, acc, column_live);
    else finish_pairs(points, *t, at, group, operands, acc, column_live, together_);
    close((at.warps_k > 1 ? 3 : 2) + at.group);
  }
  // `held`: of all columns, or those of one step of n.
  void fetch_columns(const Points& points, const Tile& t, const LeafAt& at, const std::vector<Fetch>& operands, const std::string& column_live, int held) {
    for (std::size_t i = 0; i < operands.size(); ++i) line(fmt::format("{} column{}[{}];", type_of(p.tensor(operands[i].access->tensor).dtype), i, held));
    if (operands.empty()) return;
    if (!at.group) {
      line("#pragma unroll");
      line(fmt::format("for (int n = 0; n < {}; ++n)", at.columns / 16));
    }
    open_columns(points, t, at, 4);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      ScalarSource source(p, points, where, axes(points), pad());
      const std::string load = fmt::format("load({})", source.address(operands[i].access->tensor, operands[i].at));
      line(fmt::format("{} = {};", column_of(at, i), column_live.empty() ? load : fmt::format("{} ? {} : {}(0)", column_live, load, type_of(p.tensor(operands[i].access->tensor).dtype))));
    }
    close(1);
  }
  static std::string column_of(const LeafAt& at, std::size_t operand) { return fmt::format("column{}[{}u]", operand, at.group ? "" : "n * 4 + "); }
  // Warps that had other products hand their sums to the first, in the same order each time; it goes on alone.
  void add_shares(const LeafAt& at, const std::string& name) {
    const int n = at.rows * at.columns / 32, warps = at.warps_m * at.warps_n;
    line(fmt::format("float* const sums = reinterpret_cast<float*>(scratch + {}) + threadIdx.x % {};", parts_at, 32 * warps));
    line(fmt::format("if (warp_k > 0)"));
    line("#pragma unroll");
    line(fmt::format("  for (int e = 0; e < {0}; ++e) sums[((warp_k - 1) * {0} + e) * {1}] = acc_{2}[e];", n, 32 * warps, name));
    line("__syncthreads();");
    line("if (warp_k == 0) {");
    ++depth;
    line("#pragma unroll");
    line(fmt::format("for (int w = 0; w < {}; ++w)", at.warps_k - 1));
    line("#pragma unroll");
    line(fmt::format("  for (int e = 0; e < {0}; ++e) acc_{2}[e] += sums[(w * {0} + e) * {1}];", n, 32 * warps, name));
  }

  void finish_singly(const Points& points, const Tile& t, const LeafAt& at, const std::vector<StatementId>& group, const std::string& acc, const std::string& column_live) {
    open_columns(points, t, at, 4);
    line(fmt::format("const bool live = {};", both("row_live", column_live)));
    finish_points(points, group, -1, 1, acc);
    close(1);
  }

  void finish_pairs(const Points& points, const Tile& t, const LeafAt& at, const std::vector<StatementId>& group, const std::vector<Fetch>& operands, const std::string& acc,
                    const std::string& column_live, std::int64_t together_) {
    for (StatementId id : group)
      if (is_stored(group, id)) line(fmt::format("{} w_{}[4] = {{}};", type_of(p.tensor(statement(id).out).dtype), tensor(statement(id).out)));
    open_columns(points, t, at, 4);
    line(fmt::format("if ({}) {{", both("row_live", column_live)));
    ++depth;
    ScalarSource source(p, points, where, axes(points), pad());
    for (std::size_t i = 0; i < operands.size(); ++i) source.fetched(source.address(operands[i].access->tensor, operands[i].at), column_of(at, i));
    finish_values(source, group, acc, "u");
    close(2);
    for (StatementId id : group) {
      if (!is_stored(group, id)) continue;
      const std::string name = "w_" + tensor(statement(id).out);
      const std::string type = stored_type_of(p.tensor(statement(id).out).dtype);
      line("{");
      ++depth;
      if (together_ == 4) line(fmt::format("const word<8> four = exchange<{}>({});", type, name));
      else line("#pragma unroll"), line("for (int u = 0; u < 4; u += 2) {"), ++depth;
      const std::string place = together_ == 4 ? "lane % 2 * 8 + lane / 2 % 2 * 4" : "u / 2 * 8 + lane % 4 * 2";
      line(fmt::format("const int column = warp_n * {} + n * 16 + {};", at.columns, place));
      unflatten(points, t.n, "column");
      ScalarSource to(p, points, where, axes(points), pad());
      const std::string address = to.address(statement(id).out, indices(points, id, statement(id).at));
      auto store = [&](const std::string& to_) { return together_ == 4 ? fmt::format("*reinterpret_cast<word<8>*>(&{}) = four;", to_) : fmt::format("put<2>(&{}, {} + u);", to_, name); };
      // Into scratch the zeros of what does not exist too.
      line(fmt::format("if ({}) {}", in_scratch(buffer_of(statement(id).out)) ? "boxed" : both("row_live", column_live), store(address)));
      if (in_both(statement(id).out)) {
        const std::string far = outside_of_scratch(statement(id).out, [&] { return ScalarSource(p, points, where, axes(points), pad()).address(statement(id).out, indices(points, id, statement(id).at)); });
        line(fmt::format("if ({}) {}", both("row_live", column_live), store(far)));
      }
      close(together_ == 4 ? 1 : 2);
    }
  }
};

}  // namespace tilewright::cuda
