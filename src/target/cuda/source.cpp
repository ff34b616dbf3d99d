#include "target/cuda/source.h"

#include "target/cuda/tensor_leaf_inl.h"

namespace tilewright::cuda {

namespace {

// The nest's own order: loads, meetings, loops, and a leaf for each group of computes.
struct NestText : TensorLeaf {
  // ---- streamed reductions: init, accumulate and finish stand at three places

  void init(StatementId id, const Points& points) {
    const Statement& st = statement(id);
    const Leaf leaf = leaf_of(points, id, id);
    const std::int64_t n = leaf.at && leaf.at->tensor ? leaf.at->rows * leaf.at->columns / 32 : leaf.rounds * leaf.elements;
    line(fmt::format("{} acc_{}[{}];", type_of(accumulated(st)), tensor(st.out), n));
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) acc_{}[e] = {};", n, tensor(st.out), identity(st.reducer, accumulated(st))));
  }

  void streamed_step(StatementId id, const Points& points) {
    const Leaf leaf = leaf_of(points, id, id);
    if (leaf.at && leaf.at->tensor) return tensor_step(points, leaf);
    accumulate(points, leaf, fmt::format("acc_{}[round * {} + e]", tensor(statement(id).out), leaf.elements));
  }

  void finish(const Points& points, const std::vector<StatementId>& group) {
    Leaf leaf = leaf_of(points, group[0], group[0]);
    if (leaf.at && leaf.at->tensor) return tensor_finish(points, group);
    open_items(points, leaf, true);
    finish_elements(points, leaf, group, fmt::format("acc_{}[round * {} + e", tensor(statement(group[0]).out), leaf.elements));
    close(2);
  }

  // ---- the nest

  void block(const Block& nodes, const Node* ring = nullptr) {
    std::vector<StatementId> begun;
    for (std::size_t n = 0; n < nodes.size() && why.empty(); ++n) {
      if (const Load* l = std::get_if<Load>(&nodes[n].op)) {
        if (l->ahead == 0) load(buffer(l->buffer));
      } else if (const Meet* meet = std::get_if<Meet>(&nodes[n].op)) {
        const bool head = ring && n == 0;
        if (head) line(fmt::format("copies_arrive<{}>();", meet->pending));
        else if (copies_pending) line("copies_arrive<0>();"), copies_pending = false;
        if (grouped()) line("scratch_to_group();");
        line("__syncthreads();");
        if (head) issue_ahead(*ring, std::get<For>(ring->op));
      } else if (const For* f = std::get_if<For>(&nodes[n].op)) {
        loop(nodes[n], *f);
        for (std::size_t b = 0; b < begun.size(); ++b) {
          std::vector<StatementId> group = {begun[b]};
          if (b + 1 == begun.size()) group = with_maps(p, nest, nodes, n, begun[b]);
          finish(*common_points(p, nest, group), group);
        }
        begun.clear();
      } else if (const Init* i = std::get_if<Init>(&nodes[n].op)) {
        begin(nodes, n, i->buffer, begun);
      } else if (const Compute* c = std::get_if<Compute>(&nodes[n].op)) {
        compute(nodes, n, *c);
      }
    }
  }

  bool grouped() const { return std::any_of(s.leaves.begin(), s.leaves.end(), [](const LeafAt& l) { return l.group; }); }

  // An accumulator lives across a loop, or is one of a tensor leaf, whose fragments are spread over the warp.
  void begin(const Block& nodes, std::size_t n, BufferId b, std::vector<StatementId>& begun) {
    StatementId id = -1;
    for (StatementId x : r.statements)
      if (statement(x).out == buffer(b).tensor) id = x;
    for (std::size_t later = n + 1; later < nodes.size(); ++later)
      if (const Compute* c = std::get_if<Compute>(&nodes[later].op); c && c->statement == id) return;
    const auto points = common_points(p, nest, {id});
    streamed.emplace(id, *points);
    init(id, *points);
    begun.push_back(id);
  }

  void compute(const Block& nodes, std::size_t& n, const Compute& c) {
    if (statement(c.statement).reducer == Reducer::argmax || statement(c.statement).reducer == Reducer::argmin) {
      why = "argmax and argmin have no CUDA leaf";
      return;
    }
    line(fmt::format("// {}", print(p, statement(c.statement))));
    if (streamed.count(c.statement)) return streamed_step(c.statement, streamed.at(c.statement));
    const std::vector<StatementId> group = with_maps(p, nest, nodes, n, c.statement);
    const auto points = common_points(p, nest, group);
    const Leaf leaf = leaf_of(*points, group[0], group.back());
    if (leaf.at && leaf.at->tensor) {
      line("{");
      ++depth;
      init(group[0], *points);
      tensor_step(*points, leaf);
      tensor_finish(*points, group);
      close(1);
      return;
    }
    vector_group(*points, group);
  }

  void loop(const Node& node, const For& f) {
    const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1);
    for (const Node& n : node.body)
      if (const Load* l = std::get_if<Load>(&n.op); l && in_scratch(buffer(l->buffer))) prepare(buffer(l->buffer), f.step);
    if (f.stages > 1) begin_ring(node, f);
    line(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2}) {{", lo, f.extent, f.size));
    ++depth;
    line(fmt::format("const int {} = min({} + {}, {});", hi, lo, f.size, f.extent));
    if (f.stages > 1) at_stage(ring_of(node), "stage_" + variable_name(f));
    block(node.body, f.stages > 1 ? &node : nullptr);
    if (f.stages > 1) line(fmt::format("stage_{0} = stage_{0} == {1} ? 0 : stage_{0} + 1;", variable_name(f), f.stages - 1));
    close(1);
  }

  // The tile of each block. In bands, blocks that run together share operands of both axes.
  void grid_tiles(const std::vector<const For*>& grid) {
    line("unsigned block = blockIdx.x;");
    std::vector<std::string> at(grid.size());
    std::size_t rest = grid.size();
    auto tiles = [&](std::size_t i) { return ceil_div_i64(grid[i]->extent, grid[i]->size); };
    if (s.band > 1 && grid.size() > 1) {
      rest -= 2;
      const std::int64_t m = tiles(rest), n = tiles(rest + 1);
      line(fmt::format("const unsigned inner = block % {0}, first = inner / {1} * {2}, high = min({2}u, {3}u - first), within = inner % {1}; block /= {0};", m * n, s.band * n, s.band, m));
      at[rest] = "first + within % high", at[rest + 1] = "within / high";
    }
    for (std::size_t i = grid.size(); i-- > 0;) {
      const For& f = *grid[i];
      const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1);
      const std::string tile = i >= rest ? at[i] : fmt::format("block % {}", tiles(i));
      line(fmt::format("const int {0} = int({1}) * {2}, {3} = min({0} + {2}, {4});", lo, tile, f.size, hi, f.extent));
      if (i < rest) line(fmt::format("block /= {};", tiles(i)));
      out.blocks *= tiles(i);
    }
  }

  Or<Source> run() {
    out.name = c_name(nest.name);
    out.threads = s.threads;
    std::string arguments;
    for (const auto* list : {&nest.inputs, &nest.outputs})
      for (TensorId t : *list) {
        if (std::count(out.arguments.begin(), out.arguments.end(), t)) continue;
        out.arguments.push_back(t);
        arguments += fmt::format("{}{}{}* __restrict__ {}", arguments.empty() ? "" : ", ", list == &nest.inputs ? "const " : "",
                                 stored_type_of(p.tensor(t).dtype), global(t));
      }
    line("extern __shared__ __align__(1024) unsigned char scratch[];");
    line("await_predecessor();");
    out.waits = true;
    const Block* body = &nest.body;
    std::vector<const For*> grid;
    while (body->size() == 1 && std::holds_alternative<For>((*body)[0].op) && std::get<For>((*body)[0].op).kind == For::Kind::grid) {
      grid.push_back(&std::get<For>((*body)[0].op));
      body = &(*body)[0].body;
    }
    grid_tiles(grid);
    place_buffers();
    block(*body);
    out.faults = out.text.find(", fault)") != std::string::npos;
    if (out.faults) arguments += ", unsigned* __restrict__ fault";
    out.text = fmt::format("{}extern \"C\" __global__ void __launch_bounds__({}{}) {}({}) {{\n{}}}\n", group_primitives, s.threads,
                           s.resident > 0 ? fmt::format(", {}", s.resident) : "", out.name, arguments, out.text);
    if (!why.empty()) return Refused{why};
    for (StatementId id : r.statements) {
      const Buffer& made = buffer_of(statement(id).out);
      if (made.inner && !in_scratch(made) && out.text.find(global(made.tensor) + "[") != std::string::npos)
        return Refused{p.tensor(made.tensor).name + " is made by one leaf for another and has no place in scratch"};
    }
    return std::move(out);
  }
};

}  // namespace

Or<Source> source_of(const Program& p, const Region& r, const Schedule& s, const Nest& nest, const std::vector<DimOrder>& layouts) {
  NestText text{{{{{{p, r, s, nest, layouts, {}}}}}}};
  return text.run();
}

}  // namespace tilewright::cuda
