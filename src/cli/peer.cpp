#include "cli/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cli/npy.h"
#include "support/error.h"
#include "support/file.h"

extern char** environ;

namespace tilewright {

namespace {

// Reads a line, answers with a line: "ok ..." or "error ...". Names travel in files, since they may hold anything.
constexpr const char* script = R"(
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us
folder, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
def answer(text):
    sys.stdout.write(text.replace("\n", " ") + "\n"); sys.stdout.flush()
try:
    import numpy as np, onnxruntime as ort
except ImportError as e:
    answer("missing %s" % e); sys.exit(4)
try:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    names = open(folder + "/names").read().split("\0")[:-1]
    feeds = {name: np.load("%s/in%d.npy" % (folder, i)) for i, name in enumerate(names)}
    wanted = {i.name: i.type for i in session.get_inputs()}
    feeds = {name: array for name, array in feeds.items() if name in wanted}
    outputs = [o.name for o in session.get_outputs()]
    answer("ok onnxruntime " + ort.__version__)
except Exception as e:
    answer("error %s" % e); sys.exit(1)
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "outputs":
            for i, array in enumerate(session.run(None, feeds)):
                np.save("%s/out%d.npy" % (folder, i), array)
            open(folder + "/outputs", "w").write("".join(o + "\0" for o in outputs))
            answer("ok")
        elif word[0] == "time":
            times = []
            for _ in range(int(word[1])):
                start = time.perf_counter(); session.run(None, feeds); times.append(time.perf_counter() - start)
            answer("ok " + " ".join("%.9f" % t for t in times))
    except Exception as e:
        answer("error %s" % e)
)";

std::string temporary_folder() {
  const char* base = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/tilewright-XXXXXX", base && *base ? base : "/tmp");
  if (!::mkdtemp(path.data()))
    throw Error(Code::file, path, fmt::format("cannot be made: {}", std::strerror(errno)), "set TMPDIR");
  return path;
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

std::vector<std::string> split_zero(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

struct Channel {
  int read = -1, write = -1;
  Channel() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(Code::device, "", fmt::format("no pipe can be made: {}", std::strerror(errno)));
    read = ends[0], write = ends[1];
  }
};

} // namespace

std::string python_for_peer(const std::string& option) {
  if (!option.empty()) return option;
  if (const char* own = std::getenv("TILEWRIGHT_PYTHON"); own && *own) return own;
  if (const char* active = std::getenv("VIRTUAL_ENV"); active && *active) return fmt::format("{}/bin/python", active);
  return "python3";
}

Peer::Peer(const std::string& python, const std::string& model, int threads, const std::vector<NamedArray>& inputs)
    : folder_(temporary_folder()) {
  try {
    std::string names;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      write_file(fmt::format("{}/in{}.npy", folder_.path(), i), npy_bytes(inputs[i].array));
      names += inputs[i].name + '\0';
    }
    write_file(folder_.path() + "/names", names);
    write_file(folder_.path() + "/peer.py", script);
    start({python, folder_.path() + "/peer.py", folder_.path(), absolute(model), std::to_string(threads)});
    const std::string first = read_line();
    const std::string hint = "give --python PATH of a Python that has onnxruntime and numpy";
    if (first.starts_with("missing ")) throw Error(Code::device, python, first.substr(8), hint);
    if (first.starts_with("error ")) throw Error(Code::check, "onnxruntime", first.substr(6));
    if (!first.starts_with("ok ")) throw Error(Code::device, python, "does not start as a Python", hint);
    version_ = first.substr(3);
  } catch (...) {
    stop();
    throw;
  }
}

Peer::~Peer() { stop(); }

void Peer::start(const std::vector<std::string>& command) {
  const Channel in, out;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int failed = ::posix_spawnp(&process_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in.read), ::close(out.write);
  to_ = in.write, from_ = out.read;
  if (failed != 0) {
    process_ = -1;
    throw Error(Code::device, command[0], fmt::format("cannot be started: {}", std::strerror(failed)),
                "give --python PATH");
  }
}

void Peer::stop() {
  if (to_ >= 0) ::close(to_); // its loop over lines ends
  if (from_ >= 0) ::close(from_);
  if (process_ > 0) {
    ::kill(process_, SIGTERM);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  to_ = from_ = process_ = -1;
}

std::string Peer::read_line() {
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    char bytes[4096];
    const ssize_t got = ::read(from_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR && is_cancelled()) throw Error(Code::interrupted, "", "interrupted");
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    pending_.append(bytes, static_cast<std::size_t>(got));
  }
}

std::string Peer::ask(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw Error(Code::check, "onnxruntime", "the peer has ended");
  const std::string answer = read_line();
  if (answer.starts_with("error ")) throw Error(Code::check, "onnxruntime", answer.substr(6));
  if (!answer.starts_with("ok")) throw Error(Code::check, "onnxruntime", "the peer has ended");
  return answer.substr(2);
}

std::vector<Array> Peer::outputs(const std::vector<std::string>& names, const std::vector<DType>& types) {
  ask("outputs");
  const std::vector<std::string> have = split_zero(read_text(folder_.path() + "/outputs"));
  std::vector<Array> arrays;
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto found = std::find(have.begin(), have.end(), names[n]);
    if (found == have.end()) throw Error(Code::check, names[n], "onnxruntime has no output of this name");
    arrays.push_back(read_npy(fmt::format("{}/out{}.npy", folder_.path(), found - have.begin()), types[n]));
  }
  return arrays;
}

std::vector<double> Peer::time(int runs) {
  std::istringstream words(ask(fmt::format("time {}", runs)));
  std::vector<double> seconds;
  for (double s; words >> s;) seconds.push_back(s);
  return seconds;
}

} // namespace tilewright
