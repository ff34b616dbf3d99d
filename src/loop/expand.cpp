#include <algorithm>
#include <map>

#include "loop/nest.h"

namespace tilewright {

namespace {

struct Expander {
  const Program& p;
  const Region& r;
  const Schedule& s;
  Nest nest;
  std::map<TensorId, BufferId> buffer_of;
  std::vector<Transfer> moves;
  std::vector<std::vector<Span>> axis_ranges;      // a statement of the region
  std::vector<bool> streamed;
  int grid = 0;                                    // tile steps

  // The extent of a span when every tile is full.
  std::int64_t full(const Span& span) const {
    std::vector<std::int64_t> v(static_cast<std::size_t>(nest.variables), 0);
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      v[2 * i + 1] = std::min(s.steps[i].size, r.axes[static_cast<std::size_t>(s.steps[i].axis)].constant());
    return span.high.at(v.data()) - span.low.at(v.data());
  }

  BufferId add_buffer(TensorId t, DType held, std::vector<Span> box, bool inner) {
    Buffer b{p.tensor(t).name, t, held, std::move(box), {}, inner};
    for (const Span& span : b.box) b.extent.push_back(full(span));
    nest.buffers.push_back(std::move(b));
    return buffer_of[t] = static_cast<BufferId>(nest.buffers.size()) - 1;
  }

  void make_buffers() {
    const Boundary bound = boundary(p, r);
    nest.inputs = bound.inputs;
    nest.outputs = bound.outputs;
    for (const Transfer& t : moves)
      if (!t.store) add_buffer(t.tensor, p.tensor(t.tensor).dtype, t.box, false);
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      std::vector<Span> box;
      for (std::size_t d = 0; d < st.at.size(); ++d) box.push_back(hull(st.at[d], axis_ranges[i], p.tensor(st.out).dims[d]));
      const bool inner = std::find(bound.inner.begin(), bound.inner.end(), st.out) != bound.inner.end();
      add_buffer(st.out, st.reduced.empty() ? p.tensor(st.out).dtype : compute_type(st.body->dtype), std::move(box), inner);
    }
  }

  Node compute(std::size_t i) const {
    const Statement& st = *p.statement(r.statements[i]);
    Compute c;
    c.statement = r.statements[i];
    c.ranges = axis_ranges[i];
    c.out = buffer_of.at(st.out);
    for_each_access(st, [&](const Access& a) { c.reads.push_back(buffer_of.at(a.tensor)); });
    c.kind = st.reduced.empty() ? Compute::Kind::map
             : contraction(p, st) ? Compute::Kind::contract
             : window(p, st)      ? Compute::Kind::window
                                  : Compute::Kind::reduce;
    return {c, {}};
  }

  void loads(Block& block, int depth) const {
    for (const Transfer& t : moves)
      if (!t.store && t.depth == depth) block.push_back({Load{buffer_of.at(t.tensor)}, {}});
  }

  // The stream loops from `depth` inwards, with the statements that run inside all of them.
  void stream(Block& block, int depth) const {
    if (depth > grid) loads(block, depth);
    if (depth == static_cast<int>(s.steps.size())) {
      for (std::size_t i = 0; i < r.statements.size(); ++i)
        if (streamed[i]) block.push_back(compute(i));
      return;
    }
    Node loop{For{depth, extent(depth), s.steps[static_cast<std::size_t>(depth)].size, For::Kind::seq}, {}};
    stream(loop.body, depth + 1);
    block.push_back(std::move(loop));
  }

  std::int64_t extent(int step) const {
    return r.axes[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(step)].axis)].constant();
  }

  Block tile_body() const {
    Block block;
    loads(block, grid);
    bool opened = false;
    const bool any = std::find(streamed.begin(), streamed.end(), true) != streamed.end();
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      if (streamed[i]) {
        if (opened) continue;
        for (std::size_t j = i; j < r.statements.size(); ++j)
          if (const Statement& sj = *p.statement(r.statements[j]); streamed[j] && !sj.reduced.empty())
            block.push_back({Init{buffer_of.at(sj.out), sj.reducer}, {}});
        stream(block, grid);
        opened = true;
        continue;
      }
      TW_ASSERT(!any || opened || st.reduced.empty() || i < r.statements.size());
      if (!st.reduced.empty()) block.push_back({Init{buffer_of.at(st.out), st.reducer}, {}});
      block.push_back(compute(i));
    }
    for (const Transfer& t : moves)
      if (t.store) block.push_back({Store{buffer_of.at(t.tensor)}, {}});
    return block;
  }

  void run() {
    nest.variables = static_cast<int>(2 * s.steps.size());
    for (std::size_t i = 0; i < r.statements.size(); ++i) axis_ranges.push_back(ranges(p, r, s, static_cast<int>(i)));
    while (grid < static_cast<int>(s.steps.size()) && s.steps[static_cast<std::size_t>(grid)].how == AxisStep::How::tile) ++grid;
    for (const auto& list : axis_ranges) {
      bool inside = false;
      for (const Span& span : list)
        for (const Affine* a : {&span.low, &span.high})
          for (const auto& term : a->terms) inside |= term.first / 2 >= grid;
      streamed.push_back(inside);
    }
    moves = transfers(p, r, s);
    make_buffers();
    nest.body = tile_body();
    for (int step = grid; step-- > 0;) {
      Node loop{For{step, extent(step), s.steps[static_cast<std::size_t>(step)].size, For::Kind::grid}, std::move(nest.body)};
      nest.body.clear();
      nest.body.push_back(std::move(loop));
    }
  }
};

}  // namespace

Nest expand(const Program& p, const Region& r, const Schedule& s, std::string name) {
  Expander e{p, r, s, {}, {}, {}, {}, {}, 0};
  e.nest.name = std::move(name);
  e.run();
  return std::move(e.nest);
}

}  // namespace tilewright
