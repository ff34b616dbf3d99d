#include "target/cuda/detector.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "sparse/pattern.h"
#include "target/cuda/masked_turns.h"
#include "target/cuda/scalar_source.h"

namespace tilewright::cuda {

namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 64;     // that share the rows of a list
constexpr std::int64_t most_keys = 4096;     // that a block can count

using Argument = Ahead::Argument;

// Words of an argument list, by what they are.
std::string parameter(Argument a, const std::string& source) {
  switch (a) {
    case Argument::source: return fmt::format("const {}* __restrict__ source", source);
    case Argument::slot: return "int* __restrict__ slot";
    case Argument::count: return "int* __restrict__ count";
    case Argument::tile: return "int* __restrict__ tile";
    case Argument::marks: return "unsigned char* __restrict__ marks";
    case Argument::parts: return "int* __restrict__ parts";
    case Argument::fault: return "unsigned* __restrict__ fault";
  }
  return {};
}

struct Writer {
  const Program& p;
  const Slots& l;
  std::int64_t size;
  const DimOrder& layout;
  Detection out{};

  const Tensor& source() const { return p.tensor(l.of.source); }
  std::int64_t extent(std::size_t i) const { return p.tensor(l.of.tensor).dims[l.of.dims[i]].constant(); }

  void add(const std::string& name, std::vector<Argument> arguments, std::int64_t blocks, std::int64_t scratch, const std::string& body) {
    std::string list;
    for (Argument a : arguments) list += (list.empty() ? "" : ", ") + parameter(a, stored_type_of(source().dtype));
    std::string text = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n", threads, name, list);
    if (scratch > 0) text += "  extern __shared__ __align__(1024) unsigned char scratch[];\n";
    text += "  await_predecessor();\n" + body + "}\n";
    out.kernels.push_back({name, std::move(text), std::move(arguments), blocks, scratch, threads});
  }

  // ---- mark: which micro-tiles of the source hold anything

  // Cells over the source's own dims, as they lie.
  struct Grid {
    std::vector<std::int64_t> extent, unit, stride, factor;        // elements; of the tensor; of a cell's number
    std::vector<std::size_t> order;                                // outermost first
    std::int64_t cells = 1;
  };
  Grid grid() const {
    Grid g;
    for (std::size_t i = 0; i < l.of.dims.size(); ++i) g.extent.push_back(extent(i)), g.unit.push_back(l.of.unit[i]);
    DimOrder order = layout.size() == g.extent.size() ? layout : row_major(g.extent.size());
    g.stride = dense_strides(g.extent, order);
    for (int d : order) g.order.push_back(static_cast<std::size_t>(d));
    const Cells c = cells(g.extent, g.unit, l.of.packed);
    g.factor.assign(g.extent.size(), 0);
    std::int64_t slot = 1, group = c.length();
    for (std::size_t d = g.extent.size(); d-- > 0;) {
      std::int64_t& n = c.is_packed(d) ? slot : group;
      g.factor[d] = n, n *= c.along(d);
    }
    g.cells = c.count();
    return g;
  }

  static std::string bits_type(std::int64_t bytes) { return bytes == 1 ? "unsigned char" : bytes == 2 ? "unsigned short" : bytes == 4 ? "unsigned" : "unsigned long long"; }

  void mark() {
    const Grid g = grid();
    out.marks = g.cells;
    const auto width = static_cast<std::int64_t>(bytes_of(source().dtype));
    const std::size_t in = g.order.back();
    std::int64_t v = 16 / width;                                   // elements of a piece
    const auto whole = [&](std::int64_t n) { return g.extent[in] % n == 0 && (g.unit[in] % n == 0 || n % g.unit[in] == 0); };
    if (g.extent[in] % g.unit[in] == 0) { while (v > 1 && !whole(v)) v /= 2; }
    else v = 1;
    // A cell's pieces along the inner dim are shared by lanes; or a piece holds several cells.
    const std::int64_t pieces = std::max<std::int64_t>(1, ceil_div_i64(g.unit[in], v)), cells_in = std::max<std::int64_t>(1, v / g.unit[in]);
    std::int64_t lanes = g.extent[in] % g.unit[in] == 0 ? std::min<std::int64_t>(32, std::int64_t{1} << std::countr_zero(static_cast<std::uint64_t>(pieces))) : 1;
    std::vector<std::int64_t> items(g.extent.size());
    std::int64_t all = lanes, tall = 1;
    for (std::size_t d = 0; d < items.size(); ++d) {
      items[d] = d == in ? ceil_div_i64(g.extent[in], g.unit[in] * cells_in) : ceil_div_i64(g.extent[d], g.unit[d]);
      all *= items[d];
      if (d != in) tall *= g.unit[d];
    }
    const std::string bits = bits_type(width), sign = is_float(source().dtype) ? fmt::format(" & {}", width == 8 ? "0x7fffffffffffffffull" : width == 4 ? "0x7fffffffu" : "0x7fffu") : "";
    std::string t;
    auto line = [&](int depth, const std::string& text) { t += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + "\n"; };
    // Items of a thread are a block's threads apart, so that its loads are on their way together.
    const std::int64_t each = tall * pieces / lanes <= 2 ? 4 : 1;
    line(1, "#pragma unroll");
    line(1, fmt::format("for (int n = 0; n < {}; ++n) {{", each));
    line(2, fmt::format("const i64 item = (i64(blockIdx.x) * {} + n) * {} + threadIdx.x;", each, threads));
    const bool shared = lanes > 1;
    const bool ragged = all % (each * threads) != 0;
    line(2, fmt::format("const bool there = {};", ragged ? fmt::format("item < {}", all) : "true"));
    line(2, fmt::format("i64 rest = there ? item : 0;"));
    line(2, fmt::format("const int lane = int(rest % {0}); rest /= {0};", lanes));
    for (std::size_t i = g.order.size(); i-- > 0;) line(2, fmt::format("const int c{0} = int(rest % {1}); rest /= {1};", g.order[i], std::max<std::int64_t>(items[g.order[i]], 1)));
    line(2, fmt::format("{} any[{}] = {{}};", bits, cells_in));
    int depth = 2;
    std::string from;
    for (std::size_t d : g.order) {
      if (d == in) continue;
      std::string at = fmt::format("c{}", d);
      if (g.unit[d] > 1) {
        line(depth, "#pragma unroll 8");
        const bool cut = g.extent[d] % g.unit[d] != 0;
        line(depth++, fmt::format("for (int i{0} = c{0} * {1}; i{0} < {2}; ++i{0}) {{", d, g.unit[d], cut ? fmt::format("min(c{0} * {1} + {1}, {2})", d, g.unit[d], g.extent[d]) : fmt::format("c{0} * {1} + {1}", d, g.unit[d])));
        at = fmt::format("i{}", d);
      }
      from += fmt::format("i64({}) * {} + ", at, g.stride[d]);
    }
    const std::string first = fmt::format("c{} * {} + piece * {}", in, g.unit[in] * cells_in, v);
    line(depth, "#pragma unroll 8");
    line(depth++, fmt::format("for (int piece = lane; piece < {}; piece += {}) {{", pieces, lanes));
    if (g.extent[in] % g.unit[in]) line(depth, fmt::format("if ({} >= {}) break;", first, g.extent[in]));
    line(depth, fmt::format("const auto v = *reinterpret_cast<const word<{}>*>(source + {}{});", v * width, from, first));
    line(depth, fmt::format("{} e[{}]; memcpy(e, &v, sizeof e);", bits, v));
    line(depth, "#pragma unroll");
    line(depth, fmt::format("for (int k = 0; k < {}; ++k) any[k / {}] |= e[k]{};", v, std::max<std::int64_t>(1, v / cells_in), sign));
    while (depth > 2) line(--depth, "}");
    std::string cell;
    for (std::size_t d = 0; d < g.extent.size(); ++d) cell += fmt::format("{}i64({}) * {}", d ? " + " : "", d == in && cells_in > 1 ? fmt::format("(c{} * {} + k)", d, cells_in) : fmt::format("c{}", d), g.factor[d]);
    line(2, "#pragma unroll");
    line(2, fmt::format("for (int k = 0; k < {}; ++k) {{", cells_in));
    line(3, "bool live = any[k] != 0;");
    if (shared) line(3, fmt::format("for (int other = {}; other > 0; other /= 2) live |= from_lane<{}>(live, other);", lanes / 2, lanes));
    line(3, fmt::format("if (there && lane == 0) marks[{}] = live;", cell));
    line(2, "}");
    line(1, "}");
    add("mark", {Argument::source, Argument::marks}, std::max<std::int64_t>(1, ceil_div_i64(all, each * threads)), 0, t);
  }

  // ---- list: a block a group

  // The sum over threads before this one, and over all of them: the threads of a block meet. Only the first `some` have any.
  static std::string scan(const std::string& value, const std::string& before, const std::string& all, std::int64_t some) {
    return fmt::format("    sums[threadIdx.x] = {0};\n"
                       "    __syncthreads();\n"
                       "    for (int d = 1; d < {3}; d *= 2) {{\n"
                       "      const int other = int(threadIdx.x) >= d ? sums[threadIdx.x - d] : 0;\n"
                       "      __syncthreads();\n"
                       "      sums[threadIdx.x] += other;\n"
                       "      __syncthreads();\n"
                       "    }}\n"
                       "    const int {1} = sums[threadIdx.x] - ({0}), {2} = sums[{3} - 1];\n"
                       "    __syncthreads();\n",
                       value, before, all, some);
  }

  void list(std::int64_t groups) {
    const std::int64_t piece = l.most % 16 == 0 ? 16 : l.most % 4 == 0 ? 4 : 1;
    std::string t = "  int* const sums = reinterpret_cast<int*>(scratch);\n";
    t += fmt::format("  const unsigned char* const mine = marks + i64(blockIdx.x) * {0};\n  int* const to = slot + i64(blockIdx.x) * {0};\n  int found = 0;\n", l.most);
    t += fmt::format("  for (int first = 0; first < {}; first += {}) {{\n", l.most, piece * threads);
    t += fmt::format("    const int begin = first + int(threadIdx.x) * {};\n    unsigned char e[{}] = {{}};\n", piece, piece);
    t += fmt::format("    if (begin < {}) {{ const auto v = *reinterpret_cast<const word<{}>*>(mine + begin); memcpy(e, &v, sizeof e); }}\n", l.most, piece);
    t += fmt::format("    int own = 0;\n    for (int k = 0; k < {}; ++k) own += e[k];\n", piece);
    t += scan("own", "before", "all", std::min<std::int64_t>(threads, ceil_div_i64(l.most, piece)));
    t += fmt::format("    int at = found + before;\n    for (int k = 0; k < {}; ++k)\n      if (e[k]) to[at++] = begin + k;\n    found += all;\n  }}\n", piece);
    t += "  if (threadIdx.x == 0) count[blockIdx.x] = found;\n";
    add("list", {Argument::marks, Argument::slot, Argument::count}, groups, 4 * threads, t);
  }

  // ---- rows by key: count, place

  // The part that row `i` belongs to.
  std::string part_of(bool keyed, bool faults) const {
    if (keyed) return faults ? fmt::format("in_dim(source[i], {}, fault)", l.keys) : fmt::format("in_dim(source[i], {}, nullptr)", l.keys);
    if (!l.of.lengths) return "!marks[i]";
    return fmt::format("!(i % {0} < source[i / {0}])", extent(l.of.dims.size() - 1));
  }

  // The rank of a thread's key among those before it that are equal, and whether none behind it is.
  static std::string rank(bool keyed) {
    if (!keyed)                                                    // of two: warps say how many they have of each
      return fmt::format("    const unsigned live = __ballot_sync(0xffffffffu, key == 0), dead = __ballot_sync(0xffffffffu, key == 1), alike = key == 0 ? live : key == 1 ? dead : 0;\n"
                         "    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
                         "    if (lane == 0) keys[2 * warp] = __popc(live), keys[2 * warp + 1] = __popc(dead);\n    __syncthreads();\n"
                         "    int rank = __popc(alike & ((1u << lane) - 1));\n    bool last = key >= 0 && alike >> lane == 1;\n"
                         "    for (int w = 0; w < {}; ++w) {{\n      const int n = key < 0 ? 0 : keys[2 * w + key];\n      rank += w < warp ? n : 0;\n      last = last && !(w > warp && n > 0);\n    }}\n",
                         threads / 32);
    return fmt::format("    keys[threadIdx.x] = key;\n    __syncthreads();\n    int rank = 0;\n    bool last = key >= 0;\n"
                       "    for (int other = 0; other < {}; ++other) {{\n      const bool equal = keys[other] == key;\n      rank += equal && other < int(threadIdx.x);\n      last = last && !(equal && other > int(threadIdx.x));\n    }}\n",
                       threads);
  }

  void rows() {
    const bool keyed = l.keys > 0, marked = !keyed && !l.of.lengths;
    const std::int64_t keys = std::max<std::int64_t>(l.keys, 2), n = l.most;
    const std::int64_t each = std::max<std::int64_t>(threads, ceil_div_i64(ceil_div_i64(n, most_blocks), threads) * threads), blocks = std::max<std::int64_t>(1, ceil_div_i64(n, each));
    out.parts = blocks * keys * 4;
    std::vector<Argument> in = marked ? std::vector<Argument>{Argument::marks} : std::vector<Argument>{Argument::source};
    const std::string head = fmt::format("  int* const keys = reinterpret_cast<int*>(scratch);\n  int* const next = keys + {};\n", threads);
    const std::string rounds = fmt::format("  for (int first = 0; first < {}; first += {}) {{\n    const i64 i = i64(blockIdx.x) * {} + first + threadIdx.x;\n    const int key = i < {} ? int({{}}) : -1;\n", each, threads, each, n) + rank(keyed);
    // What a block has of each key.
    std::string t = head + fmt::format("  for (int k = threadIdx.x; k < {}; k += {}) next[k] = 0;\n", keys, threads);
    t += rounds.substr(0, rounds.find("{}")) + part_of(keyed, true) + rounds.substr(rounds.find("{}") + 2);
    t += fmt::format("    if (last) next[key] += rank + 1;\n    __syncthreads();\n  }}\n  for (int k = threadIdx.x; k < {0}; k += {1}) parts[i64(blockIdx.x) * {0} + k] = next[k];\n", keys, threads);
    std::vector<Argument> count = in, place = in;
    count.push_back(Argument::parts), place.push_back(Argument::parts), place.push_back(Argument::slot), place.push_back(Argument::tile);
    if (keyed) count.push_back(Argument::fault);
    add("count", count, blocks, 4 * (threads + keys), t);
    // Where each key begins, and what blocks in front have of it; tiles are numbered on the way.
    const std::int64_t share = ceil_div_i64(keys, threads), per = size / l.unit;
    t = head + fmt::format("  int* const sums = next + {};\n  int total[{}], mine[{}], rows = 0, tiles = 0;\n", keys, share, share);
    t += fmt::format("  for (int j = 0; j < {0}; ++j) {{\n    const int k = int(threadIdx.x) * {0} + j;\n    total[j] = mine[j] = 0;\n    if (k >= {1}) continue;\n"
                     "    for (int b = 0; b < {2}; ++b) {{\n      const int part = parts[i64(b) * {1} + k];\n      total[j] += part;\n      if (b < int(blockIdx.x)) mine[j] += part;\n    }}\n"
                     "    rows += total[j], tiles += (total[j] + {3}) / {4};\n  }}\n  {{\n",
                     share, keys, blocks, per - 1, per);
    const std::int64_t some = ceil_div_i64(keys, share);
    t += scan("rows", "rows_before", "rows_in_all", some) + scan("tiles", "tiles_before", "tiles_in_all", some);
    t += fmt::format("    int at = rows_before, number = tiles_before;\n    for (int j = 0; j < {0}; ++j) {{\n      const int k = int(threadIdx.x) * {0} + j;\n      if (k >= {1}) continue;\n      next[k] = at + mine[j];\n"
                     "      for (int low = 0; blockIdx.x == 0 && low < total[j]; low += {2}) {{\n        int* const row = tile + 4 * number++;\n"
                     "        row[0] = {3}, row[1] = (at + low) * {4}, row[2] = (at + min(low + {2}, total[j])) * {4}, row[3] = {5};\n      }}\n      at += total[j];\n    }}\n",
                     share, keys, per, keyed ? "k" : "0", l.unit, keyed ? "1" : "k == 0");
    t += fmt::format("    for (int n = tiles_in_all + int(threadIdx.x); blockIdx.x == 0 && n < {}; n += {}) {{\n      int* const row = tile + 4 * n;\n      row[0] = row[1] = row[2] = row[3] = 0;\n    }}\n", l.tiles, threads);
    t += "    __syncthreads();\n  }\n";
    t += rounds.substr(0, rounds.find("{}")) + part_of(keyed, false) + rounds.substr(rounds.find("{}") + 2);
    t += "    const int to = key < 0 ? 0 : next[key] + rank;\n    if (key >= 0) slot[to] = int(i);\n    __syncthreads();\n    if (last) next[key] = to + 1;\n    __syncthreads();\n  }\n";
    add("place", place, blocks, 4 * (2 * threads + keys), t);
  }
};

}  // namespace

Or<Detection> detection(const Program& p, const Slots& l, std::int64_t size, const DimOrder& source_layout) {
  if (l.keys > most_keys) return Refused{fmt::format("{} keys, {} can be counted", l.keys, most_keys)};
  if (l.most > INT32_MAX) return Refused{fmt::format("{} micro-tiles in a list, {} can be counted", l.most, INT32_MAX)};
  if (only_marks(l)) return marks_of_turns(p, l, source_layout);
  Writer w{p, l, size, source_layout};
  const bool marked = l.keys == 0 && !l.of.lengths;
  if (marked) w.mark();
  if (l.count >= 0) {
    if (l.of.lengths) return Refused{"lengths along a stream"};
    w.list(w.out.marks / std::max<std::int64_t>(1, l.most));
  } else {
    w.rows();
  }
  return std::move(w.out);
}

}  // namespace tilewright::cuda
