#include <fmt/format.h>

#include "expr/scalar.h"
#include "expr/text.h"
#include "loop/nest.h"

namespace tilewright {

namespace {

struct Printer {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Nest& nest;
  std::string out;

  std::string variable(int v) const {
    return r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(v / 2)].axis)] + (v % 2 ? "1" : "0");
  }
  std::string affine(const Affine& a) const {
    std::string text;
    for (const auto& [v, c] : a.terms) {
      const char* sign = c < 0 ? "-" : text.empty() ? "" : "+";
      text += std::abs(c) == 1 ? fmt::format("{}{}", sign, variable(v)) : fmt::format("{}{}*{}", sign, std::abs(c), variable(v));
    }
    if (text.empty()) return std::to_string(a.offset);
    return a.offset == 0 ? text : fmt::format("{}{:+}", text, a.offset);
  }
  std::string box(const Buffer& b) const {
    std::string text;
    for (std::size_t d = 0; d < b.box.size(); ++d) {
      const Span& span = b.box[d];
      const std::string kept = span.walk < 0 ? "" : "|" + affine(span.kept);
      text += fmt::format("{}{}{}:{}", d ? ", " : "", affine(span.low), kept, affine(span.high));
      if (span.step != 1) text += fmt::format(":{}", span.step);
    }
    return fmt::format("{}[{}]", b.name, text);
  }
  std::string gathered(const Buffer& b) const {
    std::string places;
    for (std::size_t d = 0; d < b.through.size(); ++d)
      if (const Through& t = b.through[d]; t.slots >= 0) places += fmt::format(", dim {} {} {}", d, t.key ? "at the key of" : "as listed in", p.tensor(nest.slots[static_cast<std::size_t>(t.slots)].slot).name);
    if (!b.gathered) return places;
    const OperandAt& o = *b.gathered;
    std::string units, dims;
    for (std::int64_t u : o.unit) units += fmt::format("{}{}", units.empty() ? "" : " x ", u);
    for (std::size_t d : o.packed) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", o.dims[d]);
    return fmt::format(", live micro-tiles of {} by {} {}, packed along dim {}", units, o.lengths ? "lengths" : o.source == o.tensor ? "zeros" : "mask",
                       p.tensor(o.source).name, dims);
  }
  std::string turns(const For& f) const {
    if (f.slots >= 0) {
      const Slots& l = nest.slots[static_cast<std::size_t>(f.slots)];
      return ", through " + p.tensor(l.tile < 0 ? l.slot : l.tile).name;
    }
    return f.turns.every() ? "" : fmt::format(", turns where {}", print(p, f.turns.condition(), r.names));
  }
  void line(int depth, const std::string& text) { out += std::string(static_cast<std::size_t>(2 * depth), ' ') + text + "\n"; }

  void block(const Block& nodes, int depth) {
    for (const Node& n : nodes) {
      if (const For* f = std::get_if<For>(&n.op)) {
        line(depth, fmt::format("for {}, {} in tiles(0, {}, {}) {}{}{}:", variable(2 * f->step), variable(2 * f->step + 1), f->extent, f->size,
                                f->kind == For::Kind::grid ? "grid" : f->kind == For::Kind::walk ? "walk" : "seq", f->stages > 1 ? fmt::format(", ring of {}", f->stages) : "", turns(*f)));
        block(n.body, depth + 1);
      } else if (const Load* l = std::get_if<Load>(&n.op)) {
        line(depth, "load " + box(buffer(l->buffer)) + (!buffer(l->buffer).at ? "" : buffer(l->buffer).at->bulk ? " -> scratch, in bulk" : " -> scratch") + (l->ahead ? fmt::format(", {} ahead", l->ahead) : "") + gathered(buffer(l->buffer)));
      } else if (const Store* st = std::get_if<Store>(&n.op)) {
        line(depth, fmt::format("store {} : {}", box(buffer(st->buffer)), name_of(p.tensor(buffer(st->buffer).tensor).dtype)) + gathered(buffer(st->buffer)));
      } else if (const Init* i = std::get_if<Init>(&n.op)) {
        line(depth, fmt::format("init {} : {} for {}", box(buffer(i->buffer)), name_of(buffer(i->buffer).held), name_of(i->reducer)));
      } else if (const Compute* c = std::get_if<Compute>(&n.op)) {
        static constexpr const char* names[] = {"contract", "window", "reduce", "map"};
        line(depth, fmt::format("{} {}", names[static_cast<int>(c->kind)], print(p, *p.statement(c->statement))));
      } else if (std::holds_alternative<Meet>(n.op)) {
        const int pending = std::get<Meet>(n.op).pending;
        line(depth, pending ? fmt::format("barrier, copies of {} may be under way", pending) : "barrier");
      } else if (const Pipe* pipe = std::get_if<Pipe>(&n.op)) {
        const std::string place = pipe->ring < 0 ? "the place of the tile" : (pipe->apart ? "a stage of " + buffer(pipe->boxes[0]).name + " along " : "a stage of ") + r.names[static_cast<std::size_t>(s.steps[static_cast<std::size_t>(pipe->ring)].axis)];
        line(depth, pipe->kind == Pipe::Kind::free   ? fmt::format("copying warps wait until {} is free", place)
                    : pipe->kind == Pipe::Kind::full ? "computing warps wait for its boxes"
                    : pipe->kept                     ? fmt::format("what was read {} iteration before is free", pipe->kept)
                                                     : "it is free");
      } else {
        line(depth, "call " + std::get<Opaque>(p.nodes[static_cast<std::size_t>(std::get<Call>(n.op).node)]).op);
      }
    }
  }
  const Buffer& buffer(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)]; }
};

}  // namespace

std::string print(const Program& p, const Region& r, const Schedule& s, const Nest& nest) {
  Printer printer{program_of(p, nest), region_of(r, nest), s, nest, {}};
  printer.line(0, "kernel " + nest.name);
  printer.block(nest.body, 1);
  return printer.out;
}

}  // namespace tilewright
