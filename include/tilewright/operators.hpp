// Products with an operand that is mostly zeros, known only when the arrays are there: sessions of programs of a few
// statements, in the C++ interface of tilewright.hpp. Header only, C++17.
//
//   tw::Session product = tw::sparse_matmul({2048, 2048, 2048, 32, 1}, {{"threads", "2"}});
//   product.run({tw::view("A", a, {2048, 2048}), tw::view("B", b, {2048, 2048})}, {tw::view("C", c, {2048, 2048})});
//
// Zeros are skipped, not multiplied: 0 * infinity is 0 here. What is live is looked for in every run; a plan is made
// once.
#ifndef TILEWRIGHT_OPERATORS_HPP
#define TILEWRIGHT_OPERATORS_HPP

#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>

#include "tilewright/tilewright.hpp"

namespace tw {

namespace detail {

inline std::string sizes(const std::vector<std::pair<const char*, std::int64_t>>& list) {
  std::string text;
  for (const auto& [name, extent] : list)
    text += (text.empty() ? "" : ", ") + std::string(name) + "=" + std::to_string(extent);
  return text;
}

} // namespace detail

// C[m n] = sum over k of A[m k] * B[k n]; micro-tiles of A of rows x columns are multiplied where any element of theirs
// is not 0.
struct SparseMatmul {
  std::int64_t m = 1, k = 1, n = 1;
  std::int64_t rows = 32, columns = 1;
  std::string dtype = "f32"; // of all three: f32, f16 or bf16
};
inline Session sparse_matmul(const SparseMatmul& p, const Options& options = {}) {
  return Session::from_memory("program product(" + detail::sizes({{"m", p.m}, {"k", p.k}, {"n", p.n}}) +
                                  ")\ninput A[m k] : " + p.dtype + " sparse(zeros, tile " + std::to_string(p.rows) +
                                  ", " + std::to_string(p.columns) + ")\ninput B[k n] : " + p.dtype +
                                  "\nC[m n] : " + p.dtype + " = sum[k] A[m k] * B[k n]\noutput C\n",
                              options);
}

// Y[b s n] = sum over k of X[b s k] * W[k n]; rows s >= L[b] (i32) are taken as zeros, whatever they hold.
struct RaggedLinear {
  std::int64_t b = 1, s = 1, k = 1, n = 1;
  std::string dtype = "f32";
};
inline Session ragged_linear(const RaggedLinear& p, const Options& options = {}) {
  return Session::from_memory("program ragged(" + detail::sizes({{"b", p.b}, {"s", p.s}, {"k", p.k}, {"n", p.n}}) +
                                  ")\ninput L[b] : i32\ninput X[b s k] : " + p.dtype +
                                  " sparse(lengths L)\ninput W[k n] : " + p.dtype + "\nY[b s n] : " + p.dtype +
                                  " = sum[k] X[b s k] * W[k n]\noutput Y\n",
                              options);
}

// Y[t n] = sum over j of p[t j] * (relu(X[t] V[e]) W[e]), e = g[t j] (i64, in [0, experts)); rows of one expert are
// computed together.
struct Moe {
  std::int64_t t = 1, j = 1, experts = 1, k = 1, f = 1, n = 1;
  std::string dtype = "f32";
};
inline Session moe(const Moe& p, const Options& options = {}) {
  return Session::from_memory(
      "program moe(" + detail::sizes({{"t", p.t}, {"j", p.j}, {"e", p.experts}, {"k", p.k}, {"f", p.f}, {"n", p.n}}) +
          ")\ninput X[t k] : " + p.dtype + "\ninput g[t j] : index(e)\ninput V[e k f], W[e f n], p[t j] : " + p.dtype +
          "\nU[t j f] = sum[k] X[t k] * V[g[t, j], k, f]\nH[t j f] = max(U[t j f], 0)\n"
          "Z[t j n] = sum[f] H[t j f] * W[g[t, j], f, n]\nY[t n] : " +
          p.dtype + " = sum[j] Z[t j n] * p[t j]\noutput Y\n",
      options);
}

// O[b s e] = softmax over t of (scale * Q K) V, over the keys that M[s t] (bool) lets through; a query without any is
// 0.
struct SparseAttention {
  std::int64_t b = 1, s = 1, t = 1, d = 1, e = 1;
  double scale = 0; // 0: 1 / sqrt(d)
  std::string dtype = "f32";
};
inline Session sparse_attention(const SparseAttention& p, const Options& options = {}) {
  const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.d));
  std::ostringstream factor;
  factor.imbue(std::locale::classic());
  factor << std::setprecision(17) << scale;
  return Session::from_memory(
      "program masked(" + detail::sizes({{"b", p.b}, {"s", p.s}, {"t", p.t}, {"d", p.d}, {"e", p.e}}) +
          ")\ninput Q[b s d], K[b t d], V[b t e] : " + p.dtype +
          "\ninput M[s t] : bool\nU[b s t] = sum[d] Q[b s d] * K[b t d]\nS[b s t] = " + factor.str() +
          " * U[b s t]\na[b s] = max[t] S[b s t] where M[s t]\nP[b s t] = exp(S[b s t] - a[b s]) where M[s t]\n"
          "l[b s] = sum[t] P[b s t]\nY[b s e] = sum[t] P[b s t] * V[b t e]\nO[b s e] : " +
          p.dtype + " = select(l[b s] > 0, Y[b s e] / l[b s], 0)\noutput O\n",
      options);
}

// L[i j]: whether the micro-tile i j of A[m k], of rows x columns, holds anything but zeros.
struct Detect {
  std::int64_t m = 1, k = 1, rows = 32, columns = 1;
  std::string dtype = "f32";
};
inline Session detect(const Detect& p, const Options& options = {}) {
  const std::int64_t tall = (p.m + p.rows - 1) / p.rows, wide = (p.k + p.columns - 1) / p.columns;
  return Session::from_memory(
      "program detect(" +
          detail::sizes({{"m", p.m}, {"k", p.k}, {"i", tall}, {"j", wide}, {"r", p.rows}, {"c", p.columns}}) +
          ")\ninput A[m k] : " + p.dtype + "\nL[i j] = any[r c] A[" + std::to_string(p.rows) + "*i+r, " +
          std::to_string(p.columns) + "*j+c else 0] != 0\noutput L\n",
      options);
}

} // namespace tw

#endif
