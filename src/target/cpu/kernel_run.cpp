#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "target/cpu/kernel.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

constexpr std::size_t most_axes = 32, most_dims = 16;

std::int64_t integer_at(const std::byte* data, DType type, std::int64_t i) {
  switch (type) {
    case DType::i8: return reinterpret_cast<const std::int8_t*>(data)[i];
    case DType::u8: return reinterpret_cast<const std::uint8_t*>(data)[i];
    case DType::i32: return reinterpret_cast<const std::int32_t*>(data)[i];
    default: return reinterpret_cast<const std::int64_t*>(data)[i];
  }
}

struct TileRun {
  const k::Kernels& leaf;
  const Kernel& kernel;
  std::byte* const* tensors;
  std::byte* scratch;
  std::byte* leaf_scratch;
  std::vector<View>& views;
  std::vector<std::int64_t>& first_kept;                 // of a ring: what stands at its start
  std::array<std::int64_t, most_axes> low{}, high{};
  std::array<std::int64_t, 2 * most_axes> variables{};
  const LaneProgram::Fault* fault = nullptr;
  bool fresh = true;                               // the first turn of a stream, or none
  const Turns::Data numbers = [this](TensorId t, const Turns::Bounds* box) { return in_box(t, box); };

  // Where a buffer lies for the current loop values.
  void settle(std::size_t b) {
    const Kernel::Place& at = kernel.places[b];
    if (!at.scratch) {
      views[b].origin = tensors[at.tensor];
      return;
    }
    if (at.ring >= 0) turn(b);
    std::array<std::int64_t, most_dims> first{};
    for (std::size_t d = 0; d < at.box.size(); ++d) first[d] = static_cast<int>(d) == at.ring ? first_kept[b] : at.box[d].low.at(variables.data());
    views[b].origin = shifted(at, scratch + at.offset, first.data());
  }

  // Where a turn of a walk needs more room than there is behind what it keeps, that goes back to the start.
  void turn(std::size_t b) {
    const Kernel::Place& at = kernel.places[b];
    const auto d = static_cast<std::size_t>(at.ring);
    const Span& span = at.box[d];
    const std::int64_t begin = span.low.at(variables.data()), kept = span.kept.at(variables.data());
    std::int64_t& first = first_kept[b];
    const bool begins = variables[2 * static_cast<std::size_t>(span.walk)] == 0;
    if (!begins && span.high.at(variables.data()) - first <= at.extent[d]) return;
    if (!begins && kept > begin) {
      const auto width = static_cast<std::int64_t>(bytes_of(at.dtype)), row = at.copy_stride[d] * width;
      std::int64_t boxes = 1;                            // dims outside of the rows
      for (int outer : at.order) {
        if (outer == at.ring) break;
        boxes *= at.extent[static_cast<std::size_t>(outer)];
      }
      for (std::int64_t i = 0; i < boxes; ++i) {
        std::byte* const box = scratch + at.offset + i * at.extent[d] * row;
        std::memmove(box, box + (begin - first) * row, static_cast<std::size_t>((kept - begin) * row));
      }
    }
    first = begin;
  }

  // The origin of what begins at `to` with an element of the tensor.
  std::byte* shifted(const Kernel::Place& at, std::byte* to, const std::int64_t* first) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.box.size(); ++d) offset += first[d] * at.copy_stride[d];
    return to - offset * static_cast<std::int64_t>(bytes_of(at.dtype));
  }

  // A box of a tensor; `base` to `end` of it are copied, of which `from` to `to` lie inside the tensor.
  struct Box {
    std::array<std::int64_t, most_dims> base{}, end{}, from{}, to{};
    bool outside = false, empty = false;
  };
  // What a padded operand reads in this tile, or for the rows between `low` and `high` only.
  Box box_of(const Kernel::Place& at, const std::vector<Edge>& edges) const {
    Box box;
    for (std::size_t d = 0; d < at.box.size(); ++d) {
      box.base[d] = at.box[d].low.at(variables.data());
      box.end[d] = at.box[d].high.at(variables.data());
    }
    for (const Edge& e : edges) {
      box.base[e.dim] = e.step * low[static_cast<std::size_t>(e.row)] + e.first;
      box.end[e.dim] = e.step * (high[static_cast<std::size_t>(e.row)] - 1) + e.last + 1;
    }
    for (std::size_t d = 0; d < at.box.size(); ++d) {
      box.from[d] = std::max<std::int64_t>(box.base[d], 0);
      box.to[d] = std::min(box.end[d], at.dims[d]);
      box.outside |= box.base[d] < 0 || box.end[d] > at.dims[d];
      box.empty |= box.to[d] <= box.from[d];
    }
    return box;
  }

  // If the box of a padded operand leaves its tensor, a copy with the fill outside; its origin, or null.
  const std::byte* copy_padded(BufferId b, const std::vector<Edge>& edges = {}) {
    const Kernel::Place& at = kernel.places[static_cast<std::size_t>(b)];
    if (!at.padded) return nullptr;
    const Box box = box_of(at, edges);
    if (!box.outside) return nullptr;
    const auto width = static_cast<std::int64_t>(bytes_of(at.dtype));
    std::byte* origin = shifted(at, scratch + at.offset, box.base.data());
    for_planes(at, box.base, box.end, [&](const Plane& x) {
      leaf.fill({.rows = x.rows, .columns = x.columns, .bytes = static_cast<int>(width), .value = at.fill, .dst = origin + x.target * width, .dst_row = x.target_row, .dst_column = x.target_column});
    });
    if (box.empty) return origin;
    for_planes(at, box.from, box.to, [&](const Plane& x) {
      k::Copy c;
      c.rows = x.rows, c.columns = x.columns, c.bytes = static_cast<int>(width);
      c.src = tensors[at.tensor] + x.source * width, c.src_row = x.source_row, c.src_column = x.source_column;
      c.dst = origin + x.target * width, c.dst_row = x.target_row, c.dst_column = x.target_column;
      // Rows that follow each other on both sides, as pixels of a few channels do, are one.
      if (c.src_column == 1 && c.dst_column == 1 && c.src_row == c.columns && c.dst_row == c.columns) c.columns *= std::exchange(c.rows, 1);
      leaf.copy(c);
    });
    return origin;
  }

  // The two innermost dims of a box: where they begin in the tensor and in its copy, in elements.
  struct Plane {
    std::int64_t rows = 1, columns = 1, source = 0, target = 0;
    std::int64_t source_row = 0, source_column = 1, target_row = 0, target_column = 1;
  };
  using Ends = std::array<std::int64_t, most_dims>;
  template <class F> static void for_planes(const Kernel::Place& at, const Ends& from, const Ends& to, F f) {
    const std::size_t rank = at.box.size(), far = rank > 2 ? rank - 2 : 0;
    Plane plane;
    if (rank > 0) {
      const auto column = static_cast<std::size_t>(at.order[rank - 1]);
      plane.columns = to[column] - from[column], plane.source_column = at.stride[column], plane.target_column = at.copy_stride[column];
    }
    if (rank > 1) {
      const auto row = static_cast<std::size_t>(at.order[rank - 2]);
      plane.rows = to[row] - from[row], plane.source_row = at.stride[row], plane.target_row = at.copy_stride[row];
    }
    Ends point = from;
    for (bool more = true; more;) {
      plane.source = plane.target = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        plane.source += point[d] * at.stride[d];
        plane.target += point[d] * at.copy_stride[d];
      }
      f(plane);
      more = false;
      for (std::size_t i = far; i-- > 0 && !more;) {
        const auto d = static_cast<std::size_t>(at.order[i]);
        if (++point[d] < to[d]) more = true;
        else point[d] = from[d];
      }
    }
  }

  // ---- through slots

  const std::int32_t* table(TensorId t) const { return reinterpret_cast<const std::int32_t*>(tensors[t]); }
  std::int64_t group_of(const Slots& s) const {
    std::int64_t g = 0;
    for (const Slots::Part& part : s.group) g += variables[static_cast<std::size_t>(part.variable)] / part.size * part.stride;
    return g;
  }
  std::array<std::int32_t, 4> slot_tile{};               // of the grid's loop through slots
  // The element that place i of a list stands for.
  std::int64_t element(const Through& t, std::int64_t i) const {
    const Slots& s = kernel.slots[static_cast<std::size_t>(t.slots)];
    if (t.key) return slot_tile[0];
    const std::int64_t e = table(s.slot)[group_of(s) * s.most + i / s.unit] * s.unit + i % s.unit;
    return t.extent ? e / t.size % t.extent : e / t.size;
  }
  // A box to scratch, zeros where nothing is listed; or back. The plain form, an element at a time.
  void move(const Kernel::Place& at, bool back) {
    const std::size_t rank = at.box.size();
    const auto width = static_cast<std::int64_t>(bytes_of(at.dtype));
    std::int64_t count = 1;
    for (std::int64_t e : at.extent) count *= e;
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t rest = n, near = 0, far = 0;
      std::array<std::int64_t, most_dims> place{};
      bool inside = true;
      for (std::size_t d = rank; d-- > 0;) place[d] = at.box[d].low.at(variables.data()) + rest % at.extent[d], near += rest % at.extent[d] * at.copy_stride[d], rest /= at.extent[d];
      for (std::size_t d = 0; d < rank; ++d) {
        const Through& t = at.through[d];
        const std::int64_t i = place[t.with < 0 ? d : static_cast<std::size_t>(t.with)];
        const bool dead = t.slots >= 0 && !t.key && kernel.slots[static_cast<std::size_t>(t.slots)].tile >= 0 && !slot_tile[3];
        inside = inside && (t.with >= 0 || (i >= 0 && i < at.box[d].high.at(variables.data()))) && (t.slots >= 0 || i < at.dims[d]) && (back || !dead);
        if (inside) far += (t.slots < 0 ? i : element(t, i)) * at.far_stride[d];
      }
      std::byte* const here = scratch + at.offset + near * width;
      if (back && inside) std::memcpy(tensors[at.tensor] + far * width, here, static_cast<std::size_t>(width));
      else if (!back && inside) std::memcpy(here, tensors[at.tensor] + far * width, static_cast<std::size_t>(width));
      else if (!back) std::memset(here, 0, static_cast<std::size_t>(width));
    }
  }
  std::int64_t extent_of(const Kernel::Loop& loop) const {
    if (loop.slots < 0) return loop.extent;
    const Slots& s = kernel.slots[static_cast<std::size_t>(loop.slots)];
    return table(s.count)[group_of(s)] * s.unit;
  }

  // Rows whose taps leave the tensor read a copy, the others are computed in place.
  void contract(const Kernel::Contract& c, std::size_t edge = 0) {
    const ContractLeaf& l = c.leaf;
    if (edge == l.edges.size()) return contract(c, l.edges.empty() ? copy_padded(l.a) : nullptr);
    const Edge& e = l.edges[edge];
    const auto row = static_cast<std::size_t>(e.row);
    const std::int64_t begin = low[row], end = high[row];
    const std::int64_t inside = std::clamp(ceil_div_i64(-e.first, e.step), begin, end);
    const std::int64_t behind = std::clamp(floor_div_i64(e.extent - 1 - e.last, e.step) + 1, inside, end);
    for (const auto& [from, to] : {std::pair(begin, inside), {behind, end}}) {
      low[row] = from, high[row] = to;
      if (from < to) contract(c, copy_padded(l.a, l.edges));
    }
    low[row] = inside, high[row] = behind;
    if (inside < behind) contract(c, edge + 1);
    low[row] = begin, high[row] = end;
  }
  void contract(const Kernel::Contract& c, const std::byte* copy) {
    run_contract(leaf, c.leaf, views, copy, low.data(), high.data(), leaf_scratch, c.leaf.kept < 0 ? nullptr : scratch + c.leaf.kept, fresh);
  }

  // A fault ends nothing here: all that is computed stays in its place, and a statement that stands earlier may have one too.
  void steps(const std::vector<Kernel::Step>& list) {
    for (const Kernel::Step& s : list) {
      for (std::size_t a = 0; a < s.axes.size(); ++a) {
        low[a] = std::max<std::int64_t>(s.axes[a].span.from(variables.data()), 0);
        high[a] = std::max(low[a], std::min(s.axes[a].span.high.at(variables.data()), s.axes[a].extent));
      }
      if (const auto* c = std::get_if<Kernel::Contract>(&s.op)) contract(*c);
      else if (const auto* m = std::get_if<Kernel::Moved>(&s.op)) move(kernel.places[static_cast<std::size_t>(m->buffer)], m->back);
      else if (const auto* f = std::get_if<Kernel::Fold>(&s.op)) run_fold(leaf, f->leaf, views, low.data(), high.data(), leaf_scratch);
      else if (const auto* w = std::get_if<Kernel::Window>(&s.op)) 
        run_window(leaf, w->leaf, views, copy_padded(w->leaf.a), low.data(), high.data(), leaf_scratch);
      else if (const auto* l = std::get_if<Kernel::Lanes>(&s.op))
        fault = earlier(fault, run_lanes(leaf, l->program, views, low.data(), high.data(), leaf_scratch));
      else stream(std::get<Kernel::Stream>(s.op));
    }
  }

  void stand(const Kernel::Stream& s, std::int64_t low_end, std::int64_t high_end) {
    variables[2 * static_cast<std::size_t>(s.loop.step)] = low_end;
    variables[2 * static_cast<std::size_t>(s.loop.step) + 1] = high_end;
  }
  void turn(const Kernel::Stream& s, std::int64_t low_end, std::int64_t high_end) {
    stand(s, low_end, high_end);
    for (std::size_t b = 0; b < kernel.places.size(); ++b) settle(b);
    steps(s.body);
    fresh = false;
  }

  void stream(const Kernel::Stream& s) {
    fresh = true;
    if (s.mask >= 0) return masked_stream(s);
    const std::int64_t extent = extent_of(s.loop);
    for (std::int64_t at = 0; at < extent; at += s.loop.size) {
      stand(s, at, std::min(at + s.loop.size, extent));
      if (s.turns.live(variables.data(), &numbers)) turn(s, at, std::min(at + s.loop.size, extent));
    }
    fresh = true;
  }

  // A turn takes what lies between pieces without any mask, as much as one turn may.
  void masked_stream(const Kernel::Stream& s) {
    const std::int64_t piece = std::min<std::int64_t>(s.loop.size, 64);
    const auto any = [&](std::int64_t at) {
      stand(s, at, std::min(at + piece, s.loop.extent));
      return s.turns.live(variables.data(), &numbers) && any_in_box(kernel.places[static_cast<std::size_t>(s.mask)]);
    };
    for (std::int64_t at = 0; at < s.loop.extent;) {
      std::int64_t end = at;
      while (end < s.loop.extent && end + piece <= at + s.loop.size && any(end)) end += piece;
      if (end > at) turn(s, at, std::min(end, s.loop.extent));
      at = end > at ? end : at + piece;
    }
    fresh = true;
  }

  // Of lengths and the like, which lie where they are: of more than a few a turn would rather be computed than asked.
  std::optional<Turns::Bounds> in_box(TensorId t, const Turns::Bounds* box) const {
    const auto at = std::find_if(kernel.places.begin(), kernel.places.end(), [&](const Kernel::Place& x) { return x.tensor == t && !x.scratch; });
    if (at == kernel.places.end() || at->stride.size() > most_dims) return std::nullopt;
    const std::size_t rank = at->stride.size();
    std::int64_t count = 1;
    for (std::size_t d = 0; d < rank; ++d) count *= std::max<std::int64_t>(box[d].high - box[d].low, 0);
    if (count < 1 || count > 64) return std::nullopt;
    Turns::Bounds found{INT64_MAX, INT64_MIN};
    std::array<std::int64_t, most_dims> point{};
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < rank; ++d) offset += (box[d].low + point[d]) * at->stride[d];
      const std::int64_t v = integer_at(tensors[t], at->dtype, offset);
      found = {std::min(found.low, v), std::max(found.high, v)};
      for (std::size_t d = rank; d-- > 0 && ++point[d] == box[d].high - box[d].low;) point[d] = 0;
    }
    return found;
  }

  // Whether a tensor of booleans holds any inside its box.
  bool any_in_box(const Kernel::Place& at) const {
    const std::size_t rank = at.box.size();
    std::array<std::int64_t, most_dims> from{}, to{}, point{};
    for (std::size_t d = 0; d < rank; ++d) {
      from[d] = point[d] = std::max<std::int64_t>(at.box[d].low.at(variables.data()), 0);
      to[d] = std::min(at.box[d].high.at(variables.data()), at.dims[d]);
      if (to[d] <= from[d]) return false;
    }
    const auto* const data = reinterpret_cast<const std::uint8_t*>(tensors[at.tensor]);
    if (rank == 0) return data[0] != 0;
    const auto inner = static_cast<std::size_t>(at.order[rank - 1]);
    for (bool more = true; more;) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < rank; ++d) offset += point[d] * at.stride[d];
      if (std::memchr(data + offset, 1, static_cast<std::size_t>(to[inner] - from[inner]))) return true;
      more = false;
      for (std::size_t i = rank; i-- > 0 && !more;) {
        const auto d = static_cast<std::size_t>(at.order[i]);
        if (d == inner) continue;
        if (++point[d] < to[d]) more = true;
        else point[d] = from[d];
      }
    }
    return false;
  }
};

}  // namespace

const LaneProgram::Fault* run_tile(const k::Kernels& leaf, const Kernel& kernel, std::int64_t tile, std::byte* const* tensors, std::byte* scratch) {
  thread_local std::vector<View> views;
  thread_local std::vector<std::int64_t> first_kept;
  views.resize(kernel.places.size());
  first_kept.resize(kernel.places.size());
  TileRun run{leaf, kernel, tensors, scratch, scratch + kernel.leaf_scratch, views, first_kept, {}, {}, {}};
  TW_ASSERT(kernel.grid.size() <= most_axes);
  for (std::size_t i = kernel.grid.size(); i-- > 0;) {
    const Kernel::Loop& g = kernel.grid[i];
    const Slots* const s = g.slots < 0 ? nullptr : &kernel.slots[static_cast<std::size_t>(g.slots)];
    const std::int64_t count = s ? s->tiles : ceil_div_i64(g.extent, g.size), number = tile % count, at = number * g.size;
    tile /= count;
    if (s) {
      std::copy_n(run.table(s->tile) + 4 * number, 4, run.slot_tile.begin());
      if (run.slot_tile[1] >= run.slot_tile[2]) return nullptr;
      run.variables[2 * i] = run.slot_tile[1], run.variables[2 * i + 1] = run.slot_tile[2];
      continue;
    }
    run.variables[2 * i] = at;
    run.variables[2 * i + 1] = std::min(at + g.size, g.extent);
  }
  for (std::size_t b = 0; b < kernel.places.size(); ++b) run.settle(b);
  run.steps(kernel.steps);
  return run.fault;
}

}  // namespace tilewright::cpu
