#include "target/cuda/emulator/translate.h"

#include <cctype>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

namespace tilewright::emulated {

namespace {

// An assembly statement: its instructions, and the expressions of its operands, results first.
struct Assembly {
  std::string instructions;
  std::vector<std::string> operands;
};

struct Reader {
  const std::string& text;
  std::size_t at;

  void spaces() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  }
  bool take(const std::string& word) {
    spaces();
    if (text.compare(at, word.size(), word) != 0) return false;
    at += word.size();
    return true;
  }
  std::string string() {
    std::string out;
    for (++at; text[at] != '"'; ++at) out += text[at];
    ++at;
    return out;
  }
  // What stands between parentheses.
  std::string enclosed() {
    const std::size_t from = ++at;
    for (int depth = 1; depth > 0; ++at) depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    return text.substr(from, at - 1 - from);
  }
  Assembly assembly() {
    Assembly a;
    take("volatile");
    if (!take("(")) throw std::runtime_error("assembly without parentheses");
    for (spaces(); text[at] == '"'; spaces()) a.instructions += string();
    while (!take(")")) {
      if (take(":") || take(",")) continue;
      spaces();
      string();                                        // a constraint, or what is clobbered
      spaces();
      if (text[at] == '(') a.operands.push_back(enclosed());
    }
    return a;
  }
};

std::string joined(const std::vector<std::string>& list, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to; ++i) out += (i > from ? ", " : "") + list[i];
  return out;
}

// The instructions as a name: without operands, what is no letter or digit an underscore.
std::string name_of(std::string instructions) {
  instructions = std::regex_replace(instructions, std::regex("%%"), "");
  instructions = std::regex_replace(instructions, std::regex("%[0-9]+"), "");
  std::string name;
  for (char c : instructions) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
    else if (!name.empty() && name.back() != '_') name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

std::string call_of(const Assembly& a) {
  std::smatch found;
  const auto all = [&] { return joined(a.operands, 0, a.operands.size()); };
  static const std::regex group("wgmma\\.mma_async\\.sync\\.aligned\\.m64n([0-9]+)k16\\.f32\\.(b?f16)\\..*p, 1, 1(, [01])?, ([01]);");
  static const std::regex box("cp\\.async\\.bulk\\.tensor\\.([0-9])d\\..*complete_tx::bytes(\\.multicast::cluster)? ");
  if (std::regex_search(a.instructions, found, group)) {
    const std::size_t results = std::stoul(found[1]) / 2;
    std::string d;
    for (std::size_t i = 0; i < results; ++i) d += (i ? ", &(" : "&(") + a.operands[i] + ")";
    return fmt::format("ptx_wgmma<{}, {}, {}, {}>(tw_floats<{}>{{{{{}}}}}, {})", found[1].str(), found[2] == "bf16", found[4] == "1", found[3] == ", 1", results, d, joined(a.operands, results, a.operands.size()));
  }
  if (std::regex_search(a.instructions, found, box)) return fmt::format("ptx_box<{}, {}>({})", found[1].str(), found[2].matched, all());
  static const std::regex group_wait("wgmma\\.wait_group\\.sync\\.aligned ([0-9]+);");      // its operands are what it makes
  if (std::regex_search(a.instructions, found, group_wait)) return fmt::format("ptx_wgmma_wait_group_sync_aligned({})", found[1].str());
  if (a.instructions.find("mbarrier.try_wait") != std::string::npos) return "ptx_mbarrier_try_wait(" + all() + ")";
  if (a.instructions.find("mapa.shared::cluster") != std::string::npos) return "ptx_mbarrier_arrive_in_cluster(" + all() + ")";
  return "ptx_" + name_of(a.instructions) + "(" + all() + ")";
}

void replace(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) text.replace(at, what.size(), by);
}

}  // namespace

std::string without_assembly(const std::string& text) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find("asm"); at != std::string::npos; at = text.find("asm", at)) {
    const char before = at > 0 ? text[at - 1] : ' ', behind = text[at + 3];
    if (std::isalnum(static_cast<unsigned char>(before)) || before == '_' || (behind != '(' && behind != ' ')) {
      at += 3;
      continue;
    }
    Reader r{text, at + 3};
    const Assembly a = r.assembly();
    out += text.substr(from, at - from) + call_of(a);
    from = at = r.at;
  }
  out += text.substr(from);
  // Accesses of several elements at once, whatever the host's compiler makes of them.
  return std::regex_replace(out, std::regex("reinterpret_cast<((const )?word<[^>]*>)\\*>\\("), "tw_aligned<$1>(");
}

std::string host_kernel(const std::string& text, const std::string& name, std::size_t number) {
  std::string body = without_assembly(text);
  replace(body, "extern \"C\" __global__", "static __attribute__((noinline))");
  replace(body, "extern __shared__ __align__(1024) unsigned char scratch[];", "unsigned char* const scratch = tw_scratch();");
  const std::size_t cluster = text.find("__cluster_dims__(");
  return fmt::format("namespace kernel_{0} {{\n{1}}}\nextern \"C\" void tw_run_{0}(void** arguments) {{ tw_start(kernel_{0}::{2}, arguments); }}\n"
                     "extern \"C\" int tw_sizes_{0}(int* to) {{ return tw_sizes(kernel_{0}::{2}, to); }}\nextern \"C\" {{ int tw_cluster_{0} = {3}; }}\n",
                     number, body, name, cluster == std::string::npos ? 1 : std::atoi(text.c_str() + cluster + 17));
}

}  // namespace tilewright::emulated
