#include "target/cuda/emulator/compile.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "target/cuda/emulator/translate.h"
#include "target/cuda/source.h"

namespace tilewright::emulated {

namespace {

// -O1: the accesses that are left are those of memory; what stays in registers is not looked at.
constexpr const char* flags = "-std=c++17 -O1 -fPIC -w -Wno-psabi -fno-strict-aliasing -ffp-contract=off -fno-math-errno -fsanitize=thread --param=tsan-instrument-func-entry-exit=0";

void shell(const std::string& command, const std::string& log) {
  if (std::system((command + " > " + log + " 2>&1").c_str()) == 0) return;
  std::stringstream words;
  words << std::ifstream(log).rdbuf();
  throw std::runtime_error(command + "\n" + words.str().substr(0, 4000));
}

}  // namespace

void make_header(const std::string& folder) {
  const std::string header = folder + "/all.h";
  std::ofstream(header) << "#include \"" << TILEWRIGHT_SOURCE_DIR << "/tests/target/cuda/emulator/prelude.h\"\n" << without_assembly(std::string(cuda::primitives()));
  shell(fmt::format("{} {} -x c++-header {} -o {}.gch", TILEWRIGHT_HOST_COMPILER, flags, header, header), folder + "/log");
}

void make_module(const std::string& folder, const std::string& base) {
  shell(fmt::format("{0} {1} -include {2}/all.h -c {3}.cpp -o {3}.o && {0} -shared {3}.o {4} -o {3}.so", TILEWRIGHT_HOST_COMPILER, flags, folder, base, TILEWRIGHT_EMULATOR), base + ".log");
}

}  // namespace tilewright::emulated
