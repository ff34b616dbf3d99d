#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "law/stream.h"
#include "loop/nest.h"
#include "schedule/made_box.h"

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
  std::vector<Depth> places;
  std::vector<std::size_t> sequence;               // of the statements, in the order in which they run
  int grid = 0;                                    // tile steps
  int followed = -1;                               // the loop along which sums follow their statistics
  Turns turns{};                                   // of it

  // The extent of a span when every tile is full.
  std::int64_t full(const Span& span) const {
    std::vector<std::int64_t> v(static_cast<std::size_t>(nest.variables), 0);
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      v[2 * i + 1] = std::min(s.steps[i].size, r.axes[static_cast<std::size_t>(s.steps[i].axis)].constant());
    return span.high.at(v.data()) - span.low.at(v.data());
  }

  BufferId add_buffer(TensorId t, DType held, std::vector<Span> box, bool inner) {
    Buffer b{p.tensor(t).name, t, held, std::move(box), {}, inner, outside(t), {}, {}};
    for (const OperandAt& o : s.operands)
      if (o.tensor == t) b.gathered = o;
    for (const ValueAt& v : s.values)
      if (v.tensor == t) b.at = v;
    for (const Span& span : b.box) b.extent.push_back(full(span));
    nest.buffers.push_back(std::move(b));
    return buffer_of[t] = static_cast<BufferId>(nest.buffers.size()) - 1;
  }

  // The one literal that all readers give for elements outside the tensor.
  std::optional<double> outside(TensorId t) const {
    std::optional<double> value;
    bool one = true;
    for (StatementId id : r.statements)
      for_each_access(*p.statement(id), [&](const Access& a) {
        double v = 0;
        if (a.tensor != t || !a.otherwise) return;
        one &= is_literal(a.otherwise, &v) && (!value || *value == v);
        value = v;
      });
    return one ? value : std::nullopt;
  }

  void make_buffers() {
    const Boundary bound = boundary(p, r);
    nest.inputs = bound.inputs;
    nest.outputs = bound.outputs;
    for (const Transfer& t : moves)
      if (!t.store) add_buffer(t.tensor, p.tensor(t.tensor).dtype, t.box, false);
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      std::vector<Span> box = made_box(p, st, axis_ranges[i]);
      const bool inner = std::find(bound.inner.begin(), bound.inner.end(), st.out) != bound.inner.end();
      if (buffer_of.count(st.out)) continue;       // a sum is corrected where it is held
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

  std::int64_t extent(int step) const {
    return r.axes[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(step)].axis)].constant();
  }

  // Whether each statement needs what the loops inside `depth` make.
  std::vector<bool> behind_loop(int depth) const {
    std::vector<bool> behind(r.statements.size(), false);
    std::set<TensorId> made;
    for (std::size_t i : sequence) {
      const Statement& st = *p.statement(r.statements[i]);
      for_each_access(st, [&](const Access& a) { behind[i] = behind[i] || made.count(a.tensor) > 0; });
      if (behind[i] || places[i].points > depth) made.insert(st.out);
    }
    return behind;
  }

  void statements(Block& block, int depth, const std::vector<bool>& behind, bool wanted) const {
    for (std::size_t i : sequence) {
      if (places[i].points != depth || behind[i] != wanted) continue;
      const Statement& st = *p.statement(r.statements[i]);
      if (!st.reduced.empty() && places[i].result == depth) block.push_back({Init{buffer_of.at(st.out), st.reducer}, {}});
      block.push_back(compute(i));
    }
  }

  // What stands inside the first `depth` loops: loads, the statements that need nothing of the next loop, that loop, the statements
  // that do, stores.
  Block level(int depth) const {
    Block block;
    loads(block, depth);
    const std::vector<bool> behind = behind_loop(depth);
    statements(block, depth, behind, false);
    bool deeper = false;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      deeper |= places[i].points > depth;
      if (!st.reduced.empty() && places[i].result == depth && places[i].points > depth) block.push_back({Init{buffer_of.at(st.out), st.reducer}, {}});
    }
    if (deeper) {
      const bool walk = s.steps[static_cast<std::size_t>(depth)].how == AxisStep::How::walk;
      const auto kind = depth < grid ? For::Kind::grid : walk ? For::Kind::walk : For::Kind::seq;
      block.push_back({For{depth, extent(depth), s.steps[static_cast<std::size_t>(depth)].size, kind, depth == followed ? turns : Turns{}}, level(depth + 1)});
    }
    statements(block, depth, behind, true);
    for (const Transfer& t : moves)
      if (t.store && t.depth == depth) block.push_back({Store{buffer_of.at(t.tensor)}, {}});
    return block;
  }

  void prepare() {
    nest.variables = static_cast<int>(2 * s.steps.size());
    for (std::size_t i = 0; i < r.statements.size(); ++i) axis_ranges.push_back(ranges(p, r, s, static_cast<int>(i)));
    while (grid < static_cast<int>(s.steps.size()) && s.steps[static_cast<std::size_t>(grid)].how == AxisStep::How::tile) ++grid;
    places = depths(p, r, s);
    make_buffers();
  }
};

}  // namespace

namespace {

// What a turn runs stands in its loop, also what keeps and corrects; a state is complete behind it.
void place_in_turns(const Stream& stream, int loop, Expander& e) {
  for (const auto* list : {&stream.ahead, &stream.turn, &stream.finish})
    for (StatementId id : *list) {
      const auto i = static_cast<std::size_t>(stream.region.position(id));
      e.sequence.push_back(i);
      if (list != &stream.turn) continue;
      const Stream::State* state = stream.state_of(stream.program.statement(id)->out);
      e.places[i] = {state && state->reduction == id ? loop : loop + 1, loop + 1};
    }
}

}  // namespace

Nest expand(const Program& p, const Region& r, const Schedule& s, std::string name) {
  const int loop = followed_loop(p, r, s);
  std::optional<Stream> stream;
  if (loop >= 0) {
    auto derived = derive_stream(p, r, s.steps[static_cast<std::size_t>(loop)].axis);
    TW_ASSERT(static_cast<bool>(derived));
    stream = std::move(*derived);
  }
  Expander e{stream ? stream->program : p, stream ? stream->region : r, s, {}, {}, transfers(p, r, s), {}, {}, {}, 0, loop, live_turns(p, r, s)};
  e.nest.name = std::move(name);
  e.prepare();
  if (stream) {
    place_in_turns(*stream, loop, e);
  } else {
    e.sequence.resize(r.statements.size());
    std::iota(e.sequence.begin(), e.sequence.end(), std::size_t{0});
  }
  e.nest.body = e.level(0);
  if (stream) {
    e.nest.program = std::make_shared<const Program>(stream->program);
    e.nest.region = std::make_shared<const Region>(stream->region);
  }
  return std::move(e.nest);
}

}  // namespace tilewright
