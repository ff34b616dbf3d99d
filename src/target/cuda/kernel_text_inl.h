// A kernel while it is printed: its text so far, the names of loop variables and tensors, and where tensors are. The parts of the
// printer build on one another: kernel_text, vector_leaf, tensor_leaf, source.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "expr/text.h"
#include "target/cuda/scalar_source.h"
#include "target/cuda/source.h"

namespace tilewright::cuda {

inline std::string c_name(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "t_" + out : out;
}

struct KernelText {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Nest& nest;
  const std::vector<DimOrder>& layouts;
  Source out;
  std::map<TensorId, Where> where{};
  std::map<StatementId, Points> streamed{};          // reductions whose accumulator lives across a loop
  std::string why{};                                 // of a refusal
  int depth = 1;

  // ---- text
  void line(const std::string& text) { out.text += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + "\n"; }
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
  const Buffer& buffer(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)]; }
  const Statement& statement(StatementId id) const { return *p.statement(id); }
  bool in_scratch(const Buffer& b) const { return b.at && b.at->level == LevelRole::scratch; }
  std::int64_t dim(TensorId t, std::size_t d) const { return p.tensor(t).dims[d].constant(); }

  // ---- where tensors are

  std::vector<std::int64_t> scratch_strides(const Buffer& b) const {
    std::vector<std::int64_t> stride(b.extent.size(), 0);
    std::int64_t n = 1;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      stride[static_cast<std::size_t>(b.at->order[i])] = n;
      n *= b.extent[static_cast<std::size_t>(b.at->order[i])];
      if (i + 1 == b.at->order.size()) n += b.at->pad;
    }
    return stride;
  }

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
        w.stride = scratch_strides(b);
        for (const Span& span : b.box) w.low.push_back(affine(span.low));
        w.filled = b.outside.has_value();
        const auto outermost = static_cast<std::size_t>(b.at->order.empty() ? 0 : b.at->order[0]);
        const std::int64_t elements = b.extent.empty() ? 1 : b.extent[outermost] * w.stride[outermost];
        line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>(scratch + {2});", stored_type_of(p.tensor(b.tensor).dtype), w.pointer, out.scratch));
        out.scratch += (elements * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype)) + 127) / 128 * 128;
      }
      where[b.tensor] = std::move(w);
    }
  }

  // ---- loads into scratch

  // Elements along the innermost dim that 16 bytes hold, where everything is aligned to them; else 1.
  std::int64_t vector_width(const Buffer& b) const {
    const DimOrder& outer = layouts[static_cast<std::size_t>(b.tensor)];
    if (outer.empty() || b.at->order.back() != outer.back()) return 1;
    const auto d = static_cast<std::size_t>(outer.back());
    const auto v = 16 / static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    if (v <= 1 || b.extent[d] % v || dim(b.tensor, d) % v || b.at->pad % v || b.box[d].step != 1 || b.outside.value_or(0) != 0) return 1;
    if (b.box[d].low.offset % v) return 1;
    for (const auto& [variable_, c] : b.box[d].low.terms)
      if (variable_ % 2 || c * s.steps[static_cast<std::size_t>(variable_ / 2)].size % v) return 1;
    return v;
  }

  void load(const Buffer& b) {
    if (!in_scratch(b)) return;
    const Where& w = where.at(b.tensor);
    const std::string type = stored_type_of(p.tensor(b.tensor).dtype);
    const std::int64_t v = vector_width(b);
    std::int64_t count = 1;
    for (std::int64_t e : b.extent) count *= e;
    line(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) {{  // load {}", count / v, s.threads, p.tensor(b.tensor).name));
    ++depth;
    line("int rest = i;");
    std::string from, to, inside;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      const std::int64_t scale = i + 1 == b.at->order.size() ? v : 1, extent = b.extent[d] / scale;
      line(fmt::format("const int o{} = rest % {}{}; rest /= {};", d, extent, scale == 1 ? "" : fmt::format(" * {}", scale), extent));
      line(fmt::format("const int i{} = {} + o{}{};", d, affine(b.box[d].low), d, b.box[d].step == 1 ? "" : fmt::format(" * {}", b.box[d].step)));
      to += fmt::format("{}o{} * {}", to.empty() ? "" : " + ", d, w.stride[d]);
      inside += fmt::format("{}unsigned(i{}) < {}u && i{} < {}", inside.empty() ? "" : " && ", d, dim(b.tensor, d), d, affine(b.box[d].high));
      if (b.box[d].ceiling < dim(b.tensor, d)) inside += fmt::format(" && i{} < {}", d, b.box[d].ceiling);
      if (b.box[d].floor > 0) inside += fmt::format(" && i{} >= {}", d, b.box[d].floor);
    }
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < b.extent.size(); ++d) dims.push_back(dim(b.tensor, d));
    const auto stride = dense_strides(dims, layouts[static_cast<std::size_t>(b.tensor)]);
    for (std::size_t d = 0; d < b.extent.size(); ++d) from += fmt::format("{}i{} * {}", from.empty() ? "" : " + ", d, stride[d]);
    if (inside.empty()) inside = "true", from = to = "0";
    line(fmt::format("const bool inside = {};", inside));
    if (v > 1) {
      line(fmt::format("copy_async({} + {}, {} + (inside ? {} : 0), inside ? 16 : 0);", w.pointer, to, global(b.tensor), from));
    } else {
      const bool integer = !is_float(p.tensor(b.tensor).dtype);
      const std::string outside = integer ? fmt::format("{}(0)", type) : fmt::format("round_to<{}>({})", type, literal(b.outside.value_or(0), DType::f32));
      line(fmt::format("{}[{}] = inside ? {}[{}] : {};", w.pointer, to, global(b.tensor), from, outside));
    }
    --depth;
    line("}");
    if (v > 1) copies_pending = true;
  }
  bool copies_pending = false;
};

}  // namespace tilewright::cuda
