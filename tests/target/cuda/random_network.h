// Random small networks as text: what image networks are made of, in any order, at odd sizes.
//
//   expand, depthwise, project, the input added; squeeze and excite; pools; scales ahead of paddings; channels last or first
#pragma once
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tilewright::testing {

class RandomNetwork {
 public:
  explicit RandomNetwork(std::mt19937_64& random, std::string dtype) : random_(random), dtype_(std::move(dtype)) {}

  std::string make() {
    last_ = chance(60);
    sizes_ = fmt::format("n={}", 1 + below(3));
    Image x{"X", extent("c", chance(20) ? 3 : channels()), extent("y", 3 + below(14)), extent("x", 3 + below(14))};
    inputs_ = fmt::format("input {} : {}\n", at(x), dtype_);
    for (int layers = 1 + below(5); layers > 0; --layers) x = layer(x);
    if (chance(20)) head(x);
    else outputs_.push_back(x.name);
    std::string weights, outs;
    for (const std::string& w : weights_) weights += fmt::format("weight {} : {}\n", w, dtype_);
    for (const std::string& o : outputs_) outs += (outs.empty() ? "" : ", ") + o;
    return fmt::format("program net({})\n{}{}{}output {}\n", sizes_, inputs_, weights, body_, outs);
  }

 private:
  struct Extent { std::string name; int n = 1; };
  struct Image { std::string name; Extent c, y, x; };

  std::mt19937_64& random_;
  const std::string dtype_;
  bool last_ = true;
  int next_ = 0;
  std::string sizes_, inputs_, body_;
  std::vector<std::string> weights_, outputs_;

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  int channels() { return chance(70) ? 8 * (1 + below(6)) : 1 + below(30); }
  Extent extent(const std::string& letter, int n) {
    Extent e{letter + std::to_string(next_++), n};
    sizes_ += fmt::format(", {}={}", e.name, n);
    return e;
  }
  // A window of stride 1 leaves an extent as it is.
  Extent along(const std::string& letter, const Extent& in, int n) { return n == in.n ? in : extent(letter, n); }
  std::string fresh(const std::string& letter) { return letter + std::to_string(next_++); }
  std::string weight(const std::string& dims) {
    const std::string name = fresh("W");
    weights_.push_back(fmt::format("{}[{}]", name, dims));
    return fmt::format("{}[{}]", name, dims);
  }
  std::string at(const Image& i) const { return last_ ? fmt::format("{}[n {} {} {}]", i.name, i.y.name, i.x.name, i.c.name) : fmt::format("{}[n {} {} {}]", i.name, i.c.name, i.y.name, i.x.name); }
  std::string at(const Image& i, const std::string& y, const std::string& x) const {
    return last_ ? fmt::format("{}[n, {}, {}, {}]", i.name, y, x, i.c.name) : fmt::format("{}[n, {}, {}, {}]", i.name, i.c.name, y, x);
  }
  std::string at(const Image& i, const std::string& y, const std::string& x, const std::string& otherwise) const {
    return last_ ? fmt::format("{}[n, {}, {}, {} else {}]", i.name, y, x, i.c.name, otherwise) : fmt::format("{}[n, {}, {}, {} else {}]", i.name, i.c.name, y, x, otherwise);
  }
  // Sums may be held wider than what they become.
  void say(const std::string& out, const std::string& value, bool sum = false) { body_ += fmt::format("{} : {} = {}\n", out, sum && chance(50) ? "f32" : dtype_, value); }

  std::string activated(const std::string& v) {
    switch (below(5)) {
      case 0: return fmt::format("min(max({}, 0), 6)", v);
      case 1: return fmt::format("max({}, 0)", v);
      case 2: return fmt::format("({0}) * min(max(({0}) + 3, 0), 6) / 6", v);
      case 3: return fmt::format("({0}) / (1 + exp(-({0})))", v);
      default: return v;
    }
  }
  Image finished(const Image& sum) {
    if (chance(15)) return sum;
    Image out = sum;
    out.name = fresh("T");
    std::string v = at(sum);
    if (chance(30)) v = fmt::format("{} * {}", v, weight(sum.c.name));
    if (chance(85)) v = fmt::format("{} + {}", v, weight(sum.c.name));
    say(at(out), activated(v));
    return out;
  }

  Image pointwise(const Image& in, int channels_out) {
    Image out = in;
    out.name = fresh("A"), out.c = extent("c", channels_out);
    say(at(out), fmt::format("sum[{1}] {0} * {2}", at(in), in.c.name, weight(chance(50) ? out.c.name + " " + in.c.name : in.c.name + " " + out.c.name)), true);
    return finished(out);
  }
  // Of every second pixel: what is read has gaps.
  Image strided(const Image& in) {
    Image out{fresh("A"), extent("c", channels()), along("y", in.y, (in.y.n - 1) / 2 + 1), along("x", in.x, (in.x.n - 1) / 2 + 1)};
    if (out.y.n == in.y.n || out.x.n == in.x.n) return in;
    say(at(out), fmt::format("sum[{}] {} * {}", in.c.name, at(in, "2*" + out.y.name, "2*" + out.x.name), weight(out.c.name + " " + in.c.name)), true);
    return finished(out);
  }
  // A window of every channel by itself: a depthwise convolution, or a pool.
  Image window(const Image& in) {
    const int k = chance(70) ? 3 : 5, s = chance(65) ? 1 : 2, before = chance(85) ? k / 2 : 0;
    const auto reach = [&](int n) { return (n + 2 * before - k) / s + 1; };
    if (in.y.n + 2 * before < k || in.x.n + 2 * before < k) return in;
    Image out{fresh("A"), in.c, along("y", in.y, reach(in.y.n)), along("x", in.x, reach(in.x.n))};
    const Extent i = extent("v", k), j = extent("h", k);
    const auto index = [&](const Extent& o, const Extent& t) { return fmt::format("{}{}+{}-{}", s == 1 ? "" : "2*", o.name, t.name, before); };
    const int kind = below(10);
    if (kind == 0) say(at(out), fmt::format("max[{} {}] {}", i.name, j.name, at(in, index(out.y, i), index(out.x, j), "-inf")));
    else if (kind == 1) say(at(out), fmt::format("sum[{} {}] {} / {}", i.name, j.name, at(in, index(out.y, i), index(out.x, j), "0"), k * k), true);
    else say(at(out), fmt::format("sum[{} {}] {} * {}", i.name, j.name, at(in, index(out.y, i), index(out.x, j), "0"), weight(chance(50) ? fmt::format("{} {} {}", in.c.name, i.name, j.name) : fmt::format("{} {} {}", i.name, j.name, in.c.name))), true);
    return kind == 0 ? out : finished(out);
  }
  Image convolution(const Image& in) {
    const int k = 3, s = chance(50) ? 1 : 2;
    Image out{fresh("A"), extent("c", channels()), along("y", in.y, (in.y.n - 1) / s + 1), along("x", in.x, (in.x.n - 1) / s + 1)};
    const Extent i = extent("v", k), j = extent("h", k);
    const auto index = [&](const Extent& o, const Extent& t) { return fmt::format("{}{}+{}-1", s == 1 ? "" : "2*", o.name, t.name); };
    say(at(out), fmt::format("sum[{} {} {}] {} * {}", in.c.name, i.name, j.name, at(in, index(out.y, i), index(out.x, j), "0"),
                             weight(fmt::format("{} {} {} {}", out.c.name, in.c.name, i.name, j.name))), true);
    return finished(out);
  }
  // A factor a channel, from the mean of each.
  Image excited(const Image& in) {
    const Extent s = extent("s", 1 + below(12));
    const std::string mean = fresh("M"), small = fresh("M"), gate = fresh("G");
    say(fmt::format("{}[n {}]", mean, in.c.name), fmt::format("sum[{} {}] {} / {}", in.y.name, in.x.name, at(in), in.y.n * in.x.n), true);
    say(fmt::format("{}[n {}]", small, s.name), fmt::format("sum[{1}] {0}[n {1}] * {2}", mean, in.c.name, weight(s.name + " " + in.c.name)), true);
    const std::string relu = fresh("M"), back = fresh("M");
    say(fmt::format("{}[n {}]", relu, s.name), fmt::format("max({}[n {}] + {}, 0)", small, s.name, weight(s.name)));
    say(fmt::format("{}[n {}]", back, in.c.name), fmt::format("sum[{1}] {0}[n {1}] * {2}", relu, s.name, weight(in.c.name + " " + s.name)), true);
    say(fmt::format("{}[n {}]", gate, in.c.name), fmt::format("1 / (1 + exp(-({}[n {}] + {})))", back, in.c.name, weight(in.c.name)));
    Image out = in;
    out.name = fresh("T");
    say(at(out), fmt::format("{} * {}[n {}]", at(in), gate, in.c.name));
    return out;
  }
  Image added(const Image& a, const Image& b) {
    Image out = a;
    out.name = fresh("T");
    say(at(out), fmt::format("{} + {}", at(a), at(b)));
    return out;
  }
  // Statistics over channels, then a map by them.
  Image normed(const Image& in) {
    Image out = in;
    const std::string mean = fresh("M"), spread = fresh("M"), point = fmt::format("n {} {}", in.y.name, in.x.name);
    body_ += fmt::format("{}[{}] : f32 = sum[{}] {} / {}\n", mean, point, in.c.name, at(in), in.c.n);
    body_ += fmt::format("{0}[{1}] : f32 = sum[{2}] ({3} - {4}[{1}]) * ({3} - {4}[{1}]) / {5}\n", spread, point, in.c.name, at(in), mean, in.c.n);
    out.name = fresh("T");
    say(at(out), fmt::format("({} - {}[{}]) / sqrt({}[{}] + 0.01) * {}", at(in), mean, point, spread, point, weight(in.c.name)));
    return out;
  }

  Image layer(const Image& in) {
    switch (below(11)) {
      case 10: return strided(in);
      case 0: return pointwise(in, channels());
      case 1: return window(in);
      case 2: return convolution(in);
      case 3: return excited(in);
      case 4: return pointwise(window(in), channels());
      case 5: return window(pointwise(in, channels()));
      case 6: return normed(in);
      default: {
        const Image wide = window(pointwise(in, 8 * (1 + below(10))));
        const Image gated = chance(30) ? excited(wide) : wide;
        const bool again = in.y.n == gated.y.n && in.x.n == gated.x.n && chance(70);
        if (!again) return pointwise(gated, channels());
        Image back = gated;
        back.name = fresh("A"), back.c = in.c;
        say(at(back), fmt::format("sum[{}] {} * {}", gated.c.name, at(gated), weight(in.c.name + " " + gated.c.name)), true);
        return added(back, in);
      }
    }
  }
  // The mean of each channel, and classes.
  void head(const Image& in) {
    const Extent k = extent("k", 3 + below(20));
    const std::string mean = fresh("M"), classes = fresh("K");
    say(fmt::format("{}[n {}]", mean, in.c.name), fmt::format("sum[{} {}] {} / {}", in.y.name, in.x.name, at(in), in.y.n * in.x.n), true);
    say(fmt::format("{}[n {}]", classes, k.name), fmt::format("sum[{1}] {0}[n {1}] * {2}", mean, in.c.name, weight(k.name + " " + in.c.name)), true);
    outputs_.push_back(classes);
  }
};

}  // namespace tilewright::testing
