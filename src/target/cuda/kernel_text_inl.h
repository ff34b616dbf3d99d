// A kernel while it is printed: its text so far, the names of loop variables and tensors, and where tensors are. The parts of the
// printer build on one another: kernel_text, copies, leaf, vector_leaf, tensor_leaf, source.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "expr/text.h"
#include "schedule/bounds.h"
#include "schedule/engine_box.h"
#include "target/cuda/scalar_source.h"
#include "target/cuda/source.h"

namespace tilewright::cuda {

inline std::string c_name(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "t_" + out : out;
}

// Whether a kernel makes a value itself, for others of its statements; it may leave the kernel too.
inline bool made_here(const Region& r, const Program& p, TensorId t) {
  return std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return p.statement(id)->out == t; });
}

struct KernelText {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Nest& nest;
  const std::vector<DimOrder>& layouts;
  Source out;
  std::map<TensorId, Where> where{};
  std::map<TensorId, std::int64_t> stage_elements{}; // of buffers in a ring
  std::int64_t parts_at = 0;                         // in scratch: sums that warps hand to one another
  std::map<StatementId, Points> streamed{};          // reductions whose accumulator lives across a loop
  std::string why{};                                 // of a refusal
  int depth = 1;

  // ---- text
  void line(const std::string& text) { out.text += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + "\n"; }
  void close(int n) {
    while (n-- > 0) {
      --depth;
      line("}");
    }
  }
  std::string pad() const { return std::string(static_cast<std::size_t>(2 * depth), ' '); }
  std::string tensor(TensorId t) const { return c_name(p.tensor(t).name); }
  std::string global(TensorId t) const { return "g_" + tensor(t); }
  std::string variable(int v) const {
    return c_name(r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(v / 2)].axis)]) + (v % 2 ? "_1" : "_0");
  }
  std::string affine(const Affine& a) const {
    std::string text;
    for (const auto& [v, c] : a.terms) text += fmt::format("{}{}", text.empty() ? "" : " + ", c == 1 ? variable(v) : fmt::format("{} * {}", c, variable(v)));
    if (a.offset != 0 || text.empty()) text += fmt::format("{}{}", text.empty() ? "" : " + ", a.offset);
    return text;
  }
  // Whether a span ends where a list of slots does.
  bool listed(const Span& span) const {
    for (const Affine* a : {&span.low, &span.high})
      for (const auto& term : a->terms)
        for (const Slots& l : nest.slots)
          if (term.first / 2 == l.step) return true;
    return false;
  }
  // Whether every place of a full tile is one of [0, extent), in every tile.
  bool always_inside(const Span& span, std::int64_t extent) const {
    return !listed(span) && range_of(r, s, span.low).first >= 0 && range_of(r, s, span.high).second <= extent && !ragged(r, s, span);
  }
  const Buffer& buffer(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)]; }
  const Statement& statement(StatementId id) const { return *p.statement(id); }
  bool in_scratch(const Buffer& b) const { return b.at && b.at->level == LevelRole::scratch; }
  std::int64_t dim(TensorId t, std::size_t d) const { return p.tensor(t).dims[d].constant(); }

  // ---- where tensors are

  std::int64_t swizzled_row(const Buffer& b) const { return 128 / static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype)); }
  // Of a dim with gaps only each `step`-th place is there, next to the one before it, where that leaves whole strides: an element is
  // found at (index - low) * stride all the same. `elements`: of all of it, or of a panel of swizzled rows.
  std::vector<std::int64_t> scratch_strides(const Buffer& b, std::int64_t* elements = nullptr) const {
    std::vector<std::int64_t> stride(b.extent.size(), 0);
    std::int64_t n = 1;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      const bool inner = i + 1 == b.at->order.size(), packed = b.box[d].step > 1 && n % b.box[d].step == 0;
      stride[d] = packed ? n / b.box[d].step : n;
      if (b.at->swizzled) n = inner ? swizzled_row(b) : n * (packed ? brought(b, d) : b.extent[d]);     // along a row within its panel
      else n = n * (packed ? brought(b, d) : b.extent[d]) + (inner ? b.at->lead + b.at->pad : 0);
    }
    for (std::size_t d = 0; d < b.through.size(); ++d)
      if (b.through[d].with >= 0) stride[d] = 0;
    if (elements) *elements = n;
    return stride;
  }
  // How many places of a dim are brought, and how far from one another they lie in scratch.
  std::int64_t brought(const Buffer& b, std::size_t d) const { return ceil_div_i64(b.extent[d], b.box[d].step); }
  std::int64_t stride_to(const Buffer& b, std::size_t d) const { return where.at(b.tensor).stride[d] * b.box[d].step; }

  void place_buffers() {
    for (const Buffer& b : nest.buffers) {
      Where w;
      if (!in_scratch(b)) {
        std::vector<std::int64_t> dims;
        for (std::size_t d = 0; d < p.tensor(b.tensor).dims.size(); ++d) dims.push_back(dim(b.tensor, d));
        w.pointer = global(b.tensor);
        w.stride = dense_strides(dims, layouts[static_cast<std::size_t>(b.tensor)]);
      } else {
        w.pointer = "s_" + tensor(b.tensor);
        std::int64_t elements = 1;
        w.stride = scratch_strides(b, &elements);
        for (const Span& span : b.box) w.low.push_back(affine(span.low));
        w.filled = b.outside.has_value() && (!made_here(r, p, b.tensor) || *b.outside == 0);      // what is made here is 0 outside
        if (b.at->swizzled) {
          const std::int64_t inner = b.extent[static_cast<std::size_t>(b.at->order.back())];
          if (b.at->order.size() < 2 || (!b.at->bulk && inner % swizzled_row(b))) why = p.tensor(b.tensor).name + " does not fill swizzled rows of 128 bytes";
          else elements = b.at->bulk ? box_elements(p, r, s, *b.at, b.box, b.extent) : elements * (inner / swizzled_row(b));
          // Leaves read operands by their own means; what a map of fragments reads of one it finds by the element.
          if (s.fragments) w.inner = b.at->order.back(), w.row = swizzled_row(b), w.rows = elements / ceil_div_i64(inner, w.row) / w.row;
        }
        const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
        const std::int64_t granule = b.at->swizzled ? 1024 : 128, bytes = ceil_div_i64(elements * width, granule) * granule;
        out.scratch = ceil_div_i64(out.scratch, granule) * granule;
        if (b.at->stages > 1) stage_elements[b.tensor] = bytes / width;
        line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>(scratch + {2}){3};", stored_type_of(p.tensor(b.tensor).dtype),
                         b.at->stages > 1 ? "ring_" + tensor(b.tensor) : w.pointer, out.scratch, b.at->lead ? fmt::format(" + {}", b.at->lead) : ""));
        out.scratch += bytes * b.at->stages;
      }
      where[b.tensor] = std::move(w);
    }
    std::int64_t parts = 0;
    for (const LeafAt& l : s.leaves)
      if (l.tensor) parts = std::max<std::int64_t>(parts, std::int64_t{4} * (l.warps_k - 1) * l.warps_m * l.rows * l.warps_n * l.columns);
    if (parts > 0) parts_at = ceil_div_i64(out.scratch, 128) * 128, out.scratch = parts_at + parts;
  }

  // The border of zeros around what is made whole: written once, nothing else is put there.
  void clear_borders() {
    for (const Buffer& b : nest.buffers) {
      if (!made_here(r, p, b.tensor) || !in_scratch(b)) continue;
      std::string border;
      for (std::size_t d = 0; d < b.box.size(); ++d) {
        if (!b.box[d].low.terms.empty() || !b.box[d].high.terms.empty()) continue;
        if (b.box[d].low.offset < 0) border += fmt::format("{}o{} < {}", border.empty() ? "" : " || ", d, -b.box[d].low.offset);
        if (b.box[d].high.offset > dim(b.tensor, d)) border += fmt::format("{}o{} >= {}", border.empty() ? "" : " || ", d, dim(b.tensor, d) - b.box[d].low.offset);
      }
      if (border.empty()) continue;
      const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
      const auto inner = static_cast<std::size_t>(b.at->order.back());
      std::int64_t piece = 16 / width;                                     // elements written at once along the innermost dim
      while (piece > 1 && (b.extent[inner] % piece || b.at->pad % piece || border.find(fmt::format("o{} ", inner)) != std::string::npos)) piece /= 2;
      std::int64_t items = 1;
      for (std::int64_t e : b.extent) items *= e;
      line(fmt::format("for (unsigned n = threadIdx.x; n < {}; n += {}) {{  // the border of {}", items / piece, s.threads, p.tensor(b.tensor).name));
      line("  unsigned rest = n;");
      std::string to;
      for (std::size_t i = b.at->order.size(); i-- > 0;) {
        const auto d = static_cast<std::size_t>(b.at->order[i]);
        const std::int64_t scale = d == inner ? piece : 1;
        line(fmt::format("  const int o{} = int(rest % {}) * {}; rest /= {};", d, b.extent[d] / scale, scale, b.extent[d] / scale));
        to += fmt::format("{}o{} * {}", to.empty() ? "" : " + ", d, where.at(b.tensor).stride[d]);
      }
      const std::string type = type_of(p.tensor(b.tensor).dtype);
      line(fmt::format("  const {0} zeros[{1}] = {{}}; if ({2}) put<{1}>({3} + {4}, zeros);", type, piece, border, where.at(b.tensor).pointer, to));
      line("}");
    }
  }
};

}  // namespace tilewright::cuda
