// tilewright derive: from a program to streamed kernels, move by move, and what the models say of each; or which term
// forbids it.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/inputs.h"
#include "expr/sizes.h"
#include "report/diagram.h"

namespace tilewright {

namespace {

// The program before its sizes were fixed, and their values.
Program free_program(const Common& c) {
  OpenOptions o = c.open;
  o.open_weights = false;
  return load_program(c.model, o);
}

Binding values_of_sizes(const Program& fixed) {
  Binding out;
  for (const SizeDecl& s : fixed.sizes)
    if (s.value && s.value->is_constant()) out[s.name] = s.value->constant();
  return out;
}

} // namespace

namespace {

void draw(const DeriveArguments& a, const DerivationReport& r) {
  std::error_code failed;
  std::filesystem::create_directories(a.svg, failed);
  for (const DrawnFile& f : diagrams(r)) {
    const std::string path = (std::filesystem::path(a.svg) / f.name).string();
    std::ofstream out(path, std::ios::binary);
    out << f.drawing.svg(f.title) << std::flush;
    if (!out)
      throw Error(Code::file, path, "cannot be written", "--svg takes a folder that can be made or written into");
    note(a, "drawn " + path);
  }
}

} // namespace

int derive_command(const DeriveArguments& a) {
  const Opened m = open_to_plan(a, false);
  const std::string machine = a.open.session.machine.empty() ? "h100" : a.open.session.machine;
  const DerivationReport r =
      derivation_report(a.model, m.program, free_program(a), values_of_sizes(m.program), machine_named(machine));
  if (!a.svg.empty()) draw(a, r);
  if (a.json)
    write_result(derivation_json(r, 2) + "\n");
  else
    write_result(text(r));
  suggest(a, fmt::format("tilewright plan {}", a.model));
  return 0;
}

} // namespace tilewright
