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

  bool shared(BufferId b) const {
    const auto& at = nest.buffers[static_cast<std::size_t>(b)].at;
    return at && at->level == LevelRole::scratch;
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

  Block block(const Block& nodes) {
    Block out;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& n = nodes[i];
      if (std::holds_alternative<For>(n.op)) {
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
