#include "target/cuda/compiler.h"

#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "target/cuda/library.h"

namespace tilewright::cuda {

namespace {

constexpr const char* options[] = {"--std=c++17", "--ptxas-options=-v", "--disable-warnings", "--no-cache"};

struct Compiler {
  int (*version)(int*, int*);
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
  int (*code_size)(void*, std::size_t*);
  int (*code)(void*, char*);
  int (*destroy)(void**);
};

const Library& compiler_library() {
  static const Library lib([] {
    std::vector<std::string> names;
    if (const char* given = std::getenv("TILEWRIGHT_NVRTC")) names.emplace_back(given);
    std::vector<std::string> folders = {""};
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* home = std::getenv(variable)) folders.push_back(std::string(home) + "/lib64/");
    folders.emplace_back("/usr/local/cuda/lib64/");
    for (const std::string& f : folders)
      for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) names.push_back(f + n);
    return names;
  }());
  return lib;
}

const Compiler& compiler() {
  static const Compiler made = [] {
    const Library& lib = compiler_library();
    if (!lib.found())
      throw Error(Code::device, "", "no run-time compiler on this machine (libnvrtc.so)",
                  "install CUDA or the nvidia-cuda-nvrtc package, or set TILEWRIGHT_NVRTC");
    Compiler c{};
    lib.get(c.version, "nvrtcVersion");
    lib.get(c.create, "nvrtcCreateProgram");
    lib.get(c.compile, "nvrtcCompileProgram");
    lib.get(c.log_size, "nvrtcGetProgramLogSize");
    lib.get(c.log, "nvrtcGetProgramLog");
    lib.get(c.code_size, "nvrtcGetCUBINSize");
    lib.get(c.code, "nvrtcGetCUBIN");
    lib.get(c.destroy, "nvrtcDestroyProgram");
    return c;
  }();
  return made;
}

// The number in front of `words` in the assembler's report, or -1.
int number_before(const std::string& log, const std::string& words) {
  const auto at = log.find(words);
  if (at == std::string::npos) return -1;
  auto from = at;
  while (from > 0 && std::isdigit(static_cast<unsigned char>(log[from - 1]))) --from;
  return from == at ? -1 : std::atoi(log.substr(from, at - from).c_str());
}

} // namespace

bool compiler_found() { return compiler_library().found(); }

std::string compiler_version() {
  int major = 0, minor = 0;
  compiler().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string compiler_options() { return fmt::format("{}", fmt::join(options, " ")); }

Compiled compile(std::string_view source, const std::string& name, const std::string& arch) {
  const Compiler& c = compiler();
  void* program = nullptr;
  if (c.create(&program, std::string(source).c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr) != 0)
    throw Error(Code::device, name, "the run-time compiler could not be started");
  const std::string target = "--gpu-architecture=" + arch;
  std::vector<const char*> given = {target.c_str()};
  given.insert(given.end(), std::begin(options), std::end(options));
  const int failed = c.compile(program, static_cast<int>(given.size()), given.data());
  Compiled out;
  std::size_t size = 0;
  c.log_size(program, &size);
  out.log.resize(size);
  c.log(program, out.log.data());
  if (failed == 0) {
    c.code_size(program, &size);
    out.code.resize(size);
    c.code(program, out.code.data());
  }
  c.destroy(&program);
  if (failed != 0) throw Error(Code::internal, name, "the generated kernel does not compile: " + out.log);
  out.registers = number_before(out.log, " registers");
  out.stack = number_before(out.log, " bytes stack frame");
  out.spills = number_before(out.log, " bytes spill stores");
  return out;
}

} // namespace tilewright::cuda
