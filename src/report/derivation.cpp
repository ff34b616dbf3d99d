#include "report/derivation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/text.h"
#include "report/table.h"

namespace tilewright {

DerivationReport derivation_report(std::string model, const Program& fixed, const Program& free, const Binding& sizes,
                                   const Machine& m) {
  DerivationReport out{std::move(model), m, derive(fixed, m), {}, {}, {}};
  out.checks = check(free, small_sizes(free, sizes), out.derivation);
  const Program& formed = *out.derivation.last().program;
  for (const Part& part : out.derivation.last().parts)
    if (const int loop = followed_loop(formed, part.region, part.schedule); loop >= 0)
      out.streams.push_back(
          *derive_stream(formed, part.region, part.schedule.steps[static_cast<std::size_t>(loop)].axis));
  for (const Part& part : out.derivation.last().parts) out.kernels.push_back(page_of(formed, part, m));
  return out;
}

namespace {

std::string bytes_of_memory(double bytes) { return bytes_text(static_cast<std::int64_t>(bytes)); }
std::string energy_text(double joules) {
  return joules < 1e-3 ? fmt::format("{:.3g} uJ", joules * 1e6) : fmt::format("{:.3g} mJ", joules * 1e3);
}

std::string statements_of(const Program& p) {
  std::string text;
  for (const auto& node : p.nodes)
    if (const auto* s = std::get_if<Statement>(&node))
      text += "  " + print(p, *s) + "\n";
    else
      text += "  opaque " + std::get<Opaque>(node).op + "\n";
  return text;
}

std::string moves(const DerivationReport& r) {
  std::string out = "\nmoves: H is what is moved in the whole run, M what the fullest kernel holds, in values\n";
  for (std::size_t i = 0; i < r.derivation.moves.size(); ++i) {
    const Move& m = r.derivation.moves[i];
    out += fmt::format("  {}. {}: {}\n", i + 1, m.name, m.does);
    out += fmt::format("     H = {} = {}\n", m.values.moved.text(), number_text(m.values.moved_at));
    out += fmt::format("     M = {} = {}\n", m.values.held.text(), number_text(m.values.held_at));
    const Checked& c = r.checks[i];
    out += c.not_checked.empty() ? fmt::format("     equal to the program as written at small sizes: largest "
                                               "difference {:.1e} of the largest value\n",
                                               c.difference)
                                 : fmt::format("     not checked: {}\n", c.not_checked);
  }
  return out;
}

std::string closed(const KernelPage& k) {
  if (!k.values) return fmt::format("  no closed form: {}\n", k.values.reason());
  std::string out = "  best tiles for a memory of M values\n";
  for (const Regime& r : k.values->regimes) {
    std::string sizes;
    for (const auto& [symbol, size] : r.sizes) sizes += (sizes.empty() ? "" : ", ") + symbol + " = " + size.text();
    const std::string range = r.to > 0 && std::isfinite(r.to)
                                  ? fmt::format("M from {} to {}", number_text(std::ceil(r.from)), number_text(r.to))
                                  : fmt::format("M from {} on", number_text(std::ceil(r.from)));
    out += fmt::format("    {}: H* = {}{}\n", range, r.moved.text(), sizes.empty() ? "" : "   at " + sizes);
  }
  if (k.beta > 0)
    out += fmt::format("  beta = {:.3g}: twice the memory moves {:.2f} times less of it; values of half the width are "
                       "moved {:.2f} times faster\n",
                       k.beta, std::pow(2, k.beta), speedup_of_halving(k.beta));
  return out;
}

std::string levels(const KernelPage& k) {
  std::vector<std::vector<std::string>> rows{{"into", "holds", "moved", "takes", "energy"}};
  for (const LevelLine& l : k.levels)
    rows.push_back(
        {l.name, bytes_of_memory(l.memory), bytes_of_memory(l.moved), time_text(l.seconds), energy_text(l.joules)});
  if (k.compute_seconds > 0)
    rows.push_back({"operations", "", number_text(k.flow.flops.at(k.flow.point)), time_text(k.compute_seconds),
                    energy_text(k.compute_joules)});
  std::string out = table(rows, "lrrrr", "  ");
  if (k.cluster.children > 1)
    out += fmt::format("  clusters of {} blocks that exchange what they load save {} of the transfers into scratch\n",
                       k.cluster.children, time_text(k.cluster.saving));
  if (!k.levels.empty() && !k.levels[0].smooth) out += "  moved: at the chosen tiles, for every level\n";
  return out;
}

std::string thresholds(const KernelPage& k) {
  if (!k.roofline) return "";
  const Roofline& r = *k.roofline;
  std::string out = fmt::format("  bound by {}: H*/K = {:.3g} bytes an operation, the machine has {:.3g}\n",
                                r.transfers ? "transfers into scratch" : "operations", r.ratio, r.rho);
  out += r.memory ? fmt::format("    operations bind from a memory of {} on\n", bytes_of_memory(std::ceil(*r.memory)))
                  : "    no memory is large enough for operations to bind\n";
  for (const auto& [axis, n] : r.flips)
    out += fmt::format("    it flips at {} = {}, the other sizes as they are\n", axis, number_text(std::ceil(n)));
  for (const Threshold& t : r.terms) {
    std::string needs = t.memory ? "M from " + bytes_of_memory(std::ceil(*t.memory)) + " on" : "";
    for (const auto& [axis, n] : t.axes)
      needs += fmt::format("{}{} from {} on", needs.empty() ? "" : ", or ", axis, number_text(std::ceil(n)));
    if (!needs.empty()) out += fmt::format("    the part {} alone needs {}\n", t.term.text(), needs);
  }
  return out;
}

std::string divisors_text(const KernelPage& k) {
  std::string out;
  for (std::size_t a = 0; a < k.divisors.axes.size(); ++a)
    if (!k.divisors.axes[a].empty())
      out += fmt::format("    {}^({}): {}\n", k.part.region.names[a], k.divisors.granule(static_cast<RegionAxis>(a)),
                         k.divisors.causes(static_cast<RegionAxis>(a)));
  return out.empty() ? "" : "  multiples, with their causes\n" + out;
}

std::string variables(const KernelPage& k) {
  std::vector<std::vector<std::string>> rows{{"variable", "values", "type", "in", "of", "copies", "bytes", "alive"}};
  for (const Held& h : k.configuration.values)
    rows.push_back({h.name, h.size.text(), std::string(name_of(h.type)), h.scratch ? "scratch" : "registers",
                    h.block ? "block" : "warpgroup", std::to_string(h.copies), bytes_of_memory(h.bytes), h.lifetime});
  return fmt::format("  variables, {} rows a warpgroup\n", k.setup.rows) + table(rows, "llllllrl", "    ");
}

std::string hardware(const KernelPage& k, const Machine& m) {
  if (m.target != Target::cuda) return "";
  const Configuration& c = k.configuration;
  std::string out = variables(k);
  out += fmt::format("    scratch {} a block + {} a warpgroup; registers {} a warpgroup\n",
                     bytes_of_memory(c.scratch_block), bytes_of_memory(c.scratch_group),
                     bytes_of_memory(c.registers_group));
  if (std::isfinite(c.by_scratch) || std::isfinite(c.by_registers))
    out += fmt::format("    warpgroups that fit: {} by scratch, {} by registers: {} of {} rows\n",
                       std::isfinite(c.by_scratch) ? fmt::format("{:.2f}", c.by_scratch) : "any",
                       std::isfinite(c.by_registers) ? fmt::format("{:.2f}", c.by_registers) : "any", c.groups,
                       k.setup.rows);
  if (k.budget.lines.empty()) return out;
  std::vector<std::vector<std::string>> rows{{"clocks a row and turn", "pipe", "operations", "a clock", "clocks"}};
  for (const Clock& l : k.budget.lines)
    rows.push_back({l.what, std::string(name_of(l.pipe)), number_text(l.operations), number_text(l.per_clock),
                    fmt::format("{:.3f}", l.clocks)});
  out += table(rows, "llrrr", "  ");
  if (k.budget.turn_bytes > 0)
    out += fmt::format("  a turn brings {} into each multiprocessor: {} from memory; tiles from {} rows on are bound "
                       "by the contractions\n",
                       bytes_of_memory(k.budget.turn_bytes), time_text(k.budget.seconds_moving),
                       number_text(std::ceil(k.budget.rows_to_balance)));
  if (k.budget.ideal > 0) out += fmt::format("  the contractions alone: {:.4g} TFLOP/s\n", k.budget.ideal / 1e12);
  return out;
}

// A row of characters a lane, the letter of a phase for as long as it takes.
std::string pipeline(const KernelPage& k) {
  if (k.timeline.slots.empty() || k.phases.size() < 2) return "";
  const double unit = k.timeline.interval / 36, until = 2.6 * k.timeline.interval;
  std::string out = fmt::format("  {} warpgroup{} in turns, {:.2f} clocks a row and turn of {}\n", k.lanes,
                                k.lanes > 1 ? "s" : "", k.timeline.interval / k.lanes, k.lanes > 1 ? "each" : "it");
  for (int lane = 0; lane < k.lanes; ++lane) {
    std::string line(static_cast<std::size_t>(until / unit) + 1, '.');
    for (const Slot& s : k.timeline.slots) {
      if (s.lane != lane || s.start >= until) continue;
      const auto from = static_cast<std::size_t>(std::lround(s.start / unit)),
                 to = std::min(line.size(), static_cast<std::size_t>(std::lround(std::min(s.end, until) / unit)));
      for (std::size_t i = from; i < to; ++i) line[i] = static_cast<char>('A' + s.phase % 26);
    }
    out += fmt::format("    {}  {}\n", lane, line);
  }
  for (std::size_t i = 0; i < k.phases.size(); ++i)
    out += fmt::format("    {} {}, on the {} pipe: {:.2f} clocks\n", static_cast<char>('A' + i % 26), k.phases[i].what,
                       k.pipes[static_cast<std::size_t>(k.phases[i].pipe)], k.phases[i].length);
  for (std::size_t i = 0; i < k.pipes.size(); ++i)
    out += fmt::format("    {} pipe busy {:.0f}%\n", k.pipes[i], 100 * k.timeline.busy[i]);
  return out;
}

std::string tiles(const KernelPage& k) {
  if (!k.tiles) return "";
  std::vector<std::vector<std::string>> rows{{"tile", "warpgroups", "operand", "scratch", "registers", "bound by"}};
  for (std::size_t i = 0; i < std::min<std::size_t>(3, k.tiles->size()); ++i) {
    const TileChoice& t = (*k.tiles)[i];
    rows.push_back({fmt::format("{} x {}", t.rows, t.chunk), std::to_string(t.groups),
                    t.in_registers ? "registers" : "scratch", bytes_of_memory(static_cast<double>(t.scratch)),
                    std::to_string(t.registers), t.bound});
  }
  return "  tiles of rows and chunk that suit it best\n" + table(rows, "lrlrrl", "    ");
}

std::string kernel(const KernelPage& k, const DerivationReport& r) {
  std::string out = fmt::format("\nkernel {}: {}\n", k.part.name, text(k.part.region, k.part.schedule));
  for (const std::string& s : k.statements) out += "  " + s + "\n";
  out +=
      fmt::format("  H = {}\n  of one tile: {}\n", k.flow.run(Count::values).text(), k.flow.tile(Count::values).text());
  const Formula early = k.columns.peak(Count::values), late = k.late.peak(Count::values);
  out += fmt::format("  M = {} = {}, in column c{}{}\n", early.text(), number_text(early.at(k.columns.point)),
                     k.columns.widest(Count::values),
                     early == late ? "" : fmt::format("; with operands loaded late {}", late.text()));
  if (!k.flow.flops.is_zero()) out += fmt::format("  K = {} operations of contractions\n", k.flow.flops.text());
  if (k.live && k.live->condition)
    out += fmt::format(
        "  turns with any point: {} of {}{}\n", number_text(static_cast<double>(k.live->alive)),
        number_text(static_cast<double>(k.live->turns)),
        k.live->extent
            ? fmt::format(
                  "; a tile sees {} of the stream; without the others H = {}", k.live->extent->text(),
                  flow_alive(*r.derivation.last().program, k.part.region, k.part.schedule).run(Count::values).text())
            : "");
  out += closed(k);
  out += k.part.full.empty() ? fmt::format("  on {}: {} moves {}\n", r.machine.name,
                                           text(k.part.region, k.part.schedule), bytes_of_memory(k.part.moved))
                             : fmt::format("  on {}: {}\n", r.machine.name, k.part.full);
  out += levels(k) + thresholds(k) + "  pseudo-code, with what is alive behind each column\n";
  std::string code = print(k.columns);
  for (std::size_t at = 0; at < code.size(); at = code.find('\n', at) + 1)
    out += "    " + code.substr(at, code.find('\n', at) + 1 - at);
  return out + divisors_text(k) + hardware(k, r.machine) + pipeline(k) + tiles(k);
}

} // namespace

std::string text(const DerivationReport& r) {
  const Program& normal = *r.derivation.moves.front().program;
  const Program& formed = *r.derivation.last().program;
  std::string out = fmt::format("the program, in normal form\n{}", statements_of(normal));
  if (!same(normal, formed))
    out += fmt::format("\nfactors of statistics taken out of the sums\n{}", statements_of(formed));
  for (const Stream& s : r.streams) out += "\n" + print(s);
  for (const StreamRefusal& x : r.derivation.refused)
    out += fmt::format("\nno stream for {} over {}: {}\n", x.tensor, x.axis, x.reason);
  if (r.streams.empty() && r.derivation.refused.empty())
    out += "\nno reduction reads a statistic over its own elements: every stream is plain\n";
  out += moves(r);
  for (const KernelPage& k : r.kernels) out += kernel(k, r);
  return out;
}

} // namespace tilewright
