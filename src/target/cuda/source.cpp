#include "target/cuda/source.h"

#include "schedule/role_registers.h"
#include "target/cuda/fragment_leaf_inl.h"

namespace tilewright::cuda {

namespace {

// The nest's own order: loads, meetings, loops, and a leaf for each group of computes.
struct NestText : FragmentLeaf {
  // ---- streamed reductions: init, accumulate and finish stand at three places

  void init(StatementId id, const Points& points) {
    const Statement& st = statement(id);
    const Leaf leaf = leaf_of(points, id, id);
    const std::int64_t n = rides(id) ? own_rows : leaf.at && leaf.at->tensor ? leaf.at->rows * leaf.at->columns / 32 : leaf.rounds * leaf.elements;
    line(fmt::format("{} acc_{}[{}];", type_of(accumulated(st)), tensor(st.out), n));
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) acc_{}[e] = {};", n, tensor(st.out), identity(st.reducer, accumulated(st))));
  }

  void streamed_step(StatementId id, const Points& points) {
    if (rides(id)) return;
    const Leaf leaf = leaf_of(points, id, id);
    if (leaf.at && leaf.at->tensor) return tensor_step(points, leaf);
    accumulate(points, leaf, fmt::format("acc_{}[round * {} + e]", tensor(statement(id).out), leaf.elements));
  }

  void finish(const Points& points, const std::vector<StatementId>& group) {
    if (rides(group[0])) return add_up_rows(group[0]);
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
      if (role == Role::copies) {
        copying(nodes, n);
      } else if (const Load* l = std::get_if<Load>(&nodes[n].op)) {
        if (l->ahead == 0 && !in_bulk(buffer(l->buffer))) load(buffer(l->buffer));
      } else if (const Pipe* at = std::get_if<Pipe>(&nodes[n].op)) {
        if (!put_off_pipe(*at)) pipe(*at);
      } else if (const Meet* meet = std::get_if<Meet>(&nodes[n].op)) {
        const bool head = ring && n == 0;
        if (head) line(fmt::format("copies_arrive<{}>();", meet->pending));
        else if (copies_pending) line("copies_arrive<0>();"), copies_pending = false;
        if (grouped()) line("scratch_to_group();");
        line(role == Role::computes ? fmt::format("threads_meet<{}>();", s.threads) : "__syncthreads();");
        if (head) issue_ahead(*ring, std::get<For>(ring->op));
      } else if (const For* f = std::get_if<For>(&nodes[n].op)) {
        std::stable_partition(begun.begin(), begun.end(), [&](StatementId id) { return rides(id); });
        if (!begun.empty() && any_bulk()) {
          std::size_t behind = n;
          const auto group = with_maps(p, nest, nodes, behind, begun.back());
          bring_near(points_of(group), group);
        }
        loop(nodes[n], *f);
        for (std::size_t b = 0; b < begun.size(); ++b) {
          std::vector<StatementId> group = {begun[b]};
          if (b + 1 == begun.size()) group = with_maps(p, nest, nodes, n, begun[b]);
          finish(points_of(group), group);
        }
        begun.clear();
      } else if (const Init* i = std::get_if<Init>(&nodes[n].op)) {
        if (s.fragments) begin_fragment(nodes, n, i->buffer);
        else begin(nodes, n, i->buffer, begun);
      } else if (const Store* leaves = std::get_if<Store>(&nodes[n].op)) {
        if (s.fragments) store_state(buffer(leaves->buffer).tensor);
      } else if (const Compute* c = std::get_if<Compute>(&nodes[n].op)) {
        if (s.fragments) fragment_compute(*c);
        else compute(nodes, n, *c);
      }
    }
  }

  // What copying warps do: the loops, and their part of the rings.
  void copying(const Block& around, std::size_t n) {
    if (const For* f = std::get_if<For>(&around[n].op)) return loop(around[n], *f);
    if (const Pipe* at = std::get_if<Pipe>(&around[n].op)) return pipe(*at);
    const Load* l = std::get_if<Load>(&around[n].op);
    if (!l || !in_bulk(buffer(l->buffer))) return;
    for (const Node& other : around)
      if (const Pipe* at = std::get_if<Pipe>(&other.op); at && at->kind == Pipe::Kind::free && std::count(at->boxes.begin(), at->boxes.end(), l->buffer))
        bulk_load(buffer(l->buffer), fmt::format("full_{0} + 8 * stage_{0}", pipe_name(*at)));
  }

  bool grouped() const { return std::any_of(s.leaves.begin(), s.leaves.end(), [](const LeafAt& l) { return l.group; }); }

  // An accumulator lives across a loop, or is one of a tensor leaf, whose fragments are spread over the warp.
  void begin(const Block& nodes, std::size_t n, BufferId b, std::vector<StatementId>& begun) {
    StatementId id = -1;
    for (StatementId x : r.statements)
      if (statement(x).out == buffer(b).tensor) id = x;
    for (std::size_t later = n + 1; later < nodes.size(); ++later)
      if (const Compute* c = std::get_if<Compute>(&nodes[later].op); c && c->statement == id) return;
    const Points points = points_of({id});
    streamed.emplace(id, points);
    init(id, points);
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
    const Points points = points_of(group);
    const Leaf leaf = leaf_of(points, group[0], group.back());
    if (leaf.at && leaf.at->tensor) {
      line("{");
      ++depth;
      init(group[0], points);
      tensor_step(points, leaf);
      tensor_finish(points, group);
      close(1);
      return;
    }
    vector_group(points, group);
  }

  static bool pipes_in(const Node& node) {
    return std::any_of(node.body.begin(), node.body.end(), [](const Node& n) { return std::holds_alternative<Pipe>(n.op) || pipes_in(n); });
  }

  void loop(const Node& node, const For& f) {
    if (role == Role::copies && !pipes_in(node)) return;
    const bool piped = std::any_of(node.body.begin(), node.body.end(), [](const Node& n) { return std::holds_alternative<Pipe>(n.op); });
    const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1);
    for (const Node& n : node.body)
      if (const Load* l = std::get_if<Load>(&n.op); l && in_scratch(buffer(l->buffer)) && !in_bulk(buffer(l->buffer))) prepare(buffer(l->buffer), f.step);
    if (f.stages > 1 && !piped) begin_ring(node, f);
    const bool overlaps = s.overlapped && piped && role == Role::computes, bounded = f.stages == 1 || piped;
    const std::string first = bounded ? first_turn_of(f) : "0", more = bounded ? more_turns(f) : fmt::format("{} < {}", lo, end_of(f));
    if (bounded) bound_turns(f, role == Role::copies);
    const Block* const around_turn = turn_nodes;
    if (s.fragments && role == Role::computes) turn_nodes = &node.body;
    if (first != "0") starts[f.step] = first;
    if (overlaps) begin_overlap(node.body);
    if (overlaps) {                      // the first turn has none before it
      first_turn = true;
      line("{");
      ++depth;
      line(fmt::format("const int {} = {}, {} = min({} + {}, {});", lo, first, hi, lo, f.size, end_of(f)));
      const auto around = held;
      if (masked(f)) turns_of(node, f, piped);
      else turn(node, f, piped);
      held = around;
      first_turn = false;
    }
    if (role == Role::copies) line("#pragma unroll 1");      // they have few registers
    const bool gaps = bounded && skips(f);
    std::string begin = overlaps ? fmt::format("{} + {}", first, f.size) : first, step = fmt::format("{} += {}", lo, f.size);
    if (gaps) begin = overlaps ? turn_behind(f, begin) : begin, step = fmt::format("{} = {}", lo, turn_behind(f, fmt::format("{} + {}", lo, f.size)));
    line(fmt::format("for (int {} = {}; {}; {}) {{", lo, begin, more, step));
    ++depth;
    line(fmt::format("const int {} = min({} + {}, {});", hi, lo, f.size, end_of(f)));
    turns_of(node, f, piped);
    if (overlaps) end_overlap();
    add_up();
    turn_nodes = around_turn;
    if (piped && role == Role::computes) {
      if (grouped()) line("group_wait<0>();");
      all_products();
      release_kept(node);
    }
  }
  // Turns in which every point counts ask nothing of any.
  void turns_of(const Node& node, const For& f, bool piped) {
    const std::string whole = s.fragments && role == Role::computes ? whole_turn(node, f) : "";
    if (whole.empty()) return turn(node, f, piped);
    const auto around = held;
    line(fmt::format("if ({}) {{", whole));
    ++depth;
    whole_turns = true;
    turn(node, f, piped);
    whole_turns = false;
    held = around;
    line("else {");
    ++depth;
    turn(node, f, piped);
    close(1);
  }
  void turn(const Node& node, const For& f, bool piped) {
    if (f.stages > 1 && !piped) at_stage(ring_of(node), "stage_" + variable_name(f));
    block(node.body, f.stages > 1 ? &node : nullptr);
    without_guard.clear();
    if (f.stages > 1 && !piped) line(fmt::format("stage_{0} = stage_{0} == {1} ? 0 : stage_{0} + 1;", variable_name(f), f.stages - 1));
    close(1);
  }

  // The tile of each block. In bands, blocks that run together share operands of both axes. Tiles with many turns come first, so that
  // short ones fill what is left in the end.
  void grid_tiles(const std::vector<const For*>& grid) {
    const std::int64_t all = tiles_of(grid);
    if (s.blocks > 0 && s.blocks < all) {
      line(fmt::format("for (unsigned tile = blockIdx.x; tile < {}; tile += gridDim.x) {{", all));
      ++depth;
    }
    const For* const stream = uneven_stream(nest.body);
    const bool in_turn = s.blocks > 0 && s.blocks < all, uneven = in_turn && stream && s.cluster == 1;
    // Tiles may differ in how many turns they take: rounds go there and back.
    if (uneven) line(fmt::format("const unsigned round = tile / gridDim.x, behind = tile - round * gridDim.x, there = min(gridDim.x, {} - round * gridDim.x);", all));
    line(uneven ? "unsigned block = round % 2 ? tile - behind + there - 1 - behind : tile;" : in_turn ? "unsigned block = tile;" : "unsigned block = blockIdx.x;");
    std::vector<std::string> at(grid.size());
    std::size_t rest = grid.size();
    auto tiles = [&](std::size_t i) { return tiles_in(*grid[i]); };
    if (s.band > 1 && grid.size() > 1) {
      rest -= 2;
      const std::int64_t m = tiles(rest), n = tiles(rest + 1);
      line(fmt::format("const unsigned inner = block % {0}, first = inner / {1} * {2}, high = min({2}u, {3}u - first), within = inner % {1}; block /= {0};", m * n, s.band * n, s.band, m));
      at[rest] = "first + within % high", at[rest + 1] = "within / high";
    }
    for (std::size_t i = grid.size(); i-- > 0;) {
      const For& f = *grid[i];
      const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1);
      std::string tile = i >= rest ? at[i] : fmt::format("block % {}", tiles(i));
      if (stream && i + 1 == grid.size() && late_tiles_longer(*stream, f)) tile = fmt::format("{} - {}", tiles(i) - 1, i >= rest ? at[i] : "(" + tile + ")");
      if (f.slots >= 0) open_row(f.slots, tile, lo, hi, in_turn ? "continue" : "return");
      else line(fmt::format("const int {0} = int({1}) * {2}, {3} = min({0} + {2}, {4});", lo, tile, f.size, hi, f.extent));
      if (i < rest) line(fmt::format("block /= {};", tiles(i)));
    }
  }
  std::int64_t tiles_in(const For& f) const { return f.slots < 0 ? ceil_div_i64(f.extent, f.size) : slots(f.slots).tiles; }
  std::int64_t tiles_of(const std::vector<const For*>& grid) const {
    std::int64_t n = 1;
    for (const For* f : grid) n *= tiles_in(*f);
    return n;
  }
  // A block's tiles, one after the other: what the next one brings into scratch must not meet readers of the last one.
  void tiles(const std::vector<const For*>& grid, const Block& body) {
    const int around = depth;
    grid_tiles(grid);
    open_lists();
    block(body);
    if (depth > around && out.scratch > 0 && !any_bulk()) line("__syncthreads();");
    close(depth - around);
  }
  // Four warps beside the others ask for copies; the registers that they do not need go to those.
  void roles(const std::vector<const For*>& grid, const Block& body) {
    place_pipes(body);
    line("barriers_made();");
    line(s.cluster > 1 ? "cluster_meet();" : "__syncthreads();");
    const RoleRegisters registers = role_registers(s.threads, s.resident, s.fragments, 65536);
    line(fmt::format("if (threadIdx.x >= {}) {{  // copies", s.threads));
    ++depth;
    line(fmt::format("registers_down<{}>();", registers.copying));
    line(fmt::format("if (threadIdx.x == {}) {{", s.threads));
    ++depth;
    role = Role::copies;
    begin_pipes();
    tiles(grid, body);
    close(1);
    line("__syncwarp();");
    --depth;
    line("} else {  // computes");
    ++depth;
    line(fmt::format("registers_up<{}>();", registers.computing));
    role = Role::computes;
    begin_pipes();
    if (s.overlapped && s.threads > 128) line(fmt::format("if (threadIdx.x / 128 == {0}) turn_ends<{1}>();", s.threads / 128 - 1, s.threads / 128));
    tiles(grid, body);
    close(1);
    if (s.cluster > 1) line("cluster_meet();  // nobody leaves while others write into its scratch");
  }

  // The copy engine's view of each argument that it reads. Refused where another leaf reads the tensor too.
  void describe_boxes() {
    for (const Buffer& b : nest.buffers) {
      if (!in_bulk(b)) continue;
      const auto box = box_of(b);
      if (!box) why = box.reason();
      else out.maps.push_back(map_of(b, *box));
    }
  }
  bool by_box(TensorId t) const {
    return std::any_of(nest.buffers.begin(), nest.buffers.end(), [&](const Buffer& b) { return b.tensor == t && in_bulk(b); });
  }

  // Whether a result that leaves the kernel is read there too: others of the block may not have written it yet.
  bool is_read(const std::string& name) const {
    for (std::size_t at = out.text.find(name + "["); at != std::string::npos; at = out.text.find(name + "[", at + 1))
      if (out.text.compare(at - 5, 5, "load(") == 0 || (out.text[at - 1] == '&' && out.text.rfind("fetch<", at) != std::string::npos && out.text.rfind("fetch<", at) > out.text.rfind('\n', at))) return true;
    return false;
  }

  Or<Source> run() {
    out.name = c_name(nest.name);
    out.threads = s.threads + (any_bulk() ? 128 : 0);
    std::string arguments;
    for (const auto* list : {&nest.inputs, &nest.outputs})
      for (TensorId t : *list) {
        if (std::count(out.arguments.begin(), out.arguments.end(), t)) continue;
        out.arguments.push_back(t);
        if (!arguments.empty()) arguments += ", ";
        arguments += by_box(t) ? fmt::format("const __grid_constant__ tensor_map m_{}", tensor(t))
                               : fmt::format("{}{}* __restrict__ {}", list == &nest.inputs ? "const " : "", stored_type_of(p.tensor(t).dtype), global(t));
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
    place_buffers();
    for (const Buffer& b : nest.buffers)
      if (!in_scratch(b)) where.at(b.tensor).through = patterns(b);
    if (!nest.slots.empty() && !only_marks(nest.slots[0]) && any_bulk()) return Refused{"boxes of the copy engine do not go through slots"};
    out.blocks = s.blocks > 0 ? std::min(s.blocks, tiles_of(grid)) : tiles_of(grid);
    describe_boxes();
    clear_borders();
    if (any_bulk()) roles(grid, *body);
    else tiles(grid, *body);
    out.faults = out.text.find(", fault)") != std::string::npos;
    if (out.faults) arguments += ", unsigned* __restrict__ fault";
    out.text = fmt::format("{}{}extern \"C\" __global__ void {}__launch_bounds__({}{}) {}({}) {{\n{}}}\n", bulk_primitives, group_primitives,
                           s.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", s.cluster) : "", out.threads, s.resident > 0 ? fmt::format(", {}", s.resident) : "", out.name,
                           arguments, out.text);
    if (!why.empty()) return Refused{why};
    for (StatementId id : r.statements) {
      const Buffer& made = buffer_of(statement(id).out);
      if (!in_scratch(made) && (made.inner ? out.text.find(global(made.tensor) + "[") != std::string::npos : is_read(global(made.tensor))))
        return Refused{p.tensor(made.tensor).name + " is made by one leaf for another and has no place in scratch"};
    }
    return std::move(out);
  }
};

}  // namespace

namespace {

// What is made whole in scratch, and read with a border of zeros around it, is given room for the border.
Nest with_borders(const Program& p, const Region& r, const Nest& nest) {
  Nest out = nest;
  for (Buffer& b : out.buffers) {
    if (!made_here(r, p, b.tensor) || !b.at || b.at->level != LevelRole::scratch || b.outside != 0.0) continue;
    for (StatementId id : r.statements)
      for_each_access(*p.statement(id), [&](const Access& a) {
        if (a.tensor != b.tensor || !a.otherwise) return;
        for (std::size_t d = 0; d < b.box.size(); ++d) {
          const Span wanted = hull(a.at[d], compute_of(nest, id).ranges, p.tensor(b.tensor).dims[d]);
          const bool fixed = wanted.low.terms.empty() && wanted.high.terms.empty() && b.box[d].low.terms.empty() && b.box[d].high.terms.empty();
          if (!fixed) continue;
          b.box[d].low.offset = std::min(b.box[d].low.offset, wanted.low.offset);
          b.box[d].high.offset = std::max(b.box[d].high.offset, wanted.high.offset);
          b.extent[d] = b.box[d].high.offset - b.box[d].low.offset;
        }
      });
  }
  return out;
}

}  // namespace

Or<Source> source_of(const Program& p, const Region& r, const Schedule& s, const Nest& planned, const std::vector<DimOrder>& layouts) {
  const Nest nest = with_borders(p, r, planned);
  // A stream's statements are those of the program that it brings along.
  const Program& own = program_of(p, nest);
  std::vector<DimOrder> all = layouts;
  for (std::size_t t = all.size(); t < own.tensors.size(); ++t) all.push_back(row_major(own.tensors[t].dims.size()));
  NestText text{{{{{{{{{own, region_of(r, nest), s, nest, all, {}}}}}}}}}};
  return text.run();
}

}  // namespace tilewright::cuda
