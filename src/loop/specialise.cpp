#include <algorithm>
#include <set>

#include "loop/points.h"

namespace tilewright {

namespace {

// A buffer in scratch is shared by the threads of a block: between one's write and another's read, and between a read and the
// next write, all of them meet.
struct Orderer {
  const Program& p;
  const Nest& nest;
  std::set<BufferId> written, read;      // since the last barrier
  bool placing = true;

  const std::optional<ValueAt>& place(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)].at; }
  bool shared(BufferId b) const {
    return place(b) && place(b)->level == LevelRole::scratch;
  }

  bool any_bulk() const {
    return std::any_of(nest.buffers.begin(), nest.buffers.end(), [](const Buffer& b) { return b.at && b.at->bulk; });
  }

  void accesses(const Node& n, std::set<BufferId>& reads, std::set<BufferId>& writes) const {
    auto add = [&](std::set<BufferId>& to, BufferId b) {
      if (shared(b)) to.insert(b);
    };
    if (const Load* l = std::get_if<Load>(&n.op)) add(writes, l->buffer);
    if (const Compute* c = std::get_if<Compute>(&n.op)) {
      for (BufferId b : c->reads) add(reads, b);
      add(writes, c->out);
    }
  }

  void before(Block& out, const std::set<BufferId>& reads, const std::set<BufferId>& writes) {
    bool meets = false;
    for (BufferId b : reads) meets |= written.count(b) > 0;
    for (BufferId b : writes) meets |= written.count(b) > 0 || read.count(b) > 0;
    if (!meets) return;
    if (placing) out.push_back({Meet{}, {}});
    written.clear(), read.clear();
  }

  // The loads of a loop whose boxes have several stages.
  std::vector<BufferId> ring(const Node& n) const {
    std::vector<BufferId> list;
    if (std::get<For>(n.op).kind != For::Kind::seq) return list;
    for (const Node& inner : n.body)
      if (const Load* l = std::get_if<Load>(&inner.op); l && shared(l->buffer) && place(l->buffer)->stages > 1) list.push_back(l->buffer);
    return list;
  }

  // At the head of an iteration its own boxes have arrived, and nobody reads those of the last one any more (of the one before that
  // where they are kept for an iteration): the copies of the iteration that will take their place are issued.
  Node ringed(const Node& n, const std::vector<BufferId>& list) {
    For loop = std::get<For>(n.op);
    int kept = 0;
    for (BufferId b : list) loop.stages = std::max(loop.stages, place(b)->stages), kept = std::max(kept, place(b)->kept);
    if (place(list[0])->bulk) return piped(n, loop, list);
    const int ahead = loop.stages - 1 - kept;
    TW_ASSERT(ahead > 0);
    Block rest, body;
    for (const Node& inner : n.body)
      if (const Load* l = std::get_if<Load>(&inner.op); !l || !std::count(list.begin(), list.end(), l->buffer)) rest.push_back(inner);
    body.push_back({Meet{ahead - 1}, {}});
    for (BufferId b : list) body.push_back({Load{b, ahead}, {}});
    written.clear(), read.clear();
    Block inside = block(rest);
    body.insert(body.end(), inside.begin(), inside.end());
    for (BufferId b : list) read.insert(b);
    return {loop, std::move(body)};
  }

  // Boxes of a ring that one statement reads first: they come and go together.
  struct Share { std::vector<BufferId> boxes; std::size_t first, last; int stages, kept; };
  std::vector<Share> shares(const Block& nodes, const std::vector<BufferId>& list) const {
    std::vector<Share> all;
    for (BufferId b : list) {
      Share own{{b}, nodes.size(), 0, place(b)->stages, place(b)->kept};
      for (std::size_t i = nodes.size(); i-- > 0;)
        if (reads_any(nodes[i], {b})) own.first = i, own.last = std::max(own.last, i);
      const auto same = std::find_if(all.begin(), all.end(), [&](const Share& s) { return s.first == own.first && s.stages == own.stages && s.kept == own.kept; });
      if (same == all.end()) all.push_back(std::move(own));
      else same->boxes.push_back(b), same->last = std::max(same->last, own.last);
    }
    return all;
  }

  // The same with warps of their own for the copies: they and the others hand stages to one another.
  Node piped(const Node& n, const For& loop, const std::vector<BufferId>& list) {
    Block rest, body;
    for (const Node& inner : n.body)
      if (const Load* l = std::get_if<Load>(&inner.op); !l || !std::count(list.begin(), list.end(), l->buffer)) rest.push_back(inner);
    const Block inside = block(rest);
    const auto all = shares(inside, list);
    auto pipe = [&](const Share& s, Pipe::Kind kind, int kept = 0) { body.push_back({Pipe{kind, loop.step, kept, s.boxes, s.stages, all.size() > 1}, {}}); };
    for (std::size_t i = 0; i < inside.size(); ++i) {
      for (const Share& s : all) {
        if (s.first != i) continue;
        pipe(s, Pipe::Kind::free);
        for (BufferId b : s.boxes) body.push_back({Load{b}, {}});
        pipe(s, Pipe::Kind::full);
      }
      body.push_back(inside[i]);
      for (const Share& s : all)
        if (s.last == i && s.kept == 0) pipe(s, Pipe::Kind::release);
    }
    for (const Share& s : all)
      if (s.kept > 0) pipe(s, Pipe::Kind::release, s.kept);
    return {loop, std::move(body)};
  }

  // Boxes in bulk that stay for the whole tile: the same, once a tile. With several stages those of the next tile are on their way.
  std::vector<BufferId> staying(const Block& nodes) const {
    std::vector<BufferId> list;
    for (const Node& n : nodes)
      if (const Load* l = std::get_if<Load>(&n.op); l && shared(l->buffer) && place(l->buffer)->bulk) list.push_back(l->buffer);
    return list;
  }

  static bool reads_any(const Node& n, const std::vector<BufferId>& list) {
    if (const Compute* c = std::get_if<Compute>(&n.op))
      if (std::any_of(c->reads.begin(), c->reads.end(), [&](BufferId b) { return std::count(list.begin(), list.end(), b) > 0; })) return true;
    return std::any_of(n.body.begin(), n.body.end(), [&](const Node& inner) { return reads_any(inner, list); });
  }

  Block block(const Block& nodes) {
    Block out;
    const auto stay = staying(nodes);
    const auto pipe = [&](Pipe::Kind kind) { return Node{Pipe{kind, -1, 0, stay, place(stay[0])->stages}, {}}; };
    std::size_t last_reader = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (reads_any(nodes[i], stay)) last_reader = i;
    if (!stay.empty()) {
      out.push_back(pipe(Pipe::Kind::free));
      for (BufferId b : stay) out.push_back({Load{b}, {}});
      out.push_back(pipe(Pipe::Kind::full));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = nodes[i];
      if (!stay.empty() && i == last_reader + 1) out.push_back(pipe(Pipe::Kind::release));
      if (const Load* l = std::get_if<Load>(&n.op); l && std::count(stay.begin(), stay.end(), l->buffer)) continue;
      if (const auto list = std::holds_alternative<For>(n.op) ? ring(n) : std::vector<BufferId>{}; !list.empty()) {
        if (!place(list[0])->bulk) before(out, {}, {list.begin(), list.end()});      // an earlier run of the loop may still read
        out.push_back(ringed(n, list));
        continue;
      }
      if (std::holds_alternative<For>(n.op)) {
        // Tiles of the grid are other blocks, or come one after the other with a barrier of the target's own between them.
        if (std::get<For>(n.op).kind == For::Kind::grid && !any_bulk()) {
          out.push_back({n.op, block(n.body)});
          continue;
        }
        // What the end of an iteration leaves behind, the next one meets: the body is walked once for that.
        const bool place = placing;
        placing = false;
        const auto w = written, r = read;
        block(n.body);
        written.insert(w.begin(), w.end()), read.insert(r.begin(), r.end());
        placing = place;
        out.push_back({n.op, block(n.body)});
        continue;
      }
      // A reduction and the maps behind it are one leaf: no barrier stands between them.
      const std::size_t first = i;
      if (const Compute* c = std::get_if<Compute>(&n.op)) with_maps(p, nest, nodes, i, c->statement);
      std::set<BufferId> reads, writes;
      for (std::size_t k = first; k <= i; ++k) accesses(nodes[k], reads, writes);
      for (std::size_t k = first; k <= i; ++k)
        if (const Compute* c = std::get_if<Compute>(&nodes[k].op))
          if (k < i) reads.erase(c->out);          // read where it is made
      before(out, reads, writes);
      written.insert(writes.begin(), writes.end());
      read.insert(reads.begin(), reads.end());
      out.insert(out.end(), nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    if (!stay.empty() && last_reader + 1 >= nodes.size()) out.push_back(pipe(Pipe::Kind::release));
    return out;
  }
};

}  // namespace

Nest specialise(const Program& p, const Nest& nest) {
  Nest out = nest;
  out.body = Orderer{program_of(p, nest), nest, {}, {}}.block(nest.body);
  return out;
}

}  // namespace tilewright
