// Random programs of nested reductions and maps, inputs for them, and how far two results are apart.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "expr/evaluate.h"
#include "expr/random_program.h"

namespace tilewright::testing {

// Elements over [q x] made of S, A and of what is known about their rows; then sums of them.
struct Maker {
  Random random;
  bool half = false, bad = false;
  std::string text{}, type{};
  int names = 0;
  std::vector<std::string> elements{"S[q x]", "A[q x]"};

  int below(int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
  const std::string& any() { return elements[static_cast<std::size_t>(below(static_cast<int>(elements.size())))]; }
  std::string fresh(const char* prefix) { return prefix + std::to_string(++names); }

  std::string map(const std::string& body, const std::string& where = "") {
    const std::string n = fresh("E");
    text += n + "[q x]" + type + " = " + body + where + "\n";
    return n + "[q x]";
  }
  std::string statistic(const char* reducer, const std::string& body, const std::string& where = "") {
    const std::string n = fresh("s");
    text += n + "[q] = " + std::string(reducer) + "[x] " + body + where + "\n";
    return n + "[q]";
  }
  std::string either(const std::string& body) { return below(2) ? map(body) : "(" + body + ")"; }

  void step() {
    const std::string e = any();
    switch (below(bad ? 12 : 9)) {
      case 0: case 1: {                                      // bounded by its maximum, perhaps normalised
        const std::string where = below(4) == 0 ? " where index(x) <= index(q) + 1" : "";
        const std::string m = statistic("max", e, where);
        const std::string p = map("exp(" + e + " - " + m + ")", where);
        if (below(2)) elements.push_back(p);
        else elements.push_back(either(p + " / " + statistic("sum", p)));
        break;
      }
      case 2: elements.push_back(either(e + " - " + statistic("sum", e) + " / x")); break;
      case 3: elements.push_back(either(e + " / sqrt(" + statistic("sum", e + "^2") + " / x + 0.001)")); break;
      case 4: {
        const std::string m = statistic("sum", e + " / x");
        elements.push_back(either("(" + e + " - " + m + ") / sqrt(" + statistic("sum", "(" + e + " - " + m + ")^2") + " / x + 0.001)"));
        break;
      }
      case 5: elements.push_back(either(e + " * w[x] * 0.5")); break;
      case 6: elements.push_back(either("max(S[q x], 0) * 0.25")); break;
      case 7: elements.push_back(either("tanh(A[q x] / 16)")); break;
      case 8: elements.push_back(either(e + " * S[q x] / (1 + abs(S[q x]))")); break;
      case 9: elements.push_back(either("tanh(" + e + " - " + statistic("max", e) + ")")); break;
      case 10: elements.push_back(either("exp(-((" + e + " - " + statistic("max", e) + ")^2))")); break;
      default: elements.push_back(either("abs(" + e + " - " + statistic("sum", e) + " / x)")); break;
    }
  }

  std::string make() {
    type = half && below(2) ? " : f16" : "";
    for (int n = 1 + below(3); n > 0; --n) step();
    std::string outputs;
    for (int n = 1 + below(2); n > 0; --n) {
      const std::string e = n == 1 ? elements.back() : any(), o = fresh("O");
      if (below(3)) text += o + "[q d] = sum[x] " + e + " * V[x d]\n";
      else text += o + "[q] = sum[x] " + e + (below(3) == 0 ? " * " + e : "") + "\n";
      outputs += (outputs.empty() ? "" : ", ") + o;
    }
    const std::string in = half ? "f16" : "f32";
    const int q = 1 + below(4), x = 2 + below(7), d = 1 + below(3);
    return "program p(q=" + std::to_string(q) + ", x=" + std::to_string(x) + ", d=" + std::to_string(d) + ")\ninput S[q x], A[q x], V[x d], w[x] : " + in + "\n" + text + "output " + outputs + "\n";
  }
};

inline Values given_to(const Program& p, Random& random, double mean, double deviation) {
  Values given;
  std::normal_distribution<double> normal(0, 1);
  for (TensorId t : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
    Array a = Array::make(p.tensor(t).dtype, dims);
    const bool wide = p.tensor(t).name == "S" || p.tensor(t).name == "A";
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const double v = wide ? mean + deviation * normal(random) : normal(random);
      if (a.dtype == DType::f32) a.as<float>()[i] = static_cast<float>(v);
      else a.as<std::uint16_t>()[i] = f32_to_f16(static_cast<float>(v));
    }
    given[t] = a;
  }
  return given;
}


inline double value_of(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f64) return a.as<double>()[i];
  return a.dtype == DType::f16 ? static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i])) : static_cast<double>(a.as<float>()[i]);
}

struct Compared { double error = 0, scale = 0; bool defined = true; };

// Largest difference from the exact result, and its largest magnitude; where that is no number nothing is asked.
inline Compared compared(const Program& p, const Values& got, const Values& exact, double data) {
  Compared c;
  for (TensorId t : p.outputs) {
    const Array &g = got.at(t), &w = exact.at(t);
    double most = 0, error = 0;
    for (std::int64_t i = 0; i < w.count(); ++i) {
      const double want = w.as<double>()[i], have = value_of(g, i);
      if (!std::isfinite(want)) c.defined = false;
      else if (!std::isfinite(have)) error = INFINITY;
      else error = std::max(error, std::abs(have - want));
      if (std::isfinite(want)) most = std::max(most, std::abs(want));
    }
    if (most > 1e-6 * data) c.error = std::max(c.error, error / std::max(most, 0.1));       // else it cancels to nothing
  }
  return c;
}

}  // namespace tilewright::testing
