// The tool: one sub-command a file, all of them thin over the library.
#include <fmt/format.h>

#include <iostream>
#include <new>
#include <sstream>

#include "cli/commands.h"
#include "cli/console.h"
#include "report/json.h"

using namespace tilewright;

namespace {

int dispatch(const Arguments& arguments) {
  struct Run {
    int operator()(const RunArguments& a) const { return run_command(a); }
    int operator()(const PlanArguments& a) const { return plan_command(a); }
    int operator()(const ExplainArguments& a) const { return explain_command(a); }
    int operator()(const DeriveArguments& a) const { return derive_command(a); }
    int operator()(const EmitArguments& a) const { return emit_command(a); }
    int operator()(const VerifyArguments& a) const { return verify_command(a); }
    int operator()(const BenchArguments& a) const { return bench_command(a); }
    int operator()(const CacheArguments& a) const { return cache_command(a); }
    int operator()(const DeviceOptions& a) const {
      std::ostringstream text;
      const int code = device_command(a, text);
      write_result(text.str());
      return code;
    }
  };
  return std::visit(Run(), arguments);
}

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

int report(const Error& error, bool json) {
  if (error.code == Code::interrupted) {
    std::cerr << "interrupted\n";
    return 130;
  }
  std::cerr << "error " << id_of(error.code) << (error.where.empty() ? "" : " ") << error.where << ": " << error.message
            << "\n";
  if (!error.hint.empty()) std::cerr << "  hint: " << error.hint << "\n";
  try {
    if (json) write_result("{\"error\": " + error_json(error) + "}\n");
  } catch (...) { // the exit code still tells
  }
  return static_cast<int>(kind_of(error.code));
}

int guarded(int argc, char** argv) {
  std::string text;
  const auto arguments = parse_arguments(argc, argv, text);
  if (!arguments) {
    write_result(text);
    return 0;
  }
  return dispatch(*arguments);
}

} // namespace

int main(int argc, char** argv) {
  catch_signals();
  const bool json = wants_json(argc, argv);
  try {
    return guarded(argc, argv);
  } catch (const ClosedPipe&) {
    return 0;
  } catch (const Error& error) {
    return report(error, json);
  } catch (const std::bad_alloc&) {
    return report(Error(Code::memory, "", "there is not enough memory", "smaller sizes need less"), json);
  } catch (const std::exception& other) {
    return report(Error(Code::internal, "", other.what(), "this is a mistake in tilewright; please report it"), json);
  }
}
