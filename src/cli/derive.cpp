// tilewright derive: how the reductions of a program follow each other in one loop, or which term forbids it.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "expr/text.h"
#include "law/cascades.h"
#include "law/stream_forms.h"
#include "normal/normal.h"
#include "report/json.h"

namespace tilewright {

namespace {

std::string statements_of(const Program& p) {
  std::string text;
  for (const auto& node : p.nodes)
    if (const auto* s = std::get_if<Statement>(&node)) text += "  " + print(p, *s) + "\n";
    else text += "  opaque " + std::get<Opaque>(node).op + "\n";
  return text;
}

} // namespace

int derive_command(const DeriveArguments& a) {
  const Opened m = open_to_plan(a);
  const Program normal = normalise(fix_sizes(m.program, m.options.sizes), m.options.without);
  std::vector<StreamRefusal> refusals;
  const Program formed = stream_forms(normal, &refusals);
  std::vector<Stream> streams;
  for (const Cascade& c : cascades(formed)) streams.push_back(*derive_stream(formed, c.region, c.axis));
  if (a.json) {
    write_result(streams_json(formed, streams, refusals, 2) + "\n");
    return 0;
  }
  std::string text = fmt::format("the program, in normal form\n{}", statements_of(normal));
  if (!same(normal, formed)) text += fmt::format("\nfactors of statistics taken out of the sums\n{}", statements_of(formed));
  for (const Stream& s : streams) text += "\n" + print(s);
  for (const StreamRefusal& r : refusals) text += fmt::format("\nno stream for {} over {}: {}\n", r.tensor, r.axis, r.reason);
  if (streams.empty() && refusals.empty()) text += "\nno reduction reads a statistic over its own elements: every stream is plain\n";
  write_result(text);
  suggest(a, fmt::format("tilewright plan {}", a.model));
  return 0;
}

} // namespace tilewright
