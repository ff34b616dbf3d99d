// Boxes of tensors into scratch: asynchronous copies of the widest piece that everything is aligned to, or single elements.
//
//   load X[y0-1:y1+1, c0:c1] -> scratch      each thread copies every threads-th piece of the box; pieces outside of the tensor are zeros
#pragma once
#include "target/cuda/kernel_text_inl.h"

namespace tilewright::cuda {

struct Copies : KernelText {
  bool copies_pending = false;           // outside of a ring

  // Elements along the innermost dim that one copy of 16, 8 or 4 bytes takes; else 1.
  std::int64_t copy_width(const Buffer& b) const {
    const DimOrder& outer = layouts[static_cast<std::size_t>(b.tensor)];
    if (outer.empty() || b.at->order.back() != outer.back()) return 1;
    const auto d = static_cast<std::size_t>(outer.back());
    if (b.box[d].step != 1 || b.outside.value_or(0) != 0 || b.box[d].floor > 0 || b.box[d].ceiling < dim(b.tensor, d)) return 1;
    for (std::int64_t bytes : {16, 8, 4}) {
      const std::int64_t v = bytes / static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
      if (v < 1) break;
      if (b.extent[d] % v == 0 && dim(b.tensor, d) % v == 0 && b.at->pad % v == 0 && multiple(b.box[d].low, v)) return v;
    }
    return 1;
  }

  // The condition under which a place of the box is an element of it; empty where that is certain.
  std::string in_box(const Buffer& b, std::size_t d) const {
    const Span& span = b.box[d];
    std::string all;
    auto need = [&](const std::string& condition) { all += (all.empty() ? "" : " && ") + condition; };
    if (span.step != 1 || !always_inside(span, dim(b.tensor, d))) {
      need(fmt::format("unsigned(i{}) < {}u", d, dim(b.tensor, d)));
      if (span.step != 1 || ragged(span)) need(fmt::format("i{} < {}", d, affine(span.high)));
    }
    if (span.ceiling < dim(b.tensor, d)) need(fmt::format("i{} < {}", d, span.ceiling));
    if (span.floor > 0) need(fmt::format("i{} >= {}", d, span.floor));
    return all;
  }

  // How the threads of a block share the pieces of a box.
  struct Pieces { std::int64_t width = 1, items = 0, rounds = 0; };
  Pieces pieces_of(const Buffer& b) const {
    Pieces n{copy_width(b), 1, 0};
    for (std::int64_t e : b.extent) n.items *= e;
    n.items /= n.width;
    n.rounds = ceil_div_i64(n.items, s.threads);
    return n;
  }
  // Opens the loop over a thread's pieces; `rest` is the piece.
  void open_pieces(const Buffer& b, const Pieces& n, const std::string& what) {
    line(n.rounds <= 16 ? "#pragma unroll" : "#pragma unroll 4");
    line(fmt::format("for (int round = 0; round < {}; ++round) {{  // {} {}", n.rounds, what, p.tensor(b.tensor).name));
    ++depth;
    line(fmt::format("unsigned rest = threadIdx.x + round * {};", s.threads));
    line(n.items % s.threads ? fmt::format("if (rest < {}) {{", n.items) : "{");
    ++depth;
  }
  void close_pieces() {
    for (int n = 0; n < 2; ++n) --depth, line("}");
  }
  // Names a piece's place in the box and in the tensor, without the terms of `loop`, and says whether it is inside.
  struct Piece { std::string to, from, inside; };
  Piece name_piece(const Buffer& b, const Pieces& n, int loop) {
    const Where& w = where.at(b.tensor);
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < b.extent.size(); ++d) dims.push_back(dim(b.tensor, d));
    const auto stride = dense_strides(dims, layouts[static_cast<std::size_t>(b.tensor)]);
    Piece piece;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      const std::int64_t scale = i + 1 == b.at->order.size() ? n.width : 1, extent = b.extent[d] / scale;
      Affine low = b.box[d].low;
      std::erase_if(low.terms, [&](const auto& term) { return loop >= 0 && term.first / 2 == loop; });
      line(fmt::format("const int o{} = int(rest{}){}; rest /= {};", d, i == 0 ? "" : fmt::format(" % {}", extent), scale == 1 ? "" : fmt::format(" * {}", scale), extent));
      line(fmt::format("const int i{} = {} + o{}{};", d, affine(low), d, b.box[d].step == 1 ? "" : fmt::format(" * {}", b.box[d].step)));
      piece.to += fmt::format("{}o{} * {}", piece.to.empty() ? "" : " + ", d, w.stride[d]);
      piece.from += fmt::format("{}i{} * {}", piece.from.empty() ? "" : " + ", d, stride[d]);
      if (const std::string condition = in_box(b, d); !condition.empty()) piece.inside += (piece.inside.empty() ? "" : " && ") + condition;
    }
    if (piece.to.empty()) piece.to = piece.from = "0";
    if (b.at->swizzled) piece.to = swizzled_place(b, n.width);
    return piece;
  }

  void load(const Buffer& b) {
    if (!in_scratch(b)) return;
    if (prepared.count(b.tensor)) return load_prepared(b);
    const Pieces n = pieces_of(b);
    open_pieces(b, n, "load");
    const Piece piece = name_piece(b, n, -1);
    copy(b, n.width, piece.to, piece.from, piece.inside);
    close_pieces();
    if (n.width > 1 || bytes_of(p.tensor(b.tensor).dtype) == 4) copies_pending = true;
  }

  // ---- pieces whose places are computed once, before the loop that streams them

  struct Prepared { int loop = -1; std::int64_t forward = 0, step = 0, from_step = -1; bool conditional = false; };   // from_step: of whole rows, else -1
  std::map<TensorId, Prepared> prepared{};

  // Where every iteration moves all pieces by the same distance, and a thread's next piece lies a fixed distance behind.
  void prepare(const Buffer& b, int loop) {
    const Pieces n = pieces_of(b);
    const auto inner = static_cast<std::size_t>(b.at->order.back());
    const std::int64_t a_row = b.extent[inner] / n.width, rows = a_row > 0 ? s.threads / a_row : 0;
    if (n.width * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype)) < 4 || n.rounds > 16 || b.at->order.size() < 2 || s.threads % a_row || (b.at->swizzled && rows % 8)) return;
    const auto outer = static_cast<std::size_t>(b.at->order[b.at->order.size() - 2]);
    Prepared ready{loop, 0, rows * where.at(b.tensor).stride[outer], -1, false};
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < b.extent.size(); ++d) dims.push_back(dim(b.tensor, d));
    const auto stride = dense_strides(dims, layouts[static_cast<std::size_t>(b.tensor)]);
    for (std::size_t d = 0; d < b.box.size(); ++d) {
      const bool conditional = !in_box(b, d).empty();
      ready.conditional |= conditional;
      for (const Affine* bound : {&b.box[d].low, &b.box[d].high})
        for (const auto& [v, c] : bound->terms) {
          if (v / 2 != loop) continue;
          if (conditional || (bound == &b.box[d].low && v % 2)) return;
          if (bound == &b.box[d].low) ready.forward += c * stride[d];
        }
    }
    const std::string name = tensor(b.tensor);
    bool flat = !ready.conditional && b.box[outer].step == 1;      // one row behind the other, in the tensor too
    for (std::size_t i = 0; i + 2 < b.at->order.size(); ++i) flat &= b.extent[static_cast<std::size_t>(b.at->order[i])] == 1;
    if (flat) {
      ready.from_step = rows * stride[outer];
      line(fmt::format("int from_{0}, to_{0};", name));
      line("{");
      ++depth;
      line("unsigned rest = threadIdx.x;");
      const Piece piece = name_piece(b, n, loop);
      line(fmt::format("from_{0} = {1}, to_{0} = {2};", name, piece.from, piece.to));
      --depth;
      line("}");
      prepared[b.tensor] = ready;
      return;
    }
    line(fmt::format("int from_{}[{}], to_{} = 0;", name, n.rounds, name));
    open_pieces(b, n, "pieces of");
    const Piece piece = name_piece(b, n, loop);
    line(fmt::format("from_{}[round] = {};", name, piece.inside.empty() ? piece.from : fmt::format("{} ? {} : -1", piece.inside, piece.from)));
    line(fmt::format("if (round == 0) to_{} = {};", name, piece.to));
    close_pieces();
    prepared[b.tensor] = ready;
  }
  void load_prepared(const Buffer& b) {
    const Prepared& ready = prepared.at(b.tensor);
    const Pieces n = pieces_of(b);
    const std::string name = tensor(b.tensor);
    const std::string from = ready.from_step < 0 ? fmt::format("from_{}[round]", name) : fmt::format("from_{} + round * {}", name, ready.from_step);
    const std::int64_t bytes = n.width * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    line("#pragma unroll");
    line(fmt::format("for (int round = 0; round < {}; ++round)  // load {}", n.rounds, p.tensor(b.tensor).name));
    const std::string to = fmt::format("{} + to_{} + round * {}", where.at(b.tensor).pointer, name, ready.step);
    const std::string at = fmt::format("{} + {} * {}", from, variable(2 * ready.loop), ready.forward);
    const std::string guard = n.items % s.threads ? fmt::format("if (threadIdx.x + round * {} < {}) ", s.threads, n.items) : "";
    line("  " + guard + (ready.conditional ? fmt::format("copy_async<{0}>({1}, {2} + ({3} < 0 ? 0 : {4}), {3} < 0 ? 0 : {0});", bytes, to, global(b.tensor), from, at)
                                           : fmt::format("copy_async<{}>({}, {} + ({}));", bytes, to, global(b.tensor), at)));
    copies_pending = true;
  }

  // Where a piece of 16 bytes goes in a swizzled buffer.
  std::string swizzled_place(const Buffer& b, std::int64_t v) {
    const std::int64_t row = swizzled_row(b);
    if (v * 8 != row) why = p.tensor(b.tensor).name + " is not aligned to the pieces of swizzled rows";
    std::string flat;
    std::int64_t rows = 1;
    for (std::size_t i = b.at->order.size() - 1; i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      flat += fmt::format("{}o{} * {}", flat.empty() ? "" : " + ", d, rows);
      rows *= b.extent[d];
    }
    return fmt::format("swizzled<{}, {}>({}, o{})", row, rows, flat, b.at->order.back());
  }

  void copy(const Buffer& b, std::int64_t v, const std::string& to, const std::string& from, const std::string& inside) {
    const Where& w = where.at(b.tensor);
    const DType t = p.tensor(b.tensor).dtype;
    const std::int64_t bytes = v * static_cast<std::int64_t>(bytes_of(t));
    if (!inside.empty()) line(fmt::format("const bool inside = {};", inside));
    if (bytes >= 4 && b.outside.value_or(0) == 0 && bytes <= 16) {
      line(inside.empty() ? fmt::format("copy_async<{}>({} + {}, {} + {});", bytes, w.pointer, to, global(b.tensor), from)
                          : fmt::format("copy_async<{0}>({1} + {2}, {3} + (inside ? {4} : 0), inside ? {0} : 0);", bytes, w.pointer, to, global(b.tensor), from));
      return;
    }
    const std::string type = stored_type_of(t);
    const std::string outside = is_float(t) ? fmt::format("round_to<{}>({})", type, literal(b.outside.value_or(0), DType::f32)) : fmt::format("{}(0)", type);
    line(inside.empty() ? fmt::format("{}[{}] = {}[{}];", w.pointer, to, global(b.tensor), from)
                        : fmt::format("{}[{}] = inside ? {}[{}] : {};", w.pointer, to, global(b.tensor), from, outside));
  }

  // ---- rings

  std::string variable_name(const For& f) const { return c_name(r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(f.step)].axis)]); }

  std::vector<BufferId> ring_of(const Node& node) const {
    std::vector<BufferId> list;
    for (const Node& n : node.body)
      if (const Load* l = std::get_if<Load>(&n.op); l && l->ahead > 0) list.push_back(l->buffer);
    return list;
  }
  int ahead_of(const Node& node) const {
    for (const Node& n : node.body)
      if (const Load* l = std::get_if<Load>(&n.op); l && l->ahead > 0) return l->ahead;
    return 0;
  }
  // Names a ring's buffers at one of its stages.
  void at_stage(const std::vector<BufferId>& list, const std::string& stage) {
    for (BufferId id : list) {
      const TensorId t = buffer(id).tensor;
      line(fmt::format("{}* const {} = ring_{} + {} * {};", stored_type_of(p.tensor(t).dtype), where.at(t).pointer, tensor(t), stage, stage_elements.at(t)));
    }
  }
  // Issues an iteration's copies into a stage, if there is such an iteration.
  void issue(const For& f, const std::vector<BufferId>& list, const std::string& low, const std::string& stage) {
    const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1), ahead = "ahead_" + variable_name(f);
    line(fmt::format("if (const int {} = {}; {} < {}) {{", ahead, low, ahead, f.extent));
    ++depth;
    line(fmt::format("const int {0} = {1}, {2} = min({0} + {3}, {4});", lo, ahead, hi, f.size, f.extent));
    at_stage(list, stage);
    for (BufferId id : list) load(buffer(id));
    --depth;
    line("}");
    line("copies_commit();");
    copies_pending = false;
  }
  void begin_ring(const Node& node, const For& f) {
    line(fmt::format("// ring of {}: copies of {} iterations are under way", f.stages, ahead_of(node)));
    for (BufferId id : ring_of(node)) prepare(buffer(id), f.step);
    line("#pragma unroll");
    line(fmt::format("for (int early = 0; early < {}; ++early) {{", ahead_of(node)));
    ++depth;
    issue(f, ring_of(node), fmt::format("early * {}", f.size), "early");
    --depth;
    line("}");
    line(fmt::format("int stage_{} = 0;", variable_name(f)));
  }
  void issue_ahead(const Node& node, const For& f) {
    const std::string stage = "stage_" + variable_name(f);
    const int ahead = ahead_of(node), back = f.stages - ahead;
    issue(f, ring_of(node), fmt::format("{} + {}", variable(2 * f.step), ahead * f.size), fmt::format("({0} < {1} ? {0} + {2} : {0} - {1})", stage, back, ahead));
  }
};

}  // namespace tilewright::cuda
