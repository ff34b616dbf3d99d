// Kernels from text to functions of this process.
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "target/cuda/emulated.h"
#include "target/cuda/emulator/compile.h"
#include "target/cuda/emulator/translate.h"

namespace tilewright::emulated {

namespace {

constexpr std::size_t together = 24;                   // kernels a file

}  // namespace

struct Kernels::State {
  std::filesystem::path folder;
  std::vector<std::string> texts;
  std::map<std::string, std::size_t> known;
  std::vector<void (*)(void**)> entries;
};

Kernels::Kernels() : state_(new State) {
  std::string name = (std::filesystem::temp_directory_path() / "tilewright_emulated_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no folder for kernels");
  state_->folder = name;
}
Kernels::~Kernels() {
  std::filesystem::remove_all(state_->folder);
  delete state_;
}

std::size_t Kernels::add(const cuda::Source& source) {
  const std::string key = source.name + "\n" + source.text;
  const auto [at, fresh] = state_->known.emplace(key, state_->texts.size());
  if (fresh) state_->texts.push_back(host_kernel(source.text, source.name, at->second));
  return at->second;
}

void Kernels::compile() {
  State& s = *state_;
  const std::string folder = s.folder.string();
  if (!std::filesystem::exists(folder + "/all.h")) make_header(folder);
  const std::size_t first = s.entries.size(), files = (s.texts.size() - first + together - 1) / together;
  s.entries.resize(s.texts.size(), nullptr);
  std::vector<std::string> problems(files);
  auto make = [&](std::size_t f) {
    const std::size_t from = first + f * together, to = std::min(from + together, s.texts.size());
    const std::string base = fmt::format("{}/kernels_{}", folder, from);
    {
      std::ofstream out(base + ".cpp");
      for (std::size_t i = from; i < to; ++i) out << s.texts[i];
    }
    try {
      make_module(folder, base);
    } catch (const std::exception& e) {
      problems[f] = e.what();
      return;
    }
    void* module = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) {
      problems[f] = dlerror();
      return;
    }
    for (std::size_t i = from; i < to; ++i) s.entries[i] = reinterpret_cast<void (*)(void**)>(dlsym(module, fmt::format("tw_run_{}", i).c_str()));
  };
  const std::size_t workers = std::min<std::size_t>(files, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      for (std::size_t f = w; f < files; f += workers) make(f);
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& p : problems)
    if (!p.empty()) throw std::runtime_error(p);
  for (std::size_t i = first; i < s.entries.size(); ++i) code_of(reinterpret_cast<const void*>(s.entries[i]));
}

void (*Kernels::entry(std::size_t i) const)(void**) { return state_->entries.at(i); }

}  // namespace tilewright::emulated
