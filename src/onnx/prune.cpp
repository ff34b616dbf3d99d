#include "onnx/prune.h"

#include <algorithm>

#include "expr/scalar.h"
#include "onnx/context.h"

namespace tilewright::onnx {
namespace {

// Known elements as statements: one piece an element. More than this many stay as they were computed.
constexpr std::size_t most_pieces = 64;

bool all_constant(const Elements& e) {
  return std::all_of(e.begin(), e.end(), [](const Element& x) { return x.is_constant(); });
}

struct Pruner {
  Program in;
  const KnownTensors& known;
  Program out;
  std::vector<TensorId> renamed;                   // -1: dropped
  std::vector<std::vector<std::size_t>> producers; // nodes that write a tensor
  std::vector<bool> live_tensor, live_node, settled;

  Index renumber(const Index& index) const {
    Index result = index;
    for (auto& term : result.terms) {
      if (auto a = std::get_if<std::shared_ptr<const Access>>(&term.of)) {
        term.of = std::make_shared<const Access>(renumber(**a));
      } else if (auto i = std::get_if<std::shared_ptr<const Index>>(&term.of)) {
        term.of = std::make_shared<const Index>(renumber(**i));
      }
    }
    return result;
  }

  Access renumber(const Access& a) const {
    Access result{renamed[static_cast<std::size_t>(a.tensor)], {}, renumber(a.otherwise)};
    for (const Index& i : a.at) result.at.push_back(renumber(i));
    return result;
  }

  ScalarRef renumber(const ScalarRef& s) const {
    if (!s) return s;
    auto copy = std::make_shared<Scalar>(*s);
    for (ScalarRef& arg : copy->args) arg = renumber(arg);
    if (auto access = std::get_if<Access>(&s->leaf)) copy->leaf = renumber(*access);
    return copy;
  }

  const Elements* elements(TensorId t) const {
    auto found = known.find(t);
    if (found == known.end() || in.tensor(t).kind != Kind::intermediate) return nullptr;
    return all_constant(found->second) || found->second.size() <= most_pieces ? &found->second : nullptr;
  }

  void mark() {
    std::size_t n = in.tensors.size();
    producers.resize(n);
    live_tensor.assign(n, false);
    settled.assign(n, false);
    live_node.assign(in.nodes.size(), false);
    for (std::size_t i = 0; i < in.nodes.size(); ++i) {
      if (auto s = std::get_if<Statement>(&in.nodes[i]))
        producers[static_cast<std::size_t>(s->out)].push_back(i);
      else
        for (TensorId t : std::get<Opaque>(in.nodes[i]).out) producers[static_cast<std::size_t>(t)].push_back(i);
    }
    const std::set<TensorId> results = in.results();
    std::vector<TensorId> work(results.begin(), results.end());
    while (!work.empty()) {
      auto t = static_cast<std::size_t>(work.back());
      work.pop_back();
      if (live_tensor[t]) continue;
      live_tensor[t] = true;
      settled[t] = elements(static_cast<TensorId>(t)) != nullptr;
      if (settled[t]) continue;
      for (std::size_t node : producers[t]) {
        if (live_node[node]) continue;
        live_node[node] = true;
        if (auto s = std::get_if<Statement>(&in.nodes[node])) {
          for_each_access(*s, [&](const Access& a) { work.push_back(a.tensor); });
        } else {
          const auto& o = std::get<Opaque>(in.nodes[node]);
          work.insert(work.end(), o.in.begin(), o.in.end());
          work.insert(work.end(), o.out.begin(), o.out.end());
        }
      }
    }
    for (TensorId t : in.inputs) live_tensor[static_cast<std::size_t>(t)] = true;
  }

  void move_tensors() {
    renamed.assign(in.tensors.size(), -1);
    for (std::size_t t = 0; t < in.tensors.size(); ++t) {
      if (!live_tensor[t]) continue;
      renamed[t] = static_cast<TensorId>(out.tensors.size());
      out.tensors.push_back(in.tensors[t]);
    }
    for (tilewright::Tensor& t : out.tensors)
      for (TensorId& count : t.counted_by)
        if (count >= 0) count = renamed[static_cast<std::size_t>(count)];
  }

  // A known tensor that is read: a weight, or pieces that write sizes. An output is no weight: it copies one.
  void settle(TensorId old) {
    const Elements& e = *elements(old);
    TensorId t = renamed[static_cast<std::size_t>(old)];
    tilewright::Tensor& tensor = out.tensor(t);
    if (all_constant(e)) {
      auto bytes = std::make_shared<std::vector<std::byte>>(encode(tensor.dtype, e));
      tensor.kind = Kind::weight;
      tensor.data = *bytes;
      tensor.owner = bytes;
      return;
    }
    Builder builder(out);
    for (std::size_t i = 0; i < e.size(); ++i) {
      std::vector<Index> at = unravel(constant_index(static_cast<std::int64_t>(i)), tensor.dims);
      for (Index& index : at) index = simplify(index, {});
      builder.piece(t, at, {}, literal(e[i], tensor.dtype));
    }
  }

  void move_nodes() {
    for (std::size_t t = 0; t < settled.size(); ++t) {
      if (settled[t]) settle(static_cast<TensorId>(t));
    }
    for (std::size_t i = 0; i < in.nodes.size(); ++i) {
      if (!live_node[i]) continue;
      if (auto s = std::get_if<Statement>(&in.nodes[i])) {
        s->out = renamed[static_cast<std::size_t>(s->out)];
        for (Index& index : s->at) index = renumber(index);
        s->body = renumber(s->body);
        s->guard = renumber(s->guard);
        out.nodes.emplace_back(std::move(*s));
      } else {
        auto& o = std::get<Opaque>(in.nodes[i]);
        for (TensorId& t : o.in) t = renamed[static_cast<std::size_t>(t)];
        for (TensorId& t : o.out) t = renamed[static_cast<std::size_t>(t)];
        out.nodes.emplace_back(std::move(o));
      }
    }
    for (TensorId t : in.inputs) out.inputs.push_back(renamed[static_cast<std::size_t>(t)]);
    for (TensorId t : in.outputs) out.outputs.push_back(renamed[static_cast<std::size_t>(t)]);
  }
};

} // namespace

Program prune(Program p, const KnownTensors& known) {
  Pruner pruner{std::move(p), known, {}, {}, {}, {}, {}, {}};
  pruner.out.name = pruner.in.name;
  pruner.out.sizes = pruner.in.sizes;
  pruner.mark();
  pruner.move_tensors();
  pruner.move_nodes();
  return std::move(pruner.out);
}

} // namespace tilewright::onnx
