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

  // A fault ends nothing here: all that is computed stays in its place, and a statement that stands earlier may have one too.
  void steps(const std::vector<Kernel::Step>& list) {
    for (const Kernel::Step& s : list) {
      for (std::size_t a = 0; a < s.axes.size(); ++a) {
        low[a] = std::max<std::int64_t>(s.axes[a].span.from(variables.data()), 0);
        high[a] = std::max(low[a], std::min(s.axes[a].span.high.at(variables.data()), s.axes[a].extent));
      }
      if (const auto* c = std::get_if<Kernel::Contract>(&s.op))
        run_contract(leaf, c->leaf, views, copy_padded(c->leaf.a), low.data(), high.data(), leaf_scratch, c->leaf.kept < 0 ? nullptr : scratch + c->leaf.kept, fresh);
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
    for (std::int64_t at = 0; at < s.loop.extent; at += s.loop.size) {
      stand(s, at, std::min(at + s.loop.size, s.loop.extent));
      if (s.turns.live(variables.data(), &numbers)) turn(s, at, std::min(at + s.loop.size, s.loop.extent));
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
    const std::int64_t count = ceil_div_i64(g.extent, g.size), at = tile % count * g.size;
    tile /= count;
    run.variables[2 * i] = at;
    run.variables[2 * i + 1] = std::min(at + g.size, g.extent);
  }
  for (std::size_t b = 0; b < kernel.places.size(); ++b) run.settle(b);
  run.steps(kernel.steps);
  return run.fault;
}

}  // namespace tilewright::cpu
