#include "law/stream.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/text.h"
#include "law/separate.h"
#include "law/turn.h"

namespace tilewright {

namespace {

bool reads_nothing(const ScalarRef& s) {
  bool reads = false;
  for_each_access(s, [&](const Access&) { reads = true; });
  return !reads;
}

struct Deriver : Turn {
  using Turn::Turn;
  std::set<TensorId> chunked{};    // statistics that are means
  std::vector<ScalarRef> scales{}; // of means: all elements by those that were seen
  std::map<StatementId, StatementId> added_for{};
  std::unique_ptr<Lineage> lineage{};

  // ---- bodies over statistics themselves

  // Maps of statistics alone are read through: behind the loop they are complete, here they are not.
  ScalarRef direct(StatementId id, const ScalarRef& body) {
    if (!body) return body;
    return rewrite(body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      const Statement* w = lineage->writer(a.tensor);
      if (!w || !is_map(*w) || !lineage->carries(at(id), a.tensor)) return node;
      for (StatementId other : own)
        if (at(other).out == a.tensor) return node;
      Statement as_if; // a reader of this one map
      as_if.axes = at(id).axes, as_if.names = at(id).names, as_if.reduced = at(id).reduced, as_if.body = node;
      const ReadThrough seen = read_through(*lineage, as_if);
      if (!seen.refused.empty()) throw Refused{seen.refused};
      return seen.body;
    });
  }

  // ---- how a sum moves

  struct Of {
    Statement s;
    ReadThrough seen;
    Atoms atoms;
    Facts facts;
  };
  Of looked_at(StatementId id) {
    const Statement& s = at(id);
    Of o{s, read_through(*lineage, s), atoms_of(s, {}), facts_of(*lineage, s)};
    o.atoms = atoms_of(s, o.seen.statistics);
    o.facts.whole = [this](const ScalarRef& x) {
      return x->op == Op::mul && std::any_of(scales.begin(), scales.end(),
                                             [&](const ScalarRef& scale) { return equal(x->args[1], scale); });
    };
    return o;
  }

  Group only_group(Of& o) {
    if (!o.seen.refused.empty()) throw Refused{o.seen.refused};
    if (o.seen.guard && static_cast<int>(o.atoms.side(o.seen.guard)) >= static_cast<int>(Side::statistic))
      throw Refused{fmt::format("the condition {} is decided by a statistic", o.facts.print(o.seen.guard))};
    if (o.s.reducer != Reducer::sum)
      throw Refused{fmt::format("{} reads a statistic under {}", name(o.s.out), name_of(o.s.reducer))};
    if (!is_float(o.s.body->dtype)) throw Refused{fmt::format("{} is no sum of floats", name(o.s.out))};
    const auto groups = separate(o.seen.body, *lineage, o.s, o.atoms, o.facts);
    if (!groups) throw Refused{groups.reason()};
    if (groups->size() != 1)
      throw Refused{fmt::format("{} is a sum of {} bodies that follow different statistics: each must be summed alone",
                                name(o.s.out), groups->size())};
    return (*groups)[0];
  }

  std::set<TensorId> statistics_in(const ScalarRef& s, const Of& o) const {
    std::set<TensorId> list;
    for_each_access(s, [&](const Access& a) {
      if (o.seen.statistics.count(a.tensor)) list.insert(a.tensor);
    });
    return list;
  }

  // Sums without conditions that elements are compared with.
  void find_means() {
    for (StatementId id : own) {
      if (!reduces(id)) continue;
      Of o = looked_at(id);
      if (o.seen.statistics.empty()) continue;
      const Group g = only_group(o);
      for (AtomId a : g.anchors) {
        const auto sums = statistics_in(o.atoms.value(a), o);
        if (sums.size() != 1) continue;
        const StatementId w = writer_of(*sums.begin());
        if (w >= 0 && at(w).reducer == Reducer::sum && !at(w).guard && !reads_nothing(at(w).body))
          chunked.insert(*sums.begin());
      }
    }
    for (TensorId t : chunked) {
      const StatementId w = writer_of(t);
      const TensorId n = count_beside(w);
      Size all = 1;
      for (AxisId r : at(w).reduced) all = all * at(w).axes[static_cast<std::size_t>(r)];
      const DType type = held_as(p(), at(w));
      const ScalarRef scale = binary(Op::div, cast(size_value(all, DType::i64), type), read(p(), n, {}));
      scales.push_back(scale);
      for (StatementId id : own) {
        auto scaled = [&](const ScalarRef& node) {
          return node->op == Op::read && std::get<Access>(node->leaf).tensor == t
                     ? binary(Op::mul, cast(node, type), scale)
                     : node;
        };
        Statement& s = at(id);
        s.body = rewrite(s.body, scaled);
        if (s.guard) s.guard = rewrite(s.guard, scaled);
      }
    }
  }

  ScalarRef before_the_turn(const ScalarRef& s) {
    return rewrite(s, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      if (!reductions.count(a.tensor)) return node;
      return read(p(), kept(a.tensor, writer_of(a.tensor)), a.at);
    });
  }

  // Another sum of the region that is this form but for a number.
  std::optional<std::pair<StatementId, double>> sibling(Of& o, StatementId me, const Form& f) {
    for (const Stream::State& st : out.state) {
      const Statement other = at(st.reduction);
      if (other.reducer != Reducer::sum || other.reduced.size() != o.s.reduced.size()) continue;
      std::vector<Index> with(other.axes.size(), constant_index(0));
      bool fits = true;
      for (std::size_t a = 0; a < other.axes.size() && fits; ++a) {
        fits = false;
        for (std::size_t b = 0; b < o.s.axes.size() && !fits; ++b)
          if (image(st.reduction)[a] == image(me)[b]) with[a] = axis_index(static_cast<AxisId>(b)), fits = true;
      }
      if (!fits) continue;
      const ReadThrough seen = read_through(*lineage, other);
      const ScalarRef guard = seen.guard ? substitute(p(), seen.guard, with) : nullptr;
      if (!equal(guard, o.seen.guard)) continue;
      const auto theirs = normal_form(substitute(p(), seen.body, with), o.atoms, o.facts);
      if (!theirs) continue;
      if (const auto r = ratio(f, *theirs)) return std::pair{st.reduction, *r};
    }
    return std::nullopt;
  }

  ScalarRef scalar_in_parts(const Form& f, const Of& o, DType type) const {
    Factors shared = f[0].factors;
    for (const FormTerm& t : f)
      for (auto i = shared.begin(); i != shared.end();) {
        const auto found = t.factors.find(i->first);
        i = found == t.factors.end() || found->second != i->second ? shared.erase(i) : std::next(i);
      }
    Form rest = f;
    for (FormTerm& t : rest)
      for (const auto& [a, power] : shared) t.factors.erase(a);
    if (f.size() == 1 || shared.empty()) return scalar_of(f, o.atoms, type);
    return binary(Op::mul, scalar_of(shared, 1, o.atoms, type), scalar_of(rest, o.atoms, type));
  }

  // The sum of a derivative, beside the sum that it moves.
  StatementId add_sum(Of& o, StatementId me, Form f, double& factor) {
    factor = f[0].coefficient;
    for (FormTerm& t : f) t.coefficient /= factor;
    const DType type = held_as(p(), o.s);
    const ScalarRef body = scalar_in_parts(f, o, type);
    Statement s;
    std::vector<Index> with(o.s.axes.size(), constant_index(0)), its_image;
    std::vector<Size> dims;
    for (AxisId a = 0; a < static_cast<AxisId>(o.s.axes.size()); ++a) {
      const bool sums = std::find(o.s.reduced.begin(), o.s.reduced.end(), a) != o.s.reduced.end();
      if (!sums && !mentions_axis(body, a) && !(o.seen.guard && mentions_axis(o.seen.guard, a))) continue;
      const auto mine = static_cast<AxisId>(s.axes.size());
      with[static_cast<std::size_t>(a)] = axis_index(mine);
      s.axes.push_back(o.s.axes[static_cast<std::size_t>(a)]);
      s.names.push_back(o.s.names.empty() ? fmt::format("a{}", a) : o.s.names[static_cast<std::size_t>(a)]);
      its_image.push_back(image(me)[static_cast<std::size_t>(a)]);
      if (sums)
        s.reduced.push_back(mine);
      else
        s.at.push_back(axis_index(mine)), dims.push_back(s.axes.back());
    }
    s.reducer = Reducer::sum, s.label = o.s.label, s.place = o.s.place;
    s.body = substitute(p(), body, with);
    s.guard = o.seen.guard ? substitute(p(), o.seen.guard, with) : nullptr;
    s.out = build.tensor(name(o.s.out) + "_moved", type, dims);
    reductions.insert(s.out);
    const TensorId t = s.out;
    const StatementId id = add(std::move(s), std::move(its_image));
    after[me].push_back(id);
    added_for[id] = me;
    out.state.push_back({t, id, -1, nullptr, Stream::Anchor::none, {}});
    lineage = std::make_unique<Lineage>(p(), out.region.statements, reductions);
    return id;
  }

  // What the sum of a derivative was before this turn, over the parallel axes of the reduction as those of a map.
  ScalarRef sum_before(const Of& o, StatementId me, StatementId other) {
    const Statement& s = at(other);
    std::vector<Index> point;
    for (const Index& i : s.at) {
      const auto axis = plain_axis(i);
      if (!axis && i.terms.empty()) {
        point.push_back(i);
        continue;
      }
      if (!axis) throw Refused{fmt::format("{} is written at indices that cannot be inverted", name(s.out))};
      for (std::size_t b = 0; b < o.s.axes.size(); ++b)
        if (image(other)[static_cast<std::size_t>(*axis)] == image(me)[b]) {
          point.push_back(over_dims(o.s)[b]);
          break;
        }
    }
    // A sum that was added stands behind the one that it was added for.
    const auto order = [&](StatementId id) {
      while (added_for.count(id)) id = added_for.at(id);
      return std::find(own.begin(), own.end(), id) - own.begin();
    };
    const bool earlier = order(other) < order(me);
    const bool is_count = std::any_of(counts.begin(), counts.end(), [&](const auto& c) { return c.second == s.out; });
    return read(p(), earlier || is_count ? kept(s.out, other) : s.out, point);
  }

  void follow(StatementId id) {
    Of o = looked_at(id);
    if (o.seen.statistics.empty()) return;
    const Group g = only_group(o);
    const DType type = held_as(p(), o.s);
    const auto over = over_dims(o.s);
    auto placed = [&](const ScalarRef& s) { return substitute(p(), s, over); };
    // The factor by which all of it moves.
    ScalarRef factor;
    Form whole{FormTerm{1, g.factors, g.exponent, {}}};
    std::vector<Monomial> exponent;
    for (const Monomial& m : g.exponent) exponent.push_back(m);
    auto was_of = [&](AtomId a) { return o.atoms.intern(before_the_turn(o.atoms.value(a))); };
    FormTerm moves;
    for (const auto& [a, power] : g.factors) moves.factors[a] += power, moves.factors[was_of(a)] -= power;
    for (const Monomial& m : g.exponent) {
      Monomial earlier{-m.coefficient, {}};
      for (const auto& [a, power] : m.factors)
        earlier.factors[o.atoms.side(a) == Side::statistic ? was_of(a) : a] = power;
      moves.exponent.push_back(m);
      moves.exponent.push_back(earlier);
    }
    if (!moves.factors.empty() || !moves.exponent.empty()) factor = placed(scalar_of(moves, o.atoms, type));
    // And how each derivative adds to it.
    ScalarRef total;
    for (const Derivative& d : derivatives(g, o.atoms)) {
      const bool itself = std::all_of(d.powers.begin(), d.powers.end(), [](int k) { return k == 0; });
      double scale = 1;
      StatementId sum = id;
      if (!itself) {
        const Form f = product(d.body, whole);
        if (const auto found = sibling(o, id, f))
          sum = found->first, scale = found->second;
        else
          sum = add_sum(o, id, f, scale);
      }
      ScalarRef value = sum_before(o, id, sum);
      for (std::size_t i = 0; i < d.powers.size(); ++i) {
        const ScalarRef now = o.atoms.value(g.anchors[i]);
        for (int k = 0; k < d.powers[i]; ++k)
          value = binary(Op::mul, value, placed(binary(Op::sub, now, before_the_turn(now))));
        scale /= std::tgamma(d.powers[i] + 1.0);
      }
      if (scale != 1) value = binary(Op::mul, value, number(scale, type));
      total = total ? binary(Op::add, total, value) : value;
    }
    const bool scaled = factor && total->op == Op::read; // by statistics alone: the derivatives have no part in it
    if (factor) total = binary(Op::mul, total, factor);
    store(o, id, g, total, scaled ? factor : nullptr);
  }

  // A map of what all sums that follow the same statistics are multiplied by, over the axes that it has.
  ScalarRef scale(const Of& o, StatementId id, const ScalarRef& body) {
    Statement s;
    const std::vector<AxisId> parallel = parallel_axes(o.s);
    std::vector<Index> with(parallel.size(), constant_index(0)), point, its_image;
    std::vector<Size> dims;
    for (AxisId a = 0; a < static_cast<AxisId>(parallel.size()); ++a) {
      if (!mentions_axis(body, a)) continue;
      const auto of = static_cast<std::size_t>(parallel[static_cast<std::size_t>(a)]);
      with[static_cast<std::size_t>(a)] = axis_index(static_cast<AxisId>(s.axes.size()));
      s.at.push_back(with[static_cast<std::size_t>(a)]);
      point.push_back(axis_index(a));
      s.axes.push_back(o.s.axes[of]);
      dims.push_back(o.s.axes[of]);
      s.names.push_back(o.s.names.empty() ? fmt::format("a{}", of) : o.s.names[of]);
      its_image.push_back(image(id)[of]);
    }
    s.label = o.s.label, s.place = o.s.place;
    s.body = substitute(p(), body, with);
    for (StatementId known : out.scales)
      if (equal(at(known).body, s.body) && at(known).axes == s.axes) return read(p(), at(known).out, point);
    s.out = build.tensor(name(o.s.out) + "_scale", held_as(p(), o.s), dims);
    const TensorId t = s.out;
    const StatementId made = add(std::move(s), std::move(its_image));
    before[id].push_back(made);
    out.scales.push_back(made);
    return read(p(), t, point);
  }

  // Nothing moves where no statistic did; an empty state stays empty.
  void store(const Of& o, StatementId id, const Group& g, const ScalarRef& moved, const ScalarRef& factor) {
    const DType type = held_as(p(), o.s);
    const auto over = over_dims(o.s);
    std::vector<Index> point;
    for (const Index& i : o.s.at) point.push_back(substitute(p(), i, over));
    const ScalarRef itself = read(p(), o.s.out, point);
    std::set<TensorId> followed;
    std::map<TensorId, std::vector<Index>> where;
    auto note = [&](const ScalarRef& s) {
      for_each_access(s, [&](const Access& a) {
        if (!o.seen.statistics.count(a.tensor)) return;
        followed.insert(a.tensor);
        std::vector<Index>& at_dims = where[a.tensor];
        at_dims.clear();
        for (const Index& i : a.at) at_dims.push_back(substitute(p(), i, over));
      });
    };
    for (const auto& [a, power] : g.factors) note(o.atoms.value(a));
    for (const Monomial& m : g.exponent)
      for (const auto& [a, power] : m.factors) note(o.atoms.value(a));
    for (AtomId a : g.anchors) note(o.atoms.value(a));
    ScalarRef unmoved, empty, body = moved;
    for (TensorId t : followed) {
      const Statement& w = at(writer_of(t));
      const ScalarRef now = read(p(), t, where[t]), then = read(p(), kept(t, writer_of(t)), where[t]);
      const ScalarRef same = binary(Op::eq, now, then);
      unmoved = unmoved ? binary(Op::logical_and, unmoved, same) : same;
      const bool extreme = w.reducer == Reducer::max || w.reducer == Reducer::min;
      if (!extreme && !reads_nothing(w.body)) continue;
      const ScalarRef nothing = binary(Op::eq, then, number(extreme ? identity_of(w.reducer) : 0, then->dtype));
      empty = empty ? binary(Op::logical_or, empty, nothing) : nothing;
    }
    if (factor) {
      ScalarRef by = empty ? select(empty, number(0, type), factor) : factor;
      if (unmoved) by = select(unmoved, number(1, type), by);
      by = scale(o, id, by);
      body = select(binary(Op::eq, by, number(0, type)), number(0, type),
                    binary(Op::mul, itself, by)); // also where it is NaN
    } else {
      if (empty) body = select(empty, number(0, type), body);
      if (unmoved) body = select(unmoved, itself, body);
    }
    const StatementId map = add_map(o.s, std::vector<Index>(image(id)), o.s.out, body);
    before[id].push_back(map);
    for (Stream::State& st : out.state)
      if (st.reduction == id) {
        st.corrected = map, st.moved = moved;
        st.statistics.assign(followed.begin(), followed.end());
        st.anchor = std::any_of(followed.begin(), followed.end(), [&](TensorId t) { return chunked.count(t) > 0; })
                        ? Stream::Anchor::chunk
                        : Stream::Anchor::running;
      }
  }

  // ---- all of it

  void check_members(const Boundary& bound) {
    for (StatementId id : own) {
      const Statement& s = at(id);
      for (AxisId a : s.reduced)
        if (const Index& i = image(id)[static_cast<std::size_t>(a)];
            mentions_axis(i, out.axis) && plain_axis(i) != out.axis)
          throw Refused{fmt::format("{} reduces a window", name(s.out))};
      const bool stored = std::find(bound.outputs.begin(), bound.outputs.end(), s.out) != bound.outputs.end();
      if (!reduces(id) && stored && carries_any(id))
        throw Refused{fmt::format("{} keeps {} and needs statistics over it", name(s.out),
                                  out.region.names[static_cast<std::size_t>(out.axis)])};
    }
  }

  // What follows, or is followed, lives through the turns as it is held.
  void check_types() {
    std::set<TensorId> held;
    for (const Stream::State& st : out.state) {
      if (st.corrected >= 0) held.insert(st.tensor);
      held.insert(st.statistics.begin(), st.statistics.end());
    }
    for (const Stream::Kept& k : out.kept) held.insert(k.statistic);
    for (TensorId t : held)
      if (p().tensor(t).dtype != held_as(p(), at(writer_of(t))))
        throw Refused{
            fmt::format("{} is {}, and would be rounded in every turn", name(t), name_of(p().tensor(t).dtype))};
  }

  bool carries_any(StatementId id) {
    bool any = false;
    for_each_access(at(id), [&](const Access& a) { any = any || lineage->carries(at(id), a.tensor); });
    return any;
  }

  void order(const std::vector<StatementId>& list, std::set<StatementId>& done) {
    for (StatementId id : list) {
      if (!done.insert(id).second) continue;
      if (const auto b = before.find(id); b != before.end()) order(b->second, done);
      out.turn.push_back(id);
      if (const auto a = after.find(id); a != after.end()) order(a->second, done);
    }
  }

  void run() {
    const Boundary bound = boundary(p(), out.region);
    const std::vector<StatementId> members = out.region.statements;
    for (StatementId id : members) {
      if (!along(id)) continue;
      own.push_back(id);
      if (reduces(id)) reductions.insert(at(id).out);
    }
    for (StatementId id : own)
      if (reduces(id)) out.state.push_back({at(id).out, id, -1, nullptr, Stream::Anchor::none, {}});
    lineage = std::make_unique<Lineage>(p(), members, reductions);
    check_members(bound);
    std::vector<std::pair<ScalarRef, ScalarRef>> bodies;
    for (StatementId id : own) bodies.emplace_back(direct(id, at(id).body), direct(id, at(id).guard));
    for (std::size_t i = 0; i < own.size(); ++i) at(own[i]).body = bodies[i].first, at(own[i]).guard = bodies[i].second;
    lineage = std::make_unique<Lineage>(p(), out.region.statements, reductions);
    find_means();
    lineage = std::make_unique<Lineage>(p(), out.region.statements, reductions);
    for (std::size_t i = 0; i < out.state.size(); ++i) follow(out.state[i].reduction); // grows as derivatives are added
    check_types();
    std::set<StatementId> done;
    order(own, done);
    std::set<TensorId> looped;
    for (StatementId id : members) {
      bool behind = std::find(own.begin(), own.end(), id) != own.end();
      const bool in_turn = behind;
      for_each_access(at(id), [&](const Access& a) { behind = behind || looped.count(a.tensor) > 0; });
      if (behind) looped.insert(at(id).out);
      if (!in_turn) (behind ? out.finish : out.ahead).push_back(id);
    }
    std::sort(out.state.begin(), out.state.end(), [&](const Stream::State& a, const Stream::State& b) {
      return position(a.reduction) < position(b.reduction);
    });
    fix_boundary_again(bound);
  }

  std::ptrdiff_t position(StatementId id) const {
    return std::find(out.turn.begin(), out.turn.end(), id) - out.turn.begin();
  }

  void fix_boundary_again(Boundary bound) {
    for (StatementId id : out.region.statements) {
      const TensorId t = at(id).out;
      const auto known = [&](const std::vector<TensorId>& list) {
        return std::find(list.begin(), list.end(), t) != list.end();
      };
      if (!known(bound.inner) && !known(bound.outputs)) bound.inner.push_back(t);
    }
    out.region.bound = std::move(bound);
  }
};

} // namespace

const Stream::State* Stream::state_of(TensorId t) const {
  for (const State& s : state)
    if (s.tensor == t) return &s;
  return nullptr;
}

namespace {

// What a turn reads must be there by then: a tensor that is made behind the loop has no value for each turn.
std::string read_too_early(const Stream& s) {
  std::set<TensorId> behind;
  for (StatementId id : s.finish) behind.insert(s.program.statement(id)->out);
  std::string early;
  for (const auto* list : {&s.ahead, &s.turn})
    for (StatementId id : *list)
      for_each_access(*s.program.statement(id), [&](const Access& a) {
        if (early.empty() && behind.count(a.tensor))
          early = fmt::format("{} reads {}, which is known only behind the loop", s.program.tensor(s.program.statement(id)->out).name, s.program.tensor(a.tensor).name);
      });
  return early;
}

// Maps are looked through when a sum is corrected; a sum over another axis is not: what it makes of a statistic may not move.
std::string sum_of_what_moves(const Stream& s) {
  std::set<TensorId> moving;
  for (const Stream::State& state : s.state) moving.insert(state.tensor);
  for (const auto* list : {&s.ahead, &s.turn})
    for (StatementId id : *list) {
      const Statement& st = *s.program.statement(id);
      TensorId read = -1;
      for_each_access(st, [&](const Access& a) { read = moving.count(a.tensor) ? a.tensor : read; });
      if (read < 0 || std::any_of(s.state.begin(), s.state.end(), [&](const Stream::State& x) { return x.reduction == id; })) continue;
      if (!st.reduced.empty())
        return fmt::format("{} is reduced over another axis and reads {}, which moves from turn to turn", s.program.tensor(st.out).name, s.program.tensor(read).name);
      moving.insert(st.out);
    }
  return {};
}

} // namespace

Or<Stream> derive_stream(const Program& p, const Region& r, RegionAxis axis) {
  Deriver d(Stream{p, r, axis, {}, {}, {}, {}, {}, {}});
  try {
    d.run();
  } catch (const Refused& refused) {
    return refused;
  }
  if (std::string early = read_too_early(d.out); !early.empty()) return Refused{std::move(early)};
  if (std::string moves = sum_of_what_moves(d.out); !moves.empty()) return Refused{std::move(moves)};
  return std::move(d.out);
}

bool needs_stream(const Program& p, const Region& r, RegionAxis axis) {
  std::set<TensorId> early; // made of what is reduced over the axis
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    const bool along =
        std::any_of(r.image[i].begin(), r.image[i].end(), [&](const Index& x) { return mentions_axis(x, axis); });
    bool reads = false;
    for_each_access(s, [&](const Access& a) { reads = reads || early.count(a.tensor) > 0; });
    if (along && reads) return true;
    const bool reduces = std::any_of(s.reduced.begin(), s.reduced.end(), [&](AxisId a) {
      return mentions_axis(r.image[i][static_cast<std::size_t>(a)], axis);
    });
    if (reduces || reads) early.insert(s.out);
  }
  return false;
}

} // namespace tilewright
