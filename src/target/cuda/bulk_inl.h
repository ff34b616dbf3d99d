// Boxes that the copy engine brings: four warps beside those that compute ask for them, and both hand the stages of a
// ring to one another through barriers in scratch. Blocks of a cluster bring parts of a box that they read alike, each
// to all of them.
//
//   copying warps                                       computing warps
//   for k: wait free[stage]; copy A, B -> full[stage]   for k: wait full[stage]; multiply; arrive free[stage]
#pragma once
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
    for (int panel = 0; panel < box->panels; ++panel) {
      std::string at, to = where.at(b.tensor).pointer;
      for (std::size_t i = 0; i < box->dims.size(); ++i) {
        const EngineBox::Dim& d = box->dims[i];
        at += d.divisor == 1 ? ", " + affine(d.first) : fmt::format(", ({}) / {}", affine(d.first), d.divisor);
        if (to_all && i == box->split) at += fmt::format(" + int(cluster_rank()) * {}", d.box);
        if (i == 0 && panel > 0) at += fmt::format(" + {}", panel * d.box);
      }
      if (panel > 0) to += fmt::format(" + {}", panel * box->panel_elements);
      if (to_all) to += fmt::format(" + cluster_rank() * {}", box->part_elements);
      line(fmt::format("bulk_copy{}({}, m_{}, {}{}{});", to_all ? "_to_all" : "", to, tensor(b.tensor), barrier, at, to_all ? fmt::format(", {}", (1 << s.cluster) - 1) : ""));
    }
  }
  // Bytes that arrive in a block's stage, whoever asked for them; panels are filled up with zeros.
  std::int64_t stage_bytes(const Buffer& b) const {
    return static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype)) * box_elements(p, r, s, *b.at, b.box, b.extent);
  }

  // ---- handing stages over: barriers full[stage] and free[stage] of each ring; what stays for a tile is a ring over tiles

  std::string pipe_name(const Pipe& at) const {
    const std::string ring = at.ring < 0 ? "tile" : c_name(r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(at.ring)].axis)]);
    return at.apart ? ring + "_" + tensor(buffer(at.boxes[0]).tensor) : ring;
  }

  void place_pipes(const Block& nodes) {
    for (const Node& n : nodes) {
      if (const Pipe* at = std::get_if<Pipe>(&n.op); at && at->kind == Pipe::Kind::free) {
        const std::string name = pipe_name(*at);
        out.scratch = ceil_div_i64(out.scratch, 8) * 8;
        pipes[name] = at->stages;
        line(fmt::format("const unsigned full_{0} = shared_address(scratch + {1}), free_{0} = full_{0} + {2};", name, out.scratch, 8 * at->stages));
        line("if (threadIdx.x == 0)");
        line(fmt::format("  for (int i = 0; i < {0}; ++i) barrier_make(full_{1} + 8 * i, 1), barrier_make(free_{1} + 8 * i, {2});", at->stages, name, s.threads / 32 * s.cluster));
        out.scratch += 16 * at->stages;
      }
      if (std::holds_alternative<For>(n.op)) place_pipes(n.body);
    }
  }
  void pipe(const Pipe& at) {
    const std::string name = pipe_name(at), stage = "stage_" + name;
    if (at.kind == Pipe::Kind::free && role == Role::copies) {
      std::int64_t bytes = 0;
      for (BufferId b : at.boxes) bytes += stage_bytes(buffer(b));
      line(fmt::format("barrier_wait(free_{0} + 8 * {1}, phase_{0} ^ 1);", name, stage));
      line(fmt::format("barrier_expect(full_{} + 8 * {}, {});", name, stage, bytes));
      if (at.stages > 1) at_stage(at.boxes, stage);
    } else if (at.kind == Pipe::Kind::full && role == Role::computes) {
      line(fmt::format("barrier_wait(full_{0} + 8 * {1}, phase_{0});", name, stage));
      if (at.stages > 1) at_stage(at.boxes, stage);
    } else if (at.kind == Pipe::Kind::release) {
      const std::string first = starts.count(at.ring) ? starts.at(at.ring) : "";
      if (role == Role::computes && at.kept) line(fmt::format("if ({} >= {}{}) {{", variable(2 * at.ring), first.empty() ? "" : first + " + ", at.kept * s.steps[static_cast<std::size_t>(at.ring)].size)), ++depth;
      if (role == Role::computes) release(name, at.kept ? earlier(stage, at.kept, at.stages) : stage);
      if (role == Role::computes && at.kept) close(1);
      advance(at);
    }
  }
  // A role goes on to the next stage.
  void advance(const Pipe& at) {
    const std::string name = pipe_name(at);
    line(at.stages == 1 ? fmt::format("phase_{} ^= 1;", name) : fmt::format("if (++stage_{0} == {1}) stage_{0} = 0, phase_{0} ^= 1;", name, at.stages));
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
        for (int k = at->kept; k > 0; --k) release(pipe_name(*at), earlier("stage_" + pipe_name(*at), k, at->stages));
  }
  // Declares where a role is in each ring; a ring goes on across tiles.
  void begin_pipes() {
    for (const auto& [name, stages] : pipes) line(fmt::format("{0}unsigned stage_{1} = 0; unsigned phase_{1} = 0;", stages == 1 ? "const " : "", name));
  }
};

}  // namespace tilewright::cuda
