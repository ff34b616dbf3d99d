#include "cli/arguments.h"

#include "runtime/sparse_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <CLI/CLI.hpp>

namespace tilewright {

namespace {

constexpr const char* footer =
    R"(Exit codes: 0 fine, 1 a check failed, 2 usage (command line, files, programs with errors),
3 unsupported model, 4 device or toolchain missing, 5 our own fault, 130 interrupted.)";

// What was typed, before it is looked at.
struct Typed {
  std::vector<std::string> sizes, without, sparse;
  std::string objective = "time", fuse, constraints = "own", cost = "exact";
};

void add_common(CLI::App& app, Common& c, Typed& typed) {
  app.add_option("MODEL", c.model, "an .onnx model or a .tw program")->required();
  app.add_option("--device", c.device, "where to run: cpu, cuda, or cuda:N for one of several GPUs")->capture_default_str();
  app.add_option("--size", typed.sizes, "fix a free size: NAME=VALUE; may be repeated")->allow_extra_args(false);
  app.add_option("--threads", c.open.session.threads, "0: as many as there are cores")->check(CLI::Range(0, 1024));
  app.add_option("--isa", c.open.session.isa, "vector instructions: base, avx2, avx512, neon; default: the best here");
  app.add_option("--program", c.open.program, "of a .tw file that holds several; default: the first");
  app.add_option("--without", typed.without, "leave out a pass, by name; may be repeated")->allow_extra_args(false);
  app.add_option("--objective", typed.objective, "what kernels and tiles are chosen by: time or bytes")
      ->check(CLI::IsMember({"time", "bytes"}))
      ->capture_default_str();
  app.add_option("--joined", c.open.session.rules.joined, "layers in one kernel at most; default: 4")->check(CLI::Range(1, 12));
  app.add_option("--margin", c.open.session.rules.margin, "share of the predicted time that joining must save; default: 0.08")
      ->check(CLI::Range(0.0, 0.99));
  app.add_option("--redundancy", c.open.session.rules.redundancy,
                 "by bytes: operations that may be computed again for each byte saved; default: 10")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--constraints", typed.constraints, "by bytes: paper: pairs only, operands held whole; or own")
      ->check(CLI::IsMember({"own", "paper"}))
      ->capture_default_str();
  app.add_option("--cost", typed.cost, "by bytes: exact, or paper: its equations, for comparison")
      ->check(CLI::IsMember({"exact", "paper"}))
      ->capture_default_str();
  app.add_option("--fuse", typed.fuse, "kernels of several reductions, where they pay: on (the default) or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--sparse", typed.sparse,
                 "a tensor that is mostly zeros: NAME=zeros[:RxC][@SHARE], NAME=mask:M, NAME=lengths:L; or auto; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--strict-ieee", c.open.session.strict, "0 * inf is no number: zeros are not skipped where that could show");
  app.add_flag("--json", c.json, "results as JSON, and nothing else, on standard output");
  app.add_flag("--quiet", c.quiet, "no notes on standard error");
}

void add_timing(CLI::App& app, Common& c) {
  app.add_option("--warmup", c.warmup, "runs before those that are measured")->check(CLI::Range(0, 1000000));
  app.add_option("--iterations", c.iterations, "runs that are measured")->check(CLI::Range(1, 100000000));
}

void add_inputs(CLI::App& app, InputArguments& in) {
  app.add_option("--input", in.inputs,
                 "NAME=FILE.npy, NAME=FILE.png or NAME=random[:SEED[:LOW:HIGH]]; default: random; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--mean", in.mean, "of images: (pixel/255 - mean) / std; one value, or one a channel: 0.5,0.4,0.4")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--std", in.deviation, "of images")->delimiter(',')->allow_extra_args(false);
  app.add_option("--layout", in.layout, "of images: nchw or nhwc; default: what the input's shape suggests")
      ->check(CLI::IsMember({"nchw", "nhwc"}));
}

void add_plan(CLI::App& app, Common& c) {
  app.add_option("--plan", c.open.session.plan, "follow a plan that `tilewright plan -o FILE` wrote, perhaps edited since");
}

void add_python(CLI::App& app, std::string& python) {
  app.add_option("--python", python, "the Python in which onnxruntime is installed; default: the active one");
}

// NAME=VALUE at the last '=', since names may hold one.
void take_sizes(Common& c, const Typed& typed) {
  for (const std::string& text : typed.sizes) {
    const std::size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0)
      throw Error(Code::option, "--size", fmt::format("is '{}', must be NAME=VALUE", text));
    const auto [name, value] = parse_size("--size " + text.substr(0, at), text.substr(at + 1));
    const auto [old, fresh] = c.open.session.sizes.emplace(text.substr(0, at), value);
    if (!fresh && old->second != value)
      throw Error(Code::option, "--size", fmt::format("{} is given twice: {} and {}", old->first, old->second, value));
  }
  for (const std::string& text : typed.sparse) {
    const std::size_t at = text.find("=");
    if (text == "auto") {
      c.open.session.recognise = true;
      continue;
    }
    if (at == std::string::npos || at == 0)
      throw Error(Code::option, "--sparse", fmt::format("is '{}', must be NAME=zeros, NAME=mask:M, NAME=lengths:L or auto", text));
    static_cast<void>(parse_sparse(text.substr(0, at), text.substr(at + 1)));
    c.open.session.sparse[text.substr(0, at)] = text.substr(at + 1);
  }
  c.open.session.without = typed.without;
  c.open.session.objective = typed.objective == "bytes" ? Objective::bytes : Objective::time;
  if (!typed.fuse.empty()) c.open.session.fuse = typed.fuse == "on";
  c.open.session.rules.paper_constraints = typed.constraints == "paper";
  c.open.session.rules.paper_cost = typed.cost == "paper";
  if (typed.objective != "bytes" && (typed.constraints == "paper" || typed.cost == "paper"))
    throw Error(Code::option, typed.cost == "paper" ? "--cost" : "--constraints", "paper counts bytes",
                "add --objective bytes");
  if (!c.open.session.isa.empty()) static_cast<void>(parse_isa(c.open.session.isa));
  parse_device(c.device, "--device");
  c.open.session.device = c.device;
}

struct Parser {
  CLI::App app{"tilewright: fused kernels for tensor programs, planned by a model of what moves"};
  Typed typed;
  RunArguments run;
  PlanArguments plan;
  ExplainArguments explain;
  DeriveArguments derive;
  EmitArguments emit;
  VerifyArguments verify;
  BenchArguments bench;
  CacheArguments cache;
  DeviceOptions device;

  CLI::App* command(const char* name, const char* does) {
    CLI::App* sub = app.add_subcommand(name, does);
    sub->footer(footer);
    return sub;
  }

  void declare() {
    app.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
    app.require_subcommand(1);
    app.footer(footer);
    CLI::App* sub = command("run", "Run a model: outputs, and the time it takes");
    add_common(*sub, run, typed), add_timing(*sub, run), add_inputs(*sub, run.in);
    sub->add_option("--output", run.output, "write each output to FOLDER/NAME.npy");
    add_plan(*sub, run);
    sub = command("plan", "Show the kernels: what is folded, their tiles, bytes and predicted times");
    add_common(*sub, plan, typed);
    sub->add_option("--machine", plan.open.session.machine, "plan for a shipped machine (h200, ...), a file, or cpu");
    sub->add_option("-o,--output", plan.output, "write the plan as JSON");
    add_plan(*sub, plan);
    sub = command("explain", "Say why: roles, laws, refusals, loops and leaves of each kernel");
    add_common(*sub, explain, typed);
    sub->add_option("--machine", explain.open.session.machine,
                    "plan for a shipped machine (h200, ...), a file, or cpu");
    add_plan(*sub, explain);
    sub->add_option("--kernel", explain.kernel, "number or part of a name; default: all");
    sub = command("derive", "Derive streamed kernels move by move: streams, closed forms, thresholds, pseudo-code, hardware");
    add_common(*sub, derive, typed);
    sub->add_option("--machine", derive.open.session.machine, "for a shipped machine, a file, or cpu; default: h100");
    sub->add_option("--svg", derive.svg, "draw each move and each kernel into this folder");
    sub = command("emit", "Print the source of each kernel for a GPU");
    add_common(*sub, emit, typed);
    sub->add_option("--target", emit.target, "what language: cuda")->check(CLI::IsMember({"cuda"}))->capture_default_str();
    sub->add_option("--arch", emit.arch, "for the shipped machine of an architecture: sm_90a, ...");
    sub->add_option("--machine", emit.open.session.machine, "for a shipped machine, or a file; default: h200");
    sub->add_option("--kernel", emit.kernel, "number or part of a name; default: all");
    sub = command("verify", "Compare with the reference, or with ONNX Runtime");
    add_common(*sub, verify, typed), add_inputs(*sub, verify.in), add_python(*sub, verify.python);
    sub->add_option("--against", verify.against, "reference (our evaluator) or onnxruntime")
        ->check(CLI::IsMember({"reference", "onnxruntime"}))
        ->capture_default_str();
    sub->add_option("--tolerance", verify.tolerance, "norm of the difference over norm; default: by the type")
        ->check(CLI::NonNegativeNumber);
    add_plan(*sub, verify);
    sub->add_flag("--bisect", verify.bisect, "find the first pass or kernel that differs");
    sub = command("bench", "Measure latency, and each kernel against its prediction");
    add_common(*sub, bench, typed), add_timing(*sub, bench), add_inputs(*sub, bench.in), add_python(*sub, bench.python);
    add_plan(*sub, bench);
    sub->add_option("--vs", bench.versus, "alternate with a peer: onnxruntime, or layerwise (ours, one reduction a kernel)")
        ->check(CLI::IsMember({"onnxruntime", "layerwise"}));
    sub = command("cache", "Show or remove what is kept on disk between runs");
    sub->add_option("ACTION", cache.action, "ls: each file; stat: how much of each kind; clear: remove all of it")
        ->check(CLI::IsMember({"ls", "stat", "clear"}))
        ->required();
    sub->add_flag("--json", cache.json, "results as JSON, and nothing else, on standard output");
    sub = command("device", "Show this machine, as the planner sees it");
    sub->add_flag("--calibrate", device.calibrate, "measure this CPU and keep the figures");
    sub->add_option("--threads", device.threads, "the CPU as so many threads see it")->check(CLI::Range(0, 1024));
    sub->add_flag("--json", device.json, "results as JSON, and nothing else, on standard output");
    sub->add_flag("--quiet", device.quiet, "no notes on standard error");
  }

  Arguments chosen() {
    const std::string name = app.get_subcommands().front()->get_name();
    if (name == "device") return device;
    if (name == "cache") return cache;
    if (name == "run") return finished(run);
    if (name == "plan") return finished(plan);
    if (name == "explain") return finished(explain);
    if (name == "derive") return finished(derive);
    if (name == "emit") return finished(emit);
    if (name == "verify") return finished(verify);
    return finished(bench);
  }

  template <class T> T finished(T& arguments) {
    take_sizes(arguments, typed);
    return arguments;
  }

  std::string help() const {
    const auto chosen = app.get_subcommands();
    return (chosen.empty() ? &app : chosen.front())->help();
  }
};

} // namespace

std::optional<Arguments> parse_arguments(int argc, const char* const* argv, std::string& text) {
  Parser parser;
  parser.declare();
  constexpr const char* commands[] = {"run", "plan", "explain", "derive", "emit", "verify", "bench", "device", "cache"};
  const auto known = [&](const std::string& word) {
    return std::find(std::begin(commands), std::end(commands), word) != std::end(commands);
  };
  const std::string first = argc < 2 ? "" : argv[1];
  constexpr const char* later[] = {"report"};
  if (std::find(std::begin(later), std::end(later), first) != std::end(later))
    throw Error(Code::unsupported, first, "the command is not in this version", "run, plan, explain, derive, emit, verify, bench, device or cache");
  if (first.empty() || (first[0] != '-' && !known(first))) {
    throw Error(Code::option, "",
                first.empty() ? "no command is given" : fmt::format("there is no command '{}'", first),
                "run, plan, explain, derive, emit, verify, bench, device or cache; --help tells more");
  }
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    text = parser.help();
    return {};
  } catch (const CLI::CallForAllHelp&) {
    text = parser.help();
    return {};
  } catch (const CLI::CallForVersion& version) {
    text = std::string(version.what()) + "\n";
    return {};
  } catch (const CLI::ParseError& error) {
    const auto sub = parser.app.get_subcommands();
    throw Error(
        Code::option, "", error.what(),
        fmt::format("tilewright {}--help lists what there is", sub.empty() ? "" : sub.front()->get_name() + " "));
  }
  return parser.chosen();
}

} // namespace tilewright
