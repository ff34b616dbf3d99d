// Quantised programs: what runs equals the typed evaluator to the bit, before normal forms where all sums are over
// integers, and after them always; and the float form is at most one step away.
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "expr/text.h"
#include "normal/normal.h"
#include "normal/same_outputs.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

using testing::Random;

// A text, its inputs and weights filled: bytes over their full range, scales positive.
struct Case {
  std::string text;
  bool floats = false; // a reduction over floats
};

struct Maker {
  Random& random;
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return in(1, 100) <= percent; }
  std::string byte() { return chance(50) ? "u8" : "i8"; }
  std::int64_t zero(const std::string& type) { return type == "u8" ? in(0, 255) : in(-128, 127); }

  // The zero point of the weights: none, one, or one a column.
  std::string weight_zero(const char* column, const std::string& type) {
    if (chance(40)) return "";
    return chance(50) ? fmt::format(" - {}", zero(type)) : fmt::format(" - zw[{}]", column);
  }

  // What follows the sum: integers requantised, or floats with a bias, limits, and a rounding; then perhaps a residual.
  std::string ending(const std::string& at, bool floats, const std::string& out) {
    std::string text, value = fmt::format("f32(S[{0}] + B[f]) * R[f]", at);
    if (floats) {
      text += fmt::format("T[{0}] = S[{0}] + {1}\n", at, chance(50) ? "f32(B[f]) * (0.02 * sw[f])" : "b[f]");
      value = chance(50) ? fmt::format("max(T[{}], 0) / 0.05", at) : fmt::format("min(max(T[{}], 0), 6) / 0.0235", at);
      if (chance(30)) value = fmt::format("T[{}] / 0.05", at);
    }
    const std::int64_t z = zero(out);
    if (chance(60)) return text + fmt::format("Q[{}] : {} = {}(round({}) + {})\n", at, out, out, value, z);
    text += fmt::format("P[{}] : {} = {}(round({}) + {})\n", at, out, out, value, z);
    return text +
           fmt::format("Q[{0}] : u8 = u8(round((f32(P[{0}] - {1}) * 0.04 + f32(E[{0}] - 11) * 0.07) / 0.09) + 3)\n", at,
                       z);
  }

  Case product() {
    const std::string x = byte(), w = byte(), out = byte();
    const bool floats = chance(50), known = chance(80);
    const std::int64_t za = chance(20) ? 0 : zero(x);
    std::string text =
        fmt::format("program p(m={}, k={}, f={})\ninput X[m k] : {}\ninput E[m f] : u8\n{} W[k f], zw[f] : {}\n",
                    in(1, 40), in(1, 70), in(1, 70), x, known ? "weight" : "input", w);
    text += "weight B[f] : i32\nweight R[f], sw[f], b[f] : f32\n";
    const std::string zero = weight_zero("f", w);
    if (floats && known) {
      text += fmt::format(
          "A[m k] = f32(X[m k] - {}) * 0.02\nC[k f] = f32(W[k f]{}) * sw[f]\nS[m f] = sum[k] A[m k] * C[k f]\n", za,
          zero);
      return {text + ending("m f", true, out) + "output Q\n", true};
    }
    text += fmt::format("S[m f] = sum[k] (X[m k] - {}) * (W[k f]{})\n", za, zero);
    return {text + ending("m f", false, out) + "output Q\n"};
  }

  Case convolution(bool depthwise) {
    const std::string x = byte(), w = byte(), out = byte();
    const bool floats = chance(50);
    const std::int64_t i = in(1, 4), j = in(1, 4), s = in(1, 2), d = in(1, 2), top = in(0, 2), left = in(0, 2),
                       h = in(d * i, 12), v = in(d * j, 12);
    const std::int64_t y = (h + top + in(0, 1) - d * (i - 1) - 1) / s + 1, u = (v + left - d * (j - 1) - 1) / s + 1,
                       za = zero(x);
    const std::string c = depthwise ? "f" : "c",
                      point = fmt::format("n, {0}*y+{1}*i-{2}, {0}*u+{1}*j-{3}, {4}", s, d, top, left, c);
    const std::string dims = depthwise ? "i j f" : "i j c f", over = depthwise ? "i j" : "i j c";
    std::string text = fmt::format("program p(n={}, h={}, v={}, c={}, f={}, i={}, j={}, y={}, u={})\ninput X[n h v {}] "
                                   ": {}\ninput E[n y u f] : u8\n",
                                   in(1, 2), h, v, in(1, 20), in(1, 50), i, j, y, u, c, x);
    text += fmt::format("weight W[{}], zw[f] : {}\nweight B[f] : i32\nweight R[f], sw[f], b[f] : f32\n", dims, w);
    const std::string zero = weight_zero("f", w);
    if (floats) {
      text += fmt::format("A[n h v {0}] = f32(X[n h v {0}] - {1}) * 0.02\nC[{2}] = f32(W[{2}]{3}) * sw[f]\n", c, za,
                          dims, zero);
      text += fmt::format("S[n y u f] = sum[{}] A[{} else 0] * C[{}]\n", over, point, dims);
    } else {
      text += fmt::format("S[n y u f] = sum[{}] (X[{} else {}] - {}) * (W[{}]{})\n", over, point, za, za, dims, zero);
    }
    return {text + ending("n y u f", floats, out) + "output Q\n", floats};
  }

  Case pool() {
    const std::string x = byte(), out = byte();
    const std::int64_t h = in(1, 8), za = zero(x);
    std::string text = fmt::format("program p(n={}, h={}, c={})\ninput X[n h c] : {}\n", in(1, 3), h, in(1, 70), x);
    text +=
        fmt::format("A[n h c] = f32(X[n h c] - {}) * 0.03\nS[n c] = sum[h] A[n h c]\nM[n c] = S[n c] / {}.0\n", za, h);
    return {text + fmt::format("Q[n c] : {0} = {0}(round(M[n c] / 0.025) + {1})\noutput Q\n", out, zero(out)), true};
  }

  Case any() {
    switch (in(0, 4)) {
    case 0: return pool();
    case 1:
    case 2: return convolution(chance(50));
    default: return product();
    }
  }

  void fill(Array& a) {
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.dtype == DType::f32)
        a.as<float>()[i] = static_cast<float>(in(1, 1000)) * 1e-5f;
      else if (a.dtype == DType::i32)
        a.as<std::int32_t>()[i] = static_cast<std::int32_t>(in(-20000, 20000));
      else
        a.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(chance(10)   ? (chance(50) ? 0 : 255)
                                                            : chance(10) ? 128
                                                                         : in(0, 255));
    }
  }

  Values values(const Program& p) {
    Values given;
    for (std::size_t t = 0; t < p.tensors.size(); ++t) {
      if (p.tensors[t].kind == Kind::intermediate) continue;
      Array a = testing::empty_of(p, static_cast<TensorId>(t));
      fill(a);
      given.emplace(static_cast<TensorId>(t), a);
    }
    return given;
  }
};

int steps_apart(const Array& a, const Array& b) {
  int most = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const bool is_signed = a.dtype == DType::i8;
    const int x = is_signed ? a.as<std::int8_t>()[i] : a.as<std::uint8_t>()[i],
              y = is_signed ? b.as<std::int8_t>()[i] : b.as<std::uint8_t>()[i];
    most = std::max(most, std::abs(x - y));
  }
  return most;
}

int over_integers = 0, leaves = 0, kernels_run = 0;

void one_case(std::uint64_t seed) {
  Random random(seed);
  Maker make{random};
  const Case c = make.any();
  Program p = fix_sizes(parse(c.text, "case.tw"), {});
  const Values given = make.values(p);
  testing::make_known(p, given);
  const Program q = normalise(p);
  ASSERT_NO_THROW(verify(q));
  const Values asked = testing::asked_for(q, given);
  const Array want = evaluate(p, testing::asked_for(p, given), {}, Evaluation::typed).at(p.outputs[0]);
  const Array normal = evaluate(q, asked, {}, Evaluation::typed).at(q.outputs[0]);
  const bool residual = c.text.find("P[") != std::string::npos;
  if (!c.floats)
    EXPECT_EQ(steps_apart(normal, want), 0) << print(p) << print(q);
  else
    EXPECT_LE(steps_apart(normal, want), residual ? 2 : 1) << print(p) << print(q);
  for (const auto& node : q.nodes)
    if (const auto* s = std::get_if<Statement>(&node); s && s->reducer == Reducer::sum)
      over_integers += s->body->dtype == DType::i32 || is_integer(s->body->dtype);
  int fused = 0;
  const Plan plan = testing::random_plan(q, random, &fused);
  const cpu::Executable exe = cpu::compile(plan);
  for (const cpu::Kernel& k : exe.kernels) {
    kernels_run += !k.leaves.empty();
    for (const std::string& l : k.leaves) leaves += l.find("to_float") != std::string::npos;
  }
  const Array got = testing::execute(plan, asked).at(q.outputs[0]);
  EXPECT_EQ(std::memcmp(got.data, normal.data, normal.bytes()), 0) << steps_apart(got, normal) << " steps\n"
                                                                   << print(q);
}

TEST(Quantised, RunsAsTheEvaluatorSays) {
  const auto all = testing::seeds(600, 20000);
  for (std::uint64_t seed : all) {
    one_case(seed);
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  std::printf("%zu cases: %d sums over integers, %d of %d kernels end in a leaf's own rounding\n", all.size(),
              over_integers, leaves, kernels_run);
  if (all.size() > 1) {
    EXPECT_GT(over_integers, static_cast<int>(all.size()) * 9 / 10);
    EXPECT_GT(leaves, static_cast<int>(all.size()) / 10);
  }
}

} // namespace
} // namespace tilewright
