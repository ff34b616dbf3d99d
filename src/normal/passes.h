// The passes of normal/, each a pure function over programs whose sizes are fixed. Each keeps every output's value.
#pragma once
#include "expr/scalar.h"

namespace tilewright {

// Statements and opaque nodes whose results nobody needs go.
//   T = X + 1; Y = X * 2; output Y                        ->  Y = X * 2; output Y
Program drop_unused(Program);

// A statement that reads only weights becomes a weight, where that does not grow memory.
//   S[c] = g[c] / sqrt(v[c] + 1e-5), all weights          ->  weight S[c]
Program fold_constants(Program);
Program fold_constants_but_bytes(Program);               // what widens numbers of eight bits to floats stays, for sum_integers

// A map that only moves elements is read through, where its readers' indices stay affine or its readers are maps themselves.
//   T[a b] = X[b a];  Y[m n] = sum[k] T[m k] * W[k n]     ->  Y[m n] = sum[k] X[k m] * W[k n]
Program inline_views(Program);

// Masks written as values become guards: a select or an added term at what the reducer takes for nothing (0 under a sum; -inf, or a
// constant of -1e4 and below, under max and in the exponential of what lies below that max). A constant table that is a comparison
// of indices is read as one. Only where some point is always left, or nothing gives the same value; else the mask stays.
//   T[q x] = S[q x] + M[q x], M 0 or -1e9                 ->  T = S;  m[q] = max[x] T where index(x) <= index(q)
//   m[q] = max[x] T;  E[q x] = exp(T - m)                     E = exp(T - m) where index(x) <= index(q)
Program masks_to_guards(Program);
std::vector<std::string> masks_left(const Program& before);             // which masks it leaves, and why

// Axes of extent 1 go, and axes are split so that indices lose their quotients and remainders (at the divisors in them).
//   Y[c] = X[c // 64, c % 64], c < 384                    ->  Y[64*a + b] = X[a b], a < 6, b < 64
Program refine(Program);

// The inverse: axes that travel together in every access are one axis, and the dims along which they run one dim. Only between what
// the caller sees: the dims of inputs and outputs stay, and with them the axes of the statements that read or write them apart.
//   T[h d] = X[64*h+d] * 2;  Y[64*h+d] = T[h d] + 1       ->  T[hd] = X[hd] * 2;  Y[hd] = T[hd] + 1
Program coalesce(Program);

// A float sum of integers times scales is the scaled sum of the integers: no product of it is rounded. Where the integers are of
// few bits and the sum provably fits into i32; what is read round the edge becomes the integer that stands for 0.
//   A[m k] = f32(Q[m k] - 3) * sa;  B[k n] = f32(W[k n]) * sb[n]     ->  Y_sum[m n] : i32 = sum[k] (Q[m k] - 3) * W[k n]
//   Y[m n] = sum[k] A[m k] * B[k n]                                      Y = f32(Y_sum) * (sa * sb[n])
Program sum_integers(Program);

// What lies between an integer sum and a rounding to eight bits is one known scale, and a shift where it is no whole number of
// steps; limits go behind the rounding, and vanish where the type ends before them. Maps that only the rounding needs, or that
// widen numbers of eight bits, are read through.
//   P = f32(S) * s[n];  Y = max(P + b[n], 0);  Q : u8 = round(Y / 0.5) + 9    ->  Q = u8(max(round(f32(S + k[n]) * r[n]) + 9, 9))
Program gather_roundings(Program);

// A factor that does not run with a sum is multiplied in behind it, so that the sum is one of products and nothing else.
//   S[q x] = sum[d] Q[q d] * K[x d] / 8                   ->  S_sum[q x] = sum[d] Q[q d] * K[x d];  S = S_sum / 8
// In floats this reassociates; integers, which are exact, divide nowhere. A guard that does not run with a sum of products goes too:
//   S[x] = sum[d] Q[d] * K[x d] where index(x) < n        ->  S_sum[x] = sum[d] Q[d] * K[x d];  S = S_sum where index(x) < n
Program hoist_factors(Program);

// Zero points come out of a sum of products of integers, where what is left to do beside the product is little.
//   Y[m n] = sum[k] (A[m k] - za) * (W[k n] - 8)          ->  Y_sum[m n] = sum[k] A[m k] * W[k n];  Y_w[n] = sum[k] W[k n] - 8
//                                                             Y_a[m] = sum[k] A[m k];  Y = Y_sum - za * Y_w - 8 * Y_a
// Exact, wrap-around included. What is made of weights alone (Y_w) becomes a weight.
Program distribute_zero_points(Program);

// A per-column scale behind a sum of products with known weights goes into the weights.
//   Y = sum[c] X[c] * W[f c];  Z = Y * s[f] + t[f]        ->  Y' = sum[c] X[c] * (W[f c] * s[f]);  Z = Y' + t[f]
Program fold_scales(Program);

// The scale of a map ahead of a sum of products with known weights goes into the weights, and what it adds behind the sum; the
// latter not where the sum reads zeros round the edge, to which nothing was added.
//   A = G[c] * s[c] + t[c];  Y = sum[c] A[c] * W[f c]     ->  Y_sum = sum[c] G[c] * (W[f c] * s[c]);  Y = Y_sum + sum[c] t[c] * W[f c]
Program fold_scales_ahead(Program);

// Cheap scalar identities of the spellings that exporters use: x^2 -> x*x, sqrt(64) -> 8.
Program simplify_scalars(Program);

// ---- shared by the passes
std::vector<std::vector<StatementId>> readers_of(const Program&);      // by tensor; a node's id each, opaque nodes too
std::vector<std::vector<StatementId>> writers_of(const Program&);      // by tensor
Statement with_simple_indices(const Program&, Statement);              // every index simplified over the statement's extents
bool all_weights(const Program&, const ScalarRef&);                    // every access reads a weight with bytes
int quotients_in(const Statement&);                                     // how many indices have a div or mod

// A reduction taken in two: `sum` holds it in a tensor of its own, at its plain parallel axes; `map` stores it where the statement
// did, and its body, still to be written over `with` (each parallel axis of the statement as one of the map), may do more.
struct TakenApart { Statement sum, map; std::vector<Index> with; ScalarRef value; };
TakenApart take_apart(Builder&, const Statement&);
// `body` over the reduced axes of the statement and those parallel ones that it has, into a tensor of its own; and its value in
// the map.
struct Alone { Statement statement; ScalarRef value; };
Alone reduce_alone(Builder&, const Statement&, const TakenApart&, const ScalarRef& body, const char* suffix);

// Axes of extent 1 go: their value is 0. A reduction keeps its last axis.
Statement without_unit_axes(const Program&, const Statement&);

// One statement refined; the same statement if no split helps.
Statement refine(const Program&, const Statement&);

}  // namespace tilewright
