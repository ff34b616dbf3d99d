// Boxes that the copy engine brings: four warps beside those that compute ask for them, and both hand the stages of a
// ring to one another through barriers in scratch. Blocks of a cluster bring parts of a box that they read alike, each
// to all of them.
//
//   copying warps                                       computing warps
//   for k: wait free[stage]; copy A, B -> full[stage]   for k: wait full[stage]; multiply; arrive free[stage]
#pragma once
#include "schedule/engine_box.h"
#include "target/cuda/copies_inl.h"

namespace tilewright::cuda {

struct Bulk : Copies {
  enum class Role { all, copies, computes } role = Role::all;
  std::string bulk_primitives{};                        // of the copies that the kernel uses
  std::set<std::pair<std::size_t, bool>> bulk_copies{}; // dims, to all of the cluster
  std::map<int, std::string> starts{};   // of loops that begin behind their first turn, by step
  std::map<std::string, std::int64_t> pipes{};          // ring's variable -> offset of its barriers in scratch

  bool in_bulk(const Buffer& b) const { return b.at && b.at->bulk; }
  bool any_bulk() const {
    return std::any_of(nest.buffers.begin(), nest.buffers.end(), [&](const Buffer& b) { return in_bulk(b); });
  }

  // ---- what the copy engine is told

  Or<EngineBox> box_of(const Buffer& b) const {
    if (b.outside.value_or(0) != 0) return Refused{p.tensor(b.tensor).name + " is filled with something else than zeros"};
    return engine_box(p, r, s, *b.at, b.box, b.extent, layouts[static_cast<std::size_t>(b.tensor)]);
  }
  TensorMap map_of(const Buffer& b, const EngineBox& box) const {
    const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    TensorMap map{static_cast<int>(std::find(out.arguments.begin(), out.arguments.end(), b.tensor) - out.arguments.begin()), p.tensor(b.tensor).dtype, {}, {}, {}};
    for (const EngineBox::Dim& d : box.dims) {
      if (!map.dims.empty()) map.strides.push_back(d.stride * width);
      map.dims.push_back(d.extent), map.box.push_back(d.box);
    }
    return map;
  }

  static std::string bulk_instruction(std::size_t dims, bool to_all) {
    std::string list, parameters, operands;
    for (std::size_t i = 0; i < dims; ++i) {
      list += fmt::format("{}%{}", i ? ", " : "", i + 2);
      parameters += fmt::format(", int c{}", i), operands += fmt::format(", \"r\"(c{})", i);
    }
    return fmt::format(
        "TW_DEVICE void bulk_copy{0}(void* to, const tensor_map& from, unsigned barrier{1}{2}) {{\n"
        "  asm volatile(\"cp.async.bulk.tensor.{3}d.shared::cluster.global.mbarrier::complete_tx::bytes{4} [%0], [%1, "
        "{{{5}}}], [%{6}]{7};\"\n"
        "    :: \"r\"(shared_address(to)), \"l\"(&from){8}, \"r\"(barrier){9} : \"memory\");\n}}\n",
        to_all ? "_to_all" : "", parameters, to_all ? ", unsigned short blocks" : "", dims,
        to_all ? ".multicast::cluster" : "", list, dims + 2, to_all ? fmt::format(", %{}", dims + 3) : "", operands,
        to_all ? ", \"h\"(blocks)" : "");
  }

  // One thread's request for a box, which tells the barrier of its stage when it has arrived.
  void bulk_load(const Buffer& b, const std::string& barrier) {
    const auto box = box_of(b);
    if (!box) {
      why = box.reason();
      return;
    }
    const bool to_all = box->parts > 1;
    if (bulk_copies.insert({box->dims.size(), to_all}).second) bulk_primitives += bulk_instruction(box->dims.size(), to_all);
    std::string at;
    for (std::size_t i = 0; i < box->dims.size(); ++i) {
      const EngineBox::Dim& d = box->dims[i];
      at += d.divisor == 1 ? ", " + affine(d.first) : fmt::format(", ({}) / {}", affine(d.first), d.divisor);
      if (to_all && i == box->split) at += fmt::format(" + int(cluster_rank()) * {}", d.box);
    }
    line(fmt::format("bulk_copy{}({}{}, m_{}, {}{}{});", to_all ? "_to_all" : "", where.at(b.tensor).pointer,
                     to_all ? fmt::format(" + cluster_rank() * {}", box->part_elements) : "", tensor(b.tensor), barrier,
                     at, to_all ? fmt::format(", {}", (1 << s.cluster) - 1) : ""));
  }
  // Bytes that arrive in a block's stage, whoever asked for them.
  std::int64_t stage_bytes(const Buffer& b) const {
    std::int64_t n = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    for (std::int64_t e : b.extent) n *= e;
    return n;
  }

  // ---- handing stages over: barriers full[stage] and free[stage] of each ring; what stays for a tile is a ring of one stage

  std::string ring_name(int step) const { return step < 0 ? "tile" : c_name(r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(step)].axis)]); }

  void place_pipes(const Block& nodes, int stages = 1) {
    for (const Node& n : nodes) {
      if (const Pipe* at = std::get_if<Pipe>(&n.op); at && at->kind == Pipe::Kind::free) {
        const std::string name = ring_name(at->ring);
        out.scratch = ceil_div_i64(out.scratch, 8) * 8;
        pipes[name] = stages;
        line(fmt::format("const unsigned full_{0} = shared_address(scratch + {1}), free_{0} = full_{0} + {2};", name, out.scratch, 8 * stages));
        line("if (threadIdx.x == 0)");
        line(fmt::format("  for (int i = 0; i < {0}; ++i) barrier_make(full_{1} + 8 * i, 1), barrier_make(free_{1} + 8 * i, {2});", stages, name, s.threads / 32 * s.cluster));
        out.scratch += 16 * stages;
      }
      if (const For* f = std::get_if<For>(&n.op)) place_pipes(n.body, f->stages);
    }
  }
  // `around`: the block that the pipe stands in, with its loads.
  void pipe(const Pipe& at, const Block& around) {
    const std::string name = ring_name(at.ring), stage = "stage_" + name;
    if (at.kind == Pipe::Kind::free && role == Role::copies) {
      std::int64_t bytes = 0;
      for (const Node& n : around)
        if (const Load* l = std::get_if<Load>(&n.op); l && in_bulk(buffer(l->buffer))) bytes += stage_bytes(buffer(l->buffer));
      line(fmt::format("barrier_wait(free_{0} + 8 * {1}, phase_{0} ^ 1);", name, stage));
      line(fmt::format("barrier_expect(full_{} + 8 * {}, {});", name, stage, bytes));
    } else if (at.kind == Pipe::Kind::full && role == Role::computes) {
      line(fmt::format("barrier_wait(full_{0} + 8 * {1}, phase_{0});", name, stage));
    } else if (at.kind == Pipe::Kind::release) {
      const std::int64_t stages = pipes.at(name);
      const std::string first = starts.count(at.ring) ? starts.at(at.ring) : "";
      if (role == Role::computes && at.kept) line(fmt::format("if ({} >= {}{}) {{", variable(2 * at.ring), first.empty() ? "" : first + " + ", at.kept * s.steps[static_cast<std::size_t>(at.ring)].size)), ++depth;
      if (role == Role::computes) release(name, at.kept ? earlier(stage, at.kept, stages) : stage);
      if (role == Role::computes && at.kept) close(1);
      line(stages == 1 ? fmt::format("phase_{} ^= 1;", name) : fmt::format("if (++stage_{0} == {1}) stage_{0} = 0, phase_{0} ^= 1;", name, stages));
    }
  }
  static std::string earlier(const std::string& stage, int by, std::int64_t stages) { return fmt::format("({0} < {1} ? {0} + {2} : {0} - {1})", stage, by, stages - by); }
  void release(const std::string& name, const std::string& stage) {
    if (s.cluster > 1) line(fmt::format("if (threadIdx.x % 32 < {}) barrier_arrive_in(free_{} + 8 * {}, threadIdx.x % 32);", s.cluster, name, stage));
    else line(fmt::format("if (threadIdx.x % 32 == 0) barrier_arrive(free_{} + 8 * {});", name, stage));
  }
  // Behind a ring's loop nothing is read any more: the stages that were kept are free too.
  void release_kept(const Node& ring) {
    for (const Node& n : ring.body)
      if (const Pipe* at = std::get_if<Pipe>(&n.op); at && at->kind == Pipe::Kind::release)
        for (int k = at->kept; k > 0; --k) release(ring_name(at->ring), earlier("stage_" + ring_name(at->ring), k, pipes.at(ring_name(at->ring))));
  }
  // Declares where a role is in each ring; a ring goes on across tiles.
  void begin_pipes() {
    for (const auto& [name, stages] : pipes) line(fmt::format("{0}unsigned stage_{1} = 0; unsigned phase_{1} = 0;", stages == 1 ? "const " : "", name));
  }
};

}  // namespace tilewright::cuda
