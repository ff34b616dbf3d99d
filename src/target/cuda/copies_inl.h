// Boxes of tensors into scratch: asynchronous copies of the widest piece that everything is aligned to, or single elements.
//
//   load X[y0-1:y1+1, c0:c1] -> scratch      each thread copies every threads-th piece of the box; pieces outside of the tensor are zeros
#pragma once
#include "schedule/pieces.h"
#include "target/cuda/slots_inl.h"

namespace tilewright::cuda {

struct Copies : SlotText {
  bool copies_pending = false;           // outside of a ring

  // Elements along the innermost dim that one copy of 16, 8 or 4 bytes takes; else 1.
  std::int64_t copy_width(const Buffer& b) const {
    const DimOrder& outer = layouts[static_cast<std::size_t>(b.tensor)];
    if (outer.empty() || b.at->order.back() != outer.back()) return 1;
    const auto d = static_cast<std::size_t>(outer.back());
    const Through* const list = through_of(b, d);
    if (list && (list->key || list->size != 1 || slots(list->slots).unit == 1)) return 1;
    if (b.outside.value_or(0) != 0) return 1;
    std::int64_t width = piece_width(p, s, *b.at, b.box, b.extent);
    while (width > 1 && list && slots(list->slots).unit % width) width /= 2;
    return width;
  }
  // Places along a dim that are brought in pieces of `width` along the innermost one.
  std::int64_t places(const Buffer& b, std::size_t d, std::int64_t width) const {
    return d == static_cast<std::size_t>(b.at->order.back()) ? brought_by_pieces(*b.at, brought(b, d), width) / width : brought(b, d);
  }

  // The condition under which a place of the box is an element of it; empty where that is certain.
  std::string in_box(const Buffer& b, std::size_t d) const {
    const Span& span = b.box[d];
    if (const Through* list = through_of(b, d); list && !list->key && list->with < 0) return fmt::format("i{} < {}", d, affine(span.high));
    std::string all;
    auto need = [&](const std::string& condition) { all += (all.empty() ? "" : " && ") + condition; };
    if (span.step != 1 || !always_inside(span, dim(b.tensor, d))) {
      need(fmt::format("unsigned(i{}) < {}u", d, dim(b.tensor, d)));
      if (span.step != 1 || ragged(r, s, span) || listed(span)) need(fmt::format("i{} < {}", d, affine(span.high)));
    }
    if (span.ceiling < dim(b.tensor, d)) need(fmt::format("i{} < {}", d, span.ceiling));
    if (span.floor > 0) need(fmt::format("i{} >= {}", d, span.floor));
    return all;
  }

  // How the threads of a block share the pieces of a box: `inner` pieces of a row side by side, `at_once` rows, in passes over the
  // outermost dim that has more than one row. No rows: any thread takes any piece.
  struct Rows {
    std::int64_t width = 1, items = 0, inner = 1, at_once = 0, passes = 1, count = 1;
    std::size_t outer = SIZE_MAX;
  };
  Rows rows_of(const Buffer& b) const {
    Rows n;
    n.width = copy_width(b);
    n.items = 1;
    for (std::size_t d = 0; d < b.extent.size(); ++d) n.items *= places(b, d, n.width);
    if (b.extent.empty() || n.width * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype)) < 4 || b.outside.value_or(0) != 0) return n;
    n.inner = n.items;
    for (std::size_t i = 0; i + 1 < b.at->order.size() && n.outer == SIZE_MAX; ++i)
      if (const auto d = static_cast<std::size_t>(b.at->order[i]); brought(b, d) > 1) n.outer = d, n.count = brought(b, d), n.inner = n.items / n.count;
    if (n.inner > s.threads) return n;
    n.at_once = n.outer == SIZE_MAX ? 1 : s.threads / n.inner;
    n.passes = ceil_div_i64(n.count, n.at_once);
    if (n.passes > 24 || (b.at->swizzled && n.at_once % 4)) n.at_once = 0;
    return n;
  }
  std::vector<std::int64_t> strides_of(TensorId t) const {
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < p.tensor(t).dims.size(); ++d) dims.push_back(dim(t, d));
    return dense_strides(dims, layouts[static_cast<std::size_t>(t)]);
  }
  static Affine without(Affine a, int loop) {
    std::erase_if(a.terms, [&](const auto& term) { return loop >= 0 && term.first / 2 == loop; });
    return a;
  }
  static std::string sum(const std::vector<std::string>& terms, const char* between = " + ") {
    std::string text;
    for (const std::string& t : terms) text += (text.empty() ? "" : between) + t;
    return text;
  }

  void load(const Buffer& b) {
    if (!in_scratch(b)) return;
    if (prepared.count(b.tensor)) return load_rows(b);
    if (!b.through.empty()) return load_pieces(b);
    if (rows_of(b).at_once > 0) {
      line("{");
      ++depth;
      if (prepare(b, -1)) load_rows(b);
      prepared.erase(b.tensor);
      --depth;
      line("}");
      return;
    }
    load_pieces(b);
  }

  // Any thread takes any piece.
  void load_pieces(const Buffer& b) {
    const Rows n = rows_of(b);
    const auto stride = strides_of(b.tensor);
    const std::int64_t rounds = ceil_div_i64(n.items, s.threads);
    line(!b.through.empty() ? "#pragma unroll 4" : rounds <= 16 ? "#pragma unroll" : n.width > 1 ? "#pragma unroll 4" : "#pragma unroll 16");
    line(fmt::format("for (int round = 0; round < {}; ++round) {{  // load {}", rounds, p.tensor(b.tensor).name));
    ++depth;
    line(fmt::format("unsigned rest = threadIdx.x + round * {};", s.threads));
    line(n.items % s.threads ? fmt::format("if (rest < {}) {{", n.items) : "{");
    ++depth;
    std::vector<std::string> from, to, inside;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      name_place(b, d, n.width, -1);
      to.push_back(fmt::format("o{} * {}", d, stride_to(b, d)));
      std::string condition = in_box(b, d);
      const Through* const list = through_of(b, d);
      const std::size_t lead = list && list->with >= 0 ? static_cast<std::size_t>(list->with) : d;
      const std::string there = lead == d ? condition : in_box(b, lead);
      if (list && !list->key && !there.empty()) from.push_back(fmt::format("({} ? {} * {} : 0)", there, looked_up(*list, fmt::format("i{}", lead)), stride[d]));
      else from.push_back(list ? fmt::format("{} * {}", looked_up(*list, fmt::format("i{}", d)), stride[d]) : fmt::format("i{} * {}", d, stride[d]));
      if (!condition.empty()) inside.push_back(std::move(condition));
    }
    if (std::string condition = alive(b); !condition.empty()) inside.push_back(std::move(condition));
    if (to.empty()) to = from = {"0"};
    copy(b, n.width, b.at->swizzled ? swizzled_place(b, n.width) : sum(to), sum(from), sum(inside, " && "));
    for (int k = 0; k < 2; ++k) --depth, line("}");
    if (n.width > 1 || bytes_of(p.tensor(b.tensor).dtype) == 4) copies_pending = true;
  }
  // Names the place of `rest` along a dim, in the box and in the tensor (there without the terms of `loop`), and takes it off.
  void name_place(const Buffer& b, std::size_t d, std::int64_t width, int loop) {
    const bool inner = d == static_cast<std::size_t>(b.at->order.back());
    const std::int64_t scale = inner ? width : 1, count = places(b, d, width), lead = inner && width > 1 ? b.at->lead : 0;
    line(fmt::format("const int o{} = int(rest % {}){}{}; rest /= {};", d, count, scale == 1 ? "" : fmt::format(" * {}", scale), lead ? fmt::format(" - {}", lead) : "", count));
    line(fmt::format("const int i{} = {} + o{}{};", d, affine(without(b.box[d].low, loop)), d, b.box[d].step == 1 ? "" : fmt::format(" * {}", b.box[d].step)));
  }

  // ---- rows: a thread's place is computed once, before the loop that streams them

  struct Prepared { int loop = -1; std::int64_t forward = 0, row_forward = 0; bool conditional = false, listed = false; };
  std::map<TensorId, Prepared> prepared{};

  // Where an iteration moves all pieces by the same distance, and only rows may then leave the tensor.
  bool prepare(const Buffer& b, int loop) {
    const Rows n = rows_of(b);
    if (n.at_once == 0) return false;
    if (listed_dim(b) != SIZE_MAX) return prepare_listed(b, loop);
    const auto stride = strides_of(b.tensor);
    Prepared ready{loop, 0, 0, false};
    for (std::size_t d = 0; d < b.box.size(); ++d)
      for (const Affine* bound : {&b.box[d].low, &b.box[d].high})
        for (const auto& [v, c] : bound->terms) {
          if (loop < 0 || v / 2 != loop) continue;
          if ((d != n.outer && !in_box(b, d).empty()) || (bound == &b.box[d].low && v % 2)) return false;
          if (bound == &b.box[d].high) continue;
          ready.forward += c * stride[d];
          if (d == n.outer) ready.row_forward = c;
        }
    const std::string name = tensor(b.tensor);
    line(fmt::format("{2} to_{0}, row_{0} = 0;  // of this thread's pieces of {1}", name, p.tensor(b.tensor).name, b.through.empty() ? "int from_" + name + "," : "i64 from_" + name + "; int"));
    line(fmt::format("bool in_{} = true;", name));
    line("{");
    ++depth;
    line(fmt::format("unsigned rest = threadIdx.x % {};", n.inner));
    std::vector<std::string> from, to, inside;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      if (d == n.outer) {
        line(fmt::format("const int o{} = threadIdx.x / {};", d, n.inner));
        line(fmt::format("const int i{} = row_{} = {} + o{}{};", d, name, affine(without(b.box[d].low, loop)), d, b.box[d].step == 1 ? "" : fmt::format(" * {}", b.box[d].step)));
      } else {
        name_place(b, d, n.width, loop);
        if (std::string condition = in_box(b, d); !condition.empty()) inside.push_back(std::move(condition));
      }
      to.push_back(fmt::format("o{} * {}", d, stride_to(b, d)));
      from.push_back(through_of(b, d) ? fmt::format("{} * {}", looked_up(b.through[d], ""), stride[d]) : fmt::format("i{} * {}", d, stride[d]));
    }
    line(fmt::format("from_{0} = {1}, to_{0} = {2};", name, sum(from), b.at->swizzled ? swizzled_place(b, n.width) : sum(to)));
    if (!inside.empty()) line(fmt::format("in_{} = {};", name, sum(inside, " && ")));
    ready.conditional = !inside.empty();
    --depth;
    line("}");
    prepared[b.tensor] = ready;
    return true;
  }
  // Where a pass's piece goes: rows that are an odd multiple of four apart exchange their pieces by four.
  std::string place_of_pass(const Buffer& b, const std::string& name, std::int64_t step) const {
    const auto bytes = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    const std::string first = b.at->swizzled && step * bytes / 128 % 8 ? fmt::format("(to_{} ^ pass % 2 * {})", name, 64 / bytes) : "to_" + name;
    return fmt::format("{} + {} + pass * {}", where.at(b.tensor).pointer, first, step);
  }
  void load_rows(const Buffer& b) {
    const Prepared& ready = prepared.at(b.tensor);
    if (ready.listed) return load_listed(b, ready);
    const Rows n = rows_of(b);
    const std::string name = tensor(b.tensor);
    const std::int64_t bytes = n.width * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    if (n.inner * n.at_once < s.threads) line(fmt::format("if (threadIdx.x < {})", n.inner * n.at_once));
    line("#pragma unroll");
    line(fmt::format("for (int pass = 0; pass < {}; ++pass) {{  // load {}", n.passes, p.tensor(b.tensor).name));
    ++depth;
    if (n.at_once * n.passes > n.count) line(fmt::format("if (threadIdx.x / {} + pass * {} >= {}) break;", n.inner, n.at_once, n.count));
    std::vector<std::string> inside;
    if (ready.conditional) inside.push_back("in_" + name);
    std::int64_t to_step = 0, from_step = 0;
    if (n.outer != SIZE_MAX) {
      const Span& span = b.box[n.outer];
      to_step = n.at_once * stride_to(b, n.outer), from_step = n.at_once * span.step * strides_of(b.tensor)[n.outer];
      if (std::string condition = in_box(b, n.outer); !condition.empty()) {
        line(fmt::format("const int i{} = row_{} + pass * {}{};", n.outer, name, n.at_once * span.step,
                         ready.row_forward ? fmt::format(" + {} * {}", variable(2 * ready.loop), ready.row_forward) : ""));
        inside.push_back(std::move(condition));
      }
    }
    const std::string to = place_of_pass(b, name, to_step);
    const std::string from = fmt::format("from_{} + pass * {}{}", name, from_step, ready.forward ? fmt::format(" + {} * {}", variable(2 * ready.loop), ready.forward) : "");
    if (!inside.empty()) line(fmt::format("const bool inside = {};", sum(inside, " && ")));
    line(inside.empty() ? fmt::format("copy_async<{}>({}, {} + ({}));", bytes, to, global(b.tensor), from)
                        : fmt::format("copy_async<{0}>({1}, {2} + (inside ? {3} : 0), inside ? {0} : 0);", bytes, to, global(b.tensor), from));
    --depth;
    line("}");
    copies_pending = true;
  }

  // ---- rows that a list names: a thread holds the elements that its next rows stand for, so that no copy waits for the list

  bool prepare_listed(const Buffer& b, int loop) {
    const Rows n = rows_of(b);
    const std::size_t outer = listed_dim(b);
    if (loop < 0 || n.outer != outer) return false;
    const auto stride = strides_of(b.tensor);
    const std::string name = tensor(b.tensor);
    Prepared ready{loop, 0, 0, false, true};
    for (std::size_t d = 0; d < b.box.size(); ++d)
      for (const auto& [v, c] : b.box[d].low.terms) {
        if (v / 2 != loop || d == outer) continue;
        if (v % 2 || !in_box(b, d).empty()) return false;
        ready.forward += c * stride[d];
      }
    line(fmt::format("i64 from_{0}; int to_{0}, row_{0}, next_{0}[{1}];  // of this thread's pieces of {2}", name, n.passes, p.tensor(b.tensor).name));
    line(fmt::format("bool in_{} = true;", name));
    line("{");
    ++depth;
    line(fmt::format("unsigned rest = threadIdx.x % {};", n.inner));
    std::vector<std::string> from, to, inside;
    for (std::size_t i = b.at->order.size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      if (d == outer) {
        line(fmt::format("const int o{} = threadIdx.x / {};", d, n.inner));
        line(fmt::format("row_{} = {} + o{};", name, affine(without(b.box[d].low, loop)), d));
      } else {
        name_place(b, d, n.width, loop);
        if (std::string condition = in_box(b, d); !condition.empty()) inside.push_back(std::move(condition));
        if (through_of(b, d) && b.through[d].with >= 0) continue;
        from.push_back(through_of(b, d) ? fmt::format("{} * {}", looked_up(b.through[d], ""), stride[d]) : fmt::format("i{} * {}", d, stride[d]));
      }
      to.push_back(fmt::format("o{} * {}", d, stride_to(b, d)));
    }
    if (std::string condition = alive(b); !condition.empty()) inside.push_back(std::move(condition));
    line(fmt::format("from_{0} = {1}, to_{0} = {2};", name, from.empty() ? "0" : sum(from), b.at->swizzled ? swizzled_place(b, n.width) : sum(to)));
    if (!inside.empty()) line(fmt::format("in_{} = {};", name, sum(inside, " && ")));
    ready.conditional = !inside.empty();
    const Slots& l = slots(b.through[outer].slots);
    const std::string end = l.count >= 0 ? fmt::format("count_{}", b.through[outer].slots) : affine(b.box[outer].high);
    line("#pragma unroll");
    line(fmt::format("for (int pass = 0; pass < {}; ++pass) {{", n.passes));
    line(fmt::format("  const int i = row_{} + pass * {};", name, n.at_once));
    line(fmt::format("  next_{}[pass] = i < {} ? place_{}(i) : 0;", name, end, b.through[outer].slots));
    line("}");
    --depth;
    line("}");
    prepared[b.tensor] = ready;
    return true;
  }
  void load_listed(const Buffer& b, const Prepared& ready) {
    const Rows n = rows_of(b);
    const std::size_t outer = listed_dim(b);
    const Through& list = b.through[outer];
    const bool moves = slots(list.slots).count >= 0;
    const std::string name = tensor(b.tensor), end = moves ? fmt::format("count_{}", list.slots) : affine(b.box[outer].high);
    const std::int64_t bytes = n.width * static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    if (n.inner * n.at_once < s.threads) line(fmt::format("if (threadIdx.x < {})", n.inner * n.at_once));
    line("#pragma unroll");
    line(fmt::format("for (int pass = 0; pass < {}; ++pass) {{  // load {}", n.passes, p.tensor(b.tensor).name));
    ++depth;
    if (n.at_once * n.passes > n.count) line(fmt::format("if (threadIdx.x / {} + pass * {} >= {}) break;", n.inner, n.at_once, n.count));
    line(fmt::format("const int i = row_{} + pass * {}{};", name, n.at_once, moves ? " + " + variable(2 * ready.loop) : ""));
    line(fmt::format("const bool inside = i < {}{};", end, ready.conditional ? " && in_" + name : ""));
    std::string row;
    for (std::size_t d = 0; d < b.through.size(); ++d)
      if (through_of(b, d) && !b.through[d].key) row += fmt::format(" + {} * {}", of_element(b.through[d], fmt::format("next_{}[pass]", name)), strides_of(b.tensor)[d]);
    line(fmt::format("const i64 from = from_{}{}{};", name, row,
                     ready.forward ? fmt::format(" + i64({}) * {}", variable(2 * ready.loop), ready.forward) : ""));
    line(fmt::format("copy_async<{0}>({1}, {2} + (inside ? from : 0), inside ? {0} : 0);", bytes, place_of_pass(b, name, n.at_once * stride_to(b, outer)), global(b.tensor)));
    if (moves) {
      const std::int64_t size = s.steps[static_cast<std::size_t>(ready.loop)].size;
      line(fmt::format("next_{}[pass] = i + {} < {} ? place_{}(i + {}) : 0;", name, size, end, list.slots, size));
    }
    --depth;
    line("}");
    copies_pending = true;
  }

  // Where a piece of 16 bytes goes in a swizzled buffer.
  std::string swizzled_place(const Buffer& b, std::int64_t v) {
    const std::int64_t row = swizzled_row(b);
    if (v * 8 != row) why = p.tensor(b.tensor).name + " is not aligned to the pieces of swizzled rows";
    std::string flat;
    std::int64_t elements = 1;
    scratch_strides(b, &elements);
    for (std::size_t i = b.at->order.size() - 1; i-- > 0;) {
      const auto d = static_cast<std::size_t>(b.at->order[i]);
      flat += fmt::format("{}o{} * {}", flat.empty() ? "" : " + ", d, stride_to(b, d) / row);
    }
    return fmt::format("swizzled<{}, {}>({}, o{})", row, elements / row, flat, b.at->order.back());
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
    const std::string outside = is_float(t) ? fmt::format("round_to<{}>({})", type, literal(b.outside.value_or(0), DType::f32)) : fmt::format("{}({})", type, static_cast<std::int64_t>(b.outside.value_or(0)));
    line(inside.empty() ? fmt::format("{}[{}] = {}[{}];", w.pointer, to, global(b.tensor), from)
                        : fmt::format("{}[{}] = inside ? {}[{}] : {};", w.pointer, to, global(b.tensor), from, outside));
  }

  // ---- rings

  std::string variable_name(const For& f) const { return c_name(r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(f.step)].axis)]); }

  std::vector<BufferId> ring_of(const Node& node) const {
    std::vector<BufferId> list;
    for (const Node& n : node.body)
      if (const Load* l = std::get_if<Load>(&n.op); l && (l->ahead > 0 || (buffer(l->buffer).at && buffer(l->buffer).at->bulk))) list.push_back(l->buffer);
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
    line(fmt::format("if (const int {} = {}; {} < {}) {{", ahead, low, ahead, end_of(f)));
    ++depth;
    line(fmt::format("const int {0} = {1}, {2} = min({0} + {3}, {4});", lo, ahead, hi, f.size, end_of(f)));
    at_stage(list, stage);
    for (BufferId id : list) load(buffer(id));
    --depth;
    line("}");
    line("copies_commit();");
    copies_pending = false;
  }
  void begin_ring(const Node& node, const For& f) {
    line(fmt::format("// ring of {}: copies of {} iterations are under way", f.stages, ahead_of(node)));
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
