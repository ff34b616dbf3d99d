// A stream for people: {state, init, step, finish, merge}.
#include <algorithm>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "expr/text.h"
#include "law/stream.h"

namespace tilewright {

namespace {

struct Speller {
  const Stream& s;
  Program p{s.program}; // tensors are renamed in it

  const Statement& at(StatementId id) const { return *s.program.statement(id); }
  const std::string& name(TensorId t) const { return s.program.tensor(t).name; }
  std::string& spelling(TensorId t) { return p.tensor(t).name; }

  std::string shape(const Statement& st) const {
    std::string text;
    for (const Index& i : st.at) text += (text.empty() ? "" : " ") + print(s.program, i, st.names);
    return text.empty() ? "" : "[" + text + "]";
  }

  std::string assigned(const Statement& st) const {
    std::string text = print(p, st);
    return text;
  }

  static std::string identity(const Scalar& body, Reducer r) {
    if (r == Reducer::argmax || r == Reducer::argmin) return "none";
    (void)body;
    const double v = identity_of(r);
    return r == Reducer::any ? "false" : r == Reducer::all ? "true" : fmt::format("{}", v);
  }

  static const char* sign(Reducer r) { return r == Reducer::sum ? " + " : " * "; }

  // The state after another share: of a chunk in a step, of the other state in a merge.
  static std::string joined(Reducer r, const std::string& a, const std::string& b) {
    if (r == Reducer::sum || r == Reducer::prod) return a + sign(r) + b;
    if (r == Reducer::any) return a + " or " + b;
    if (r == Reducer::all) return a + " and " + b;
    return fmt::format("{}({}, {})", name_of(r), a, b);
  }

  std::vector<std::string> dim_names(const Statement& st) const {
    std::vector<std::string> names;
    for (AxisId a : parallel_axes(st)) names.push_back(st.names[static_cast<std::size_t>(a)]);
    return names;
  }

  std::string moved(const Stream::State& st) const {
    return st.corrected < 0 ? p.tensor(st.tensor).name + shape(at(st.reduction))
                            : print(p, st.moved, dim_names(at(st.reduction)));
  }

  std::string share(const Statement& st) const {
    std::string text = print(p, st); // "O[q d] : f32 = sum[x] ..."
    return text.substr(text.find(" = ") + 3);
  }

  StreamText run() {
    StreamText t;
    t.axis = s.region.names[static_cast<std::size_t>(s.axis)];
    for (const Stream::State& st : s.state) {
      const Statement& r = at(st.reduction);
      std::string line =
          fmt::format("{}{} : {}", name(st.tensor), shape(r), name_of(s.program.tensor(st.tensor).dtype));
      if (st.anchor != Stream::Anchor::none) {
        line += st.anchor == Stream::Anchor::chunk ? ", at the mean of what was seen (chunk): "
                                                   : ", at the value so far (running): ";
        for (std::size_t i = 0; i < st.statistics.size(); ++i) line += (i ? ", " : "") + name(st.statistics[i]);
      }
      t.state.push_back(line);
      t.init.push_back(fmt::format("{} = {}", name(st.tensor), identity(*r.body, r.reducer)));
    }
    for (StatementId id : s.turn) {
      const Statement& st = at(id);
      if (std::find(s.scales.begin(), s.scales.end(), id) != s.scales.end())
        continue; // spelled out where they are used
      const auto state =
          std::find_if(s.state.begin(), s.state.end(), [&](const Stream::State& x) { return x.reduction == id; });
      if (state != s.state.end()) {
        const std::string own = name(st.out) + shape(st);
        t.step.push_back(fmt::format("{} = {}", own, joined(st.reducer, own, share(st))));
      } else if (const auto moves = std::find_if(s.state.begin(), s.state.end(),
                                                 [&](const Stream::State& x) { return x.corrected == id; });
                 moves != s.state.end()) {
        t.step.push_back(fmt::format("{}{} = {}", name(st.out), shape(at(moves->reduction)), moved(*moves)));
      } else {
        t.step.push_back(print(s.program, st));
      }
    }
    for (StatementId id : s.finish) t.finish.push_back(print(s.program, at(id)));
    merge(t);
    return t;
  }

  // Two states, each moved to the statistics of both.
  void merge(StreamText& t) {
    for (const Stream::State& st : s.state) {
      const Statement& r = at(st.reduction);
      std::string sides[2];
      for (int side = 0; side < 2; ++side) {
        const std::string of = side ? "b." : "a.";
        for (const Stream::State& x : s.state) spelling(x.tensor) = name(x.tensor);
        for (const Stream::Kept& k : s.kept) spelling(k.was) = of + name(k.statistic);
        // A sum that is read is the side's own; a statistic that is followed is the new one.
        for (const Stream::State& x : s.state)
          if (std::find(st.statistics.begin(), st.statistics.end(), x.tensor) == st.statistics.end())
            spelling(x.tensor) = of + name(x.tensor);
        sides[side] = plain(moved(st));
      }
      t.merge.push_back(fmt::format("{}{} = {}", name(st.tensor), shape(r), joined(r.reducer, sides[0], sides[1])));
    }
  }

  // Names with a dot are printed in quotes, which only confuse here.
  static std::string plain(std::string text) {
    text.erase(std::remove(text.begin(), text.end(), '\''), text.end());
    return text;
  }
};

} // namespace

StreamText text_of(const Stream& s) { return Speller{s}.run(); }

std::string print(const Stream& s) {
  const StreamText t = text_of(s);
  std::string out = fmt::format("stream over {}\n", t.axis);
  auto part = [&](const char* title, const std::vector<std::string>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) out += fmt::format("  {:<8}{}\n", i ? "" : title, lines[i]);
  };
  part("state", t.state);
  part("init", t.init);
  part("step", t.step);
  part("finish", t.finish);
  part("merge", t.merge);
  return out;
}

} // namespace tilewright
