// How a kernel reads slots: the list that a loop goes through, and what its places stand for.
//
//   const int* const list_0 = g_A_slot + i64(m_0 / 32) * 4096;  const int count_0 = g_A_count[m_0 / 32];       a stream's
//   const int* const row_0 = g_e_tile + 4 * tile;  key_0, t_0, t_1, live_0 are its elements                     a grid's
//   place(0, i): the element that place i of the list stands for
//
// Offsets of what is read or written through slots are 64 bits wide.
#pragma once
#include "target/cuda/kernel_text_inl.h"

namespace tilewright::cuda {

struct SlotText : KernelText {
  const Slots& slots(int n) const { return nest.slots[static_cast<std::size_t>(n)]; }
  const Through* through_of(const Buffer& b, std::size_t d) const { return b.through.empty() || b.through[d].slots < 0 ? nullptr : &b.through[d]; }
  // The dim of a buffer that is looked up in a list; none: SIZE_MAX.
  std::size_t listed_dim(const Buffer& b) const {
    for (std::size_t d = 0; d < b.through.size(); ++d)
      if (through_of(b, d) && !b.through[d].key) return d;
    return SIZE_MAX;
  }

  // What a place stands for in one dim; `i` is a C expression.
  std::string looked_up(const Through& t, const std::string& i) const {
    if (t.key) return fmt::format("i64(key_{})", t.slots);
    return of_element(t, fmt::format("place_{}({})", t.slots, i));
  }
  static std::string of_element(const Through& t, const std::string& e) {
    const std::string part = t.size == 1 ? e : fmt::format("{} / {}", e, t.size);
    return t.extent ? fmt::format("i64({} % {})", part, t.extent) : fmt::format("i64({})", part);
  }
  // A pattern for ScalarSource: {} is the index.
  std::vector<std::string> patterns(const Buffer& b) const {
    std::vector<std::string> list;
    for (std::size_t d = 0; d < b.through.size(); ++d) list.push_back(through_of(b, d) ? looked_up(b.through[d], "{}") : "");
    return list;
  }

  // ---- the top of a tile

  std::string group_of(const Slots& l) const {
    std::string text;
    for (const Slots::Part& part : l.group) {
      std::string one = part.size == 1 ? variable(part.variable) : fmt::format("{} / {}", variable(part.variable), part.size);
      text += fmt::format("{}{}", text.empty() ? "" : " + ", part.stride == 1 ? one : fmt::format("{} * {}", one, part.stride));
    }
    return text.empty() ? "0" : text;
  }
  void place_of_list(int n) {
    const Slots& l = slots(n);
    line(l.unit == 1 ? fmt::format("const auto place_{0} = [&](int i) {{ return list_{0}[i]; }};", n)
                     : fmt::format("const auto place_{0} = [&](int i) {{ return list_{0}[i / {1}] * {1} + i % {1}; }};", n, l.unit));
  }
  // The list of a stream's group, behind the tile's own variables.
  void open_lists() {
    for (std::size_t n = 0; n < nest.slots.size(); ++n) {
      const Slots& l = nest.slots[n];
      if (l.count < 0) continue;
      line(fmt::format("const int group_{} = {};", n, group_of(l)));
      line(fmt::format("const int* const list_{0} = {1} + i64(group_{0}) * {2};  // micro-tiles that live", n, global(l.slot), l.most));
      line(fmt::format("const int count_{0} = {1}[group_{0}]{2};", n, global(l.count), l.unit == 1 ? "" : fmt::format(" * {}", l.unit)));
      place_of_list(static_cast<int>(n));
    }
  }
  // A tile of a grid through slots: what its row of the table says. `skip`: how a tile without points ends.
  void open_row(int n, const std::string& tile, const std::string& lo, const std::string& hi, const std::string& skip) {
    const Slots& l = slots(n);
    line(fmt::format("const int* const row_{} = {} + 4 * ({});", n, global(l.tile), tile));
    line(fmt::format("const int key_{0} = row_{0}[0], {1} = row_{0}[1], {2} = row_{0}[2], live_{0} = row_{0}[3];", n, lo, hi));
    line(fmt::format("if ({} >= {}) {};", lo, hi, skip));
    line(fmt::format("const int* const list_{} = {};", n, global(l.slot)));
    place_of_list(n);
  }

  // ---- loops

  // Where a loop ends. Where no micro-tile of a tile lives, its sums are empty.
  std::string end_of(const For& f) const {
    if (f.slots >= 0 && slots(f.slots).count >= 0) return fmt::format("count_{}", f.slots);
    for (std::size_t n = 0; n < nest.slots.size() && f.kind == For::Kind::seq; ++n)
      if (nest.slots[n].tile >= 0 && nest.slots[n].keys == 0) return fmt::format("(live_{} ? {} : 0)", n, f.extent);
    return std::to_string(f.extent);
  }
  // A tile whose micro-tiles do not live reads nothing.
  std::string alive(const Buffer& b) const {
    const std::size_t d = listed_dim(b);
    return d != SIZE_MAX && slots(b.through[d].slots).tile >= 0 && slots(b.through[d].slots).keys == 0 ? fmt::format("live_{}", b.through[d].slots) : "";
  }
};

}  // namespace tilewright::cuda
