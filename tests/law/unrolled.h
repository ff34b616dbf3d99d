// A stream as a straight-line program: init, a turn for each chunk, finish; and two of them merged. The evaluator runs it.
#pragma once
#include <map>

#include "expr/scalar.h"
#include "law/stream.h"

namespace tilewright::testing {

class Unrolled {
 public:
  explicit Unrolled(const Stream& s) : s_(s), q_(s.program), build_(q_) { q_.nodes.clear(); }

  // chunks: of the first stream, and of a second one whose state is merged into it (empty: none). All elements in order.
  Program make(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second = {}) {
    std::vector<const std::variant<Statement, Opaque>*> later;
    std::set<TensorId> behind;
    for (StatementId id : s_.region.statements) behind.insert(s_.program.statement(id)->out);
    for (std::size_t n = 0; n < s_.program.nodes.size(); ++n) {
      if (s_.region.position(static_cast<StatementId>(n)) >= 0) continue;
      const Statement& st = *s_.program.statement(static_cast<StatementId>(n));
      bool waits = false;
      for_each_access(st, [&](const Access& a) { waits = waits || behind.count(a.tensor) > 0; });
      if (waits) behind.insert(st.out), later.push_back(&s_.program.nodes[n]);
      else q_.nodes.push_back(s_.program.nodes[n]);
    }
    for (StatementId id : s_.ahead) q_.nodes.emplace_back(*s_.program.statement(id));
    State a = run(first, 0);
    if (!second.empty()) {
      std::int64_t offset = 0;
      for (std::int64_t n : first) offset += n;
      a = merged(a, run(second, offset));
    }
    for (TensorId t : s_.region.bound->outputs)               // a state that leaves the region
      if (a.count(t)) {
        Statement copy;
        copy.out = t, copy.at = point(t), copy.axes = s_.program.tensor(t).dims, copy.body = read(q_, a.at(t), point(t));
        copy.names.assign(copy.axes.size(), "");
        for (std::size_t d = 0; d < copy.names.size(); ++d) copy.names[d] = "i" + std::to_string(d);
        q_.nodes.emplace_back(copy);
      }
    for (StatementId id : s_.finish) {
      Statement t = *s_.program.statement(id);
      t.body = renamed(t.body, a), t.guard = renamed(t.guard, a);
      q_.nodes.emplace_back(t);
    }
    for (const auto* node : later) q_.nodes.push_back(*node);
    return q_;
  }

 private:
  using State = std::map<TensorId, TensorId>;      // the version of a tensor that is read now
  const Stream& s_;
  Program q_;
  Builder build_;
  std::map<TensorId, std::set<std::size_t>> local_{};   // dims of a turn's own tensors that hold the chunk alone

  ScalarRef renamed(const ScalarRef& s, const State& now, std::int64_t offset = 0) const {
    if (!s) return s;
    return rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      Access a = std::get<Access>(node->leaf);
      if (const auto dims = local_.find(a.tensor); dims != local_.end())
        for (std::size_t d : dims->second) a.at[d] = a.at[d] - constant_index(offset);
      if (const auto found = now.find(a.tensor); found != now.end()) a.tensor = found->second;
      if (a.otherwise) a.otherwise = renamed(a.otherwise, now, offset);
      auto copy = std::make_shared<Scalar>(*node);
      copy->leaf = a;
      return copy;
    });
  }

  std::vector<Index> point(TensorId t) const {
    std::vector<Index> at;
    for (std::size_t d = 0; d < q_.tensor(t).dims.size(); ++d) at.push_back(axis_index(static_cast<AxisId>(d)));
    return at;
  }

  // A state is held as it is accumulated, and rounded when it leaves.
  DType held(TensorId t) const { return held_as(s_.program, *s_.program.statement(s_.state_of(t)->reduction)); }

  TensorId version(TensorId t, const ScalarRef& body) {
    return build_.statement(s_.program.tensor(t).name, held(t), s_.program.tensor(t).dims, body);
  }

  TensorId joined(TensorId t, Reducer r, TensorId a, TensorId b) {
    const ScalarRef x = read(q_, a, point(t)), y = read(q_, b, point(t));
    const Op op = r == Reducer::sum ? Op::add : r == Reducer::prod ? Op::mul : r == Reducer::max ? Op::max : r == Reducer::min ? Op::min : r == Reducer::any ? Op::logical_or : Op::logical_and;
    return version(t, binary(op, x, y));
  }

  State run(const std::vector<std::int64_t>& chunks, std::int64_t offset) {
    State now;
    for (const Stream::State& st : s_.state) {
      const DType type = held(st.tensor);
      const double v = identity_of(s_.program.statement(st.reduction)->reducer);
      now[st.tensor] = version(st.tensor, type == DType::boolean ? boolean(v != 0) : is_integer(type) ? integer(static_cast<std::int64_t>(v), type) : number(v, type));
    }
    for (std::int64_t n : chunks) turn(now, offset, n), offset += n;
    return now;
  }

  void turn(State& now, std::int64_t offset, std::int64_t length) {
    local_.clear();
    for (StatementId id : s_.turn) {
      Statement t = *s_.program.statement(id);
      const auto& image = s_.region.image[static_cast<std::size_t>(s_.region.position(id))];
      std::vector<Index> with;
      std::set<AxisId> cut;
      for (AxisId a = 0; a < static_cast<AxisId>(t.axes.size()); ++a) {
        with.push_back(axis_index(a));
        if (plain_axis(image[static_cast<std::size_t>(a)]) != s_.axis) continue;
        with.back() = with.back() + constant_index(offset);
        t.axes[static_cast<std::size_t>(a)] = length;
        cut.insert(a);
      }
      t.body = renamed(substitute(s_.program, t.body, with), now, offset);
      t.guard = t.guard ? renamed(substitute(s_.program, t.guard, with), now, offset) : nullptr;
      Tensor tensor = s_.program.tensor(t.out);
      std::set<std::size_t> dims;
      for (std::size_t d = 0; d < t.at.size(); ++d)
        if (const auto a = plain_axis(t.at[d]); a && cut.count(*a)) tensor.dims[d] = length, dims.insert(d);
      const TensorId original = t.out;
      t.out = build_.tensor(tensor.name, s_.state_of(original) ? held(original) : tensor.dtype, tensor.dims);
      const TensorId made = t.out;
      const Reducer r = t.reducer;
      q_.nodes.emplace_back(std::move(t));
      const Stream::State* state = s_.state_of(original);
      now[original] = state && state->reduction == id ? joined(original, r, now.at(original), made) : made;
      if (!dims.empty()) local_[original] = dims;
    }
  }

  State merged(const State& a, const State& b) {
    State both;
    local_.clear();
    for (StatementId id : s_.turn)
      for (const Stream::State& st : s_.state) {
        if (st.reduction != id) continue;
        const TensorId mine = moved(st, a, both), theirs = moved(st, b, both);
        both[st.tensor] = joined(st.tensor, s_.program.statement(id)->reducer, mine, theirs);
      }
    return both;
  }

  TensorId moved(const Stream::State& st, const State& side, const State& both) {
    if (st.corrected < 0) return side.at(st.tensor);
    State names = side;
    for (TensorId t : st.statistics) names[t] = both.at(t);
    for (const Stream::Kept& k : s_.kept) names[k.was] = side.at(k.statistic);
    for (StatementId id : s_.scales) {
      Statement t = *s_.program.statement(id);
      bool read_here = false;
      for_each_access(*s_.program.statement(st.corrected), [&](const Access& a) { read_here = read_here || a.tensor == t.out; });
      if (!read_here) continue;
      t.body = renamed(t.body, names);
      const TensorId made = build_.tensor(s_.program.tensor(t.out).name, s_.program.tensor(t.out).dtype, s_.program.tensor(t.out).dims);
      names[t.out] = made, t.out = made;
      q_.nodes.emplace_back(t);
    }
    return version(st.tensor, renamed(s_.program.statement(st.corrected)->body, names));
  }
};

inline std::vector<std::int64_t> chunks_of(std::int64_t extent, std::int64_t size) {
  std::vector<std::int64_t> list;
  for (std::int64_t at = 0; at < extent; at += size) list.push_back(std::min(size, extent - at));
  return list;
}

}  // namespace tilewright::testing
