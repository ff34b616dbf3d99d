#include <array>
#include <cstring>
#include <utility>

#include "target/cpu/kernel.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

constexpr std::size_t most_axes = 32, most_dims = 16;

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

  // Where a buffer lies for the current loop values.
  void settle(std::size_t b) {
    const Kernel::Place& at = kernel.places[b];
    if (!at.scratch) {
      views[b].origin = tensors[at.tensor];
      return;
    }
    if (at.ring >= 0) turn(b);
    views[b].origin = shifted(at, scratch + at.offset, at.ring, first_kept[b]);
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

  std::byte* shifted(const Kernel::Place& at, std::byte* to, int ring = -1, std::int64_t first = 0) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.box.size(); ++d)
      offset += (static_cast<int>(d) == ring ? first : at.box[d].low.at(variables.data())) * at.copy_stride[d];
    return to - offset * static_cast<std::int64_t>(bytes_of(at.dtype));
  }

  // If the box of a padded operand leaves its tensor, a copy with the fill outside; its origin, or null.
  const std::byte* copy_padded(BufferId b) {
    const auto n = static_cast<std::size_t>(b);
    const Kernel::Place& at = kernel.places[n];
    if (!at.padded) return nullptr;
    const std::size_t rank = at.box.size();
    std::array<std::int64_t, most_dims> from{}, to{}, base{};
    bool outside = false, empty = false;
    for (std::size_t d = 0; d < rank; ++d) {
      base[d] = at.box[d].low.at(variables.data());
      const std::int64_t end = at.box[d].high.at(variables.data());
      from[d] = std::max<std::int64_t>(base[d], 0);
      to[d] = std::min(end, at.dims[d]);
      outside |= base[d] < 0 || end > at.dims[d];
      empty |= to[d] <= from[d];
    }
    if (!outside) return nullptr;
    const auto width = static_cast<std::int64_t>(bytes_of(at.dtype));
    std::int64_t count = 1;
    for (std::size_t d = 0; d < rank; ++d) count *= at.extent[d];
    std::byte* box = scratch + at.offset;
    leaf.fill({.rows = 1, .columns = count, .bytes = static_cast<int>(width), .value = at.fill, .dst = box, .dst_row = 0, .dst_column = 1});
    std::byte* origin = shifted(at, box);
    if (!empty) copy_inside(at, from.data(), to.data(), origin, width);
    return origin;
  }

  // The part inside, two innermost dims a call.
  void copy_inside(const Kernel::Place& at, const std::int64_t* from, const std::int64_t* to, std::byte* origin, std::int64_t width) {
    const std::size_t rank = at.box.size();
    const int column = rank > 0 ? at.order[rank - 1] : -1, row = rank > 1 ? at.order[rank - 2] : -1;
    std::array<std::int64_t, most_dims> point{};
    for (std::size_t d = 0; d < rank; ++d) point[d] = from[d];
    const std::size_t far = rank > 2 ? rank - 2 : 0;
    for (bool more = true; more;) {
      std::int64_t source = 0, target = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        source += point[d] * at.stride[d];
        target += point[d] * at.copy_stride[d];
      }
      k::Copy c;
      c.rows = row < 0 ? 1 : to[row] - from[row];
      c.columns = column < 0 ? 1 : to[column] - from[column];
      c.bytes = static_cast<int>(width);
      c.src = tensors[at.tensor] + source * width;
      c.src_row = row < 0 ? 0 : at.stride[static_cast<std::size_t>(row)];
      c.src_column = column < 0 ? 1 : at.stride[static_cast<std::size_t>(column)];
      c.dst = origin + target * width;
      c.dst_row = row < 0 ? 0 : at.copy_stride[static_cast<std::size_t>(row)];
      c.dst_column = column < 0 ? 1 : at.copy_stride[static_cast<std::size_t>(column)];
      // Rows that follow each other on both sides, as pixels of a few channels do, are one.
      if (c.src_column == 1 && c.dst_column == 1 && c.src_row == c.columns && c.dst_row == c.columns) c.columns *= std::exchange(c.rows, 1);
      leaf.copy(c);
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
      std::int64_t listed_at = -1;                        // dims that are packed together move together
      bool inside = true;
      for (std::size_t d = rank; d-- > 0;) {
        const std::int64_t o = rest % at.extent[d], i = at.box[d].low.at(variables.data()) + o;
        rest /= at.extent[d];
        const Through& t = at.through[d];
        const bool listed = t.slots >= 0 && !t.key, dead = listed && kernel.slots[static_cast<std::size_t>(t.slots)].tile >= 0 && !slot_tile[3];
        inside = inside && (!listed || listed_at < 0 || listed_at == i);
        if (listed) listed_at = i;
        inside = inside && i >= 0 && i < at.box[d].high.at(variables.data()) && (t.slots >= 0 || i < at.dims[d]) && (back || !dead);
        near += o * at.copy_stride[d];
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

  // A fault ends nothing here: all that is computed stays in its place, and a statement that stands earlier may have one too.
  void steps(const std::vector<Kernel::Step>& list) {
    for (const Kernel::Step& s : list) {
      for (std::size_t a = 0; a < s.axes.size(); ++a) {
        low[a] = std::max<std::int64_t>(s.axes[a].span.from(variables.data()), 0);
        high[a] = std::max(low[a], std::min(s.axes[a].span.high.at(variables.data()), s.axes[a].extent));
      }
      if (const auto* c = std::get_if<Kernel::Contract>(&s.op))
        run_contract(leaf, c->leaf, views, copy_padded(c->leaf.a), low.data(), high.data(), leaf_scratch, c->leaf.kept < 0 ? nullptr : scratch + c->leaf.kept, fresh);
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
      if (s.turns.live(variables.data())) turn(s, at, std::min(at + s.loop.size, extent));
    }
    fresh = true;
  }

  // A turn takes what lies between pieces without any mask, as much as one turn may.
  void masked_stream(const Kernel::Stream& s) {
    const std::int64_t piece = std::min<std::int64_t>(s.loop.size, 64);
    const auto any = [&](std::int64_t at) {
      stand(s, at, std::min(at + piece, s.loop.extent));
      return s.turns.live(variables.data()) && any_in_box(kernel.places[static_cast<std::size_t>(s.mask)]);
    };
    for (std::int64_t at = 0; at < s.loop.extent;) {
      std::int64_t end = at;
      while (end < s.loop.extent && end + piece <= at + s.loop.size && any(end)) end += piece;
      if (end > at) turn(s, at, std::min(end, s.loop.extent));
      at = end > at ? end : at + piece;
    }
    fresh = true;
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
