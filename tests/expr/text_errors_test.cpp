// One program for every error message of the text language: what is wrong, where, and the way out.
#include <gtest/gtest.h>

#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

struct Case {
  const char* text;
  const char* what;
};

std::string error_of(const std::string& text) {
  try {
    parse(text, "t.tw");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Whole files.
const Case files[] = {
    {"", "E0101 t.tw:1:1: no program in this file (a program begins with `program NAME(sizes)`)"},
    {"# only a comment\n", "E0101 t.tw:2:1: no program in this file (a program begins with `program NAME(sizes)`)"},
    {"prog p()\n", "E0101 t.tw:1:1: expected 'program', found 'prog'"},
    {"program (n)\n", "E0101 t.tw:1:9: expected the name of the program, found '('"},
    {"program p n\n",
     "E0101 t.tw:1:11: expected '(' after the program's name, found 'n' (a program without sizes is `program NAME()`)"},
    {"program p(n\ninput X[n] : f32\noutput X\n",
     "E0101 t.tw:2:1: expected ')' after the sizes, found the end of the line"},
    {"program p(n,)\noutput X\n", "E0101 t.tw:1:13: expected the name of a size, found ')'"},
    {"program p(n) input X[n] : f32\n",
     "E0101 t.tw:1:14: expected the end of the line after the header, found 'input'"},
    {"program p(3)\noutput X\n", "E0101 t.tw:1:11: expected the name of a size, found '3'"},
    {"program p(n in 1)\noutput X\n", "E0101 t.tw:1:17: expected '..' after the lowest value, found ')'"},
    {"program p(n in 9..2)\ninput X[n] : f32\noutput X\n",
     "E0106 t.tw:1:11: size n in 9..2: the range is empty or negative"},
    {"program p(n=-1)\ninput X[n] : f32\noutput X\n", "E0106 t.tw:1:11: size n is -1, outside 1..2147483648"},
    {"program p(n=0)\ninput X[n] : f32\noutput X\n", "E0106 t.tw:1:11: size n is 0, outside 1..2147483648 (an axis has "
                                                     "at least one point; a name used only as a size may be 0)"},
    {"program p(n, n)\noutput X\n",
     "E0102 t.tw:1:14: the name n is taken: see t.tw:1:11 (tensors and sizes share one name space)"},
    {"program p(sum)\noutput X\n",
     "E0101 t.tw:1:11: expected the name of a size, found 'sum' ('sum' is reserved; quote it to use it as a name)"},
    {"program p(n, m=q+1)\ninput X[n] : f32\noutput X\n",
     "E0102 t.tw:1:16: unknown name q: expected an earlier size (every axis and size stands in the header)"},
    {"program p(n, m=n//0)\ninput X[n] : f32\noutput X\n",
     "E0105 t.tw:1:17: '//' by 0 (indices are divided by positive sizes)"},
    {"program p(n, m=n in 1..3)\ninput X[n] : f32\noutput X\n",
     "E0106 t.tw:1:14: size m is derived and has a range (ranges belong to free sizes)"},
    {"program p(n, m==n)\ninput X[n] : f32\noutput X\n",
     "E0106 t.tw:1:14: size m == a size that depends on others (write m = ... for a derived size)"},
    {"program p(n=5 in 1..3)\ninput X[n] : f32\noutput X\n", "E0106 t.tw:1:11: size n is 5, outside 1..3"},
    {"program p(n=9000000000)\ninput X[n] : f32\noutput X\n",
     "E0106 t.tw:1:11: size n is 9000000000, outside 1..2147483648"},
    {"program p(n=99999999999999999999)\ninput X[n] : f32\noutput X\n",
     "E0101 t.tw:1:13: integer 99999999999999999999 does not fit 64 bits"},
    {"program p(n=4611686018427387904*4)\ninput X[n] : f32\noutput X\n",
     "E0106 t.tw:1:11: a size leaves 64 bits (make the sizes smaller)"},
    {"program p(n)\ninput X[n]\noutput X\n", "E0101 t.tw:3:1: expected ':' after the declared names, found the end of "
                                             "the line (a declaration ends with a type: `input X[n c] : f32`)"},
    {"program p(n)\ninput X[n] : f33\noutput X\n", "E0101 t.tw:2:14: expected a type, found 'f33' (f64 f32 f16 bf16 "
                                                   "f8e4m3 f8e5m2 i8 u8 i32 i64 bool, or index(NAME))"},
    {"program p(n)\ninput X[q] : f32\noutput X\n",
     "E0102 t.tw:2:9: unknown name q: expected a size of the header (every axis and size stands in the header)"},
    {"program p(n)\ninput X[n], X[n] : f32\noutput X\n",
     "E0102 t.tw:2:13: the name X is taken: see t.tw:2:7 (tensors and sizes share one name space)"},
    {"program p(n)\ninput n[n] : f32\noutput n\n",
     "E0102 t.tw:2:7: the name n is taken: see t.tw:1:11 (tensors and sizes share one name space)"},
    {"program p(n)\ninput X[n+1] : f32\noutput X\n", "E0101 t.tw:2:10: expected ']' after the axes of X, found '+' "
                                                     "(the axes of a declaration are names of sizes in the header)"},
    {"program p(n)\ninput X[n] : index n\noutput X\n",
     "E0101 t.tw:2:20: expected '(' after 'index', found 'n' (an index type names what it indexes: index(v))"},
    {"program p(n)\ninput X[n] : f32 sparse(zero)\noutput X\n",
     "E0101 t.tw:2:25: expected zeros, mask NAME or lengths NAME, found 'zero'"},
    {"program p(n)\ninput X[n] : f32 sparse(mask M)\noutput X\n",
     "E0102 t.tw:2:30: unknown name M: expected a tensor (every axis and size stands in the header)"},
    {"program p(n)\ninput L[n] : f32\ninput X[n n] : f32 sparse(lengths L)\noutput X\n",
     "E0103 t.tw:3:7: lengths L are f32 (lengths are integers)"},
    {"program p(n)\ninput X[n] : f32 sparse(zeros, tile 0, 1)\noutput X\n", "E0106 t.tw:2:7: a tile of 0 by 1"},
    {"program p(n)\ninput X[n] : f32\n",
     "E0101 t.tw:3:1: expected a statement or 'output', found the end of the file (a program ends with `output NAME`)"},
    {"program p(n)\ninput X[n] : f32\noutput Q\n",
     "E0102 t.tw:3:8: unknown name Q: expected the name of a tensor (every axis and size stands in the header)"},
    {"program p(n)\ninput X[n] : f32\noutput X = X\n",
     "E0102 t.tw:3:12: an output that is computed can be stored in the buffer of an input; this is X = X"},
    {"program p(n)\ninput X[n] : f32\nY[n] = X[n]\noutput Y = Q\n",
     "E0102 t.tw:4:12: unknown name Q: expected the name of an input (every axis and size stands in the header)"},
    {"program p(n, k)\ninput X[n], K[k] : f32\nY[n] = X[n]\noutput Y = K\n",
     "E0104 t.tw:3:1: Y and K, in which it is stored, differ in extents"},
    {"program p(n, k)\ninput X[n], K[n] : f16\nY[n] : f32 = X[n]\noutput Y = K\n",
     "E0103 t.tw:3:1: Y is f32 and is stored in K, which is f16"},
};

// Statements after five lines of declarations.
const std::string head = "program p(n, k=4, m in 1..8)\ninput X[n k], Y[n] : f32\ninput I[n] : index(k)\ninput J[n] : "
                         "i64\ninput B[n] : bool\n",
                  tail = "\noutput Z\n";

const Case statements[] = {
    {"Z[n] = X[n k", "E0101 t.tw:7:1: expected an axis name or ']', found the end of the line (indices parted by "
                     "blanks are bare names only; part them all with commas)"},
    {"Z[n] = X[n, k", "E0101 t.tw:7:1: expected ']' after the indices of X, found the end of the line"},
    {"Z[n k] = X[n, k, n]", "E0104 t.tw:6:10: X has 2 dims and is read with 3 indices"},
    {"Z[n k] = X[k n]", "E0104 t.tw:6:10: axis k has extent k, but dim 1 of X (t.tw:2:7) has extent n (use one size "
                        "for both, derive one from the other in the header, or write `else`)"},
    {"Z[n] = Q[n]", "E0102 t.tw:6:8: unknown name Q: expected a tensor (every axis and size stands in the header)"},
    {"Z[n] = y[n]", "E0102 t.tw:6:8: unknown name y: expected a tensor (did you mean Y?)"},
    {"Z[n] = Y", "E0104 t.tw:6:8: Y has 1 dim and is read without indices (write Y[...] with one index a dim)"},
    {"Z[n] = Y[k]", "E0102 t.tw:6:10: axis k is neither on the left side nor reduced (inside brackets a bare name is "
                    "an index; its extent is size(k))"},
    {"Z[q] = Y[n]",
     "E0102 t.tw:6:3: unknown name q: expected a size of the header (every axis and size stands in the header)"},
    {"Z[n] = Y[n+1]",
     "E0105 t.tw:6:8: index n+1 runs from 1 to n and leaves its tensor for some sizes in range: dim 1 of Y (t.tw:2:15) "
     "has extent n (give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n] = Y[n k]", "E0104 t.tw:6:8: Y has 1 dim and is read with 2 indices"},
    {"Z[n k] = X[n, k+1]",
     "E0105 t.tw:6:10: index k+1 runs from 1 to k and leaves its tensor at k = 4: dim 2 of X (t.tw:2:7) has extent k "
     "(give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n k] = X[n, k-1]",
     "E0105 t.tw:6:10: index k-1 runs from -1 to k-2 and leaves its tensor at k = 4: dim 2 of X (t.tw:2:7) has extent "
     "k (give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n k] = X[n, 2*k]",
     "E0105 t.tw:6:10: index 2*k runs from 0 to 2*k-2 and leaves its tensor at k = 4: dim 2 of X (t.tw:2:7) has extent "
     "k (give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n] = sum[n] Y[n]",
     "E0104 t.tw:6:12: axis n is on the left side or is reduced twice (a reduced axis is gone from the result)"},
    {"Z[n] = sum[k k] X[n k]",
     "E0104 t.tw:6:14: axis k is on the left side or is reduced twice (a reduced axis is gone from the result)"},
    {"Z[n n] = Y[n]", "E0104 t.tw:6:5: axis n stands twice on the left side"},
    {"Z[n, n+1] = Y[n]", "E0104 t.tw:6:6: axis n stands twice on the left side"},
    {"Z[n+k] = X[n k]", "E0104 t.tw:6:1: the axes of a dim on the left side are not the digits of one number (write "
                        "64*h + d with d < 64: each element once, without gaps)"},
    {"Z[n//2] = Y[n]",
     "E0104 t.tw:6:4: a left side is stride * axis + offset in each dim (views and gathers belong to the right side)"},
    {"Z[I[n]] = Y[n]",
     "E0104 t.tw:6:3: an element of a tensor on the left side (there is no scatter; the right side may gather)"},
    {"Z[n] = Y[I[n]]",
     "E0105 t.tw:6:8: index I[n] runs from 0 to k-1 and leaves its tensor for some sizes in range: dim 1 of Y "
     "(t.tw:2:15) has extent n (give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n] = X[n, I[n]+1]",
     "E0105 t.tw:6:8: index I[n]+1 runs from 1 to k and leaves its tensor at k = 4: dim 2 of X (t.tw:2:7) has extent k "
     "(give the value outside with `else`, or exclude those points with `where`)"},
    {"Z[n] = X[n, Y[n]]", "E0103 t.tw:6:13: an index by Y, whose elements are f32 (index with an integer tensor)"},
    {"Z[n] = X[n, n*n]", "E0105 t.tw:6:14: '*' of an axis, where a size is needed (an index is linear: size * axis)"},
    {"Z[n] = X[n, 1.5]", "E0101 t.tw:6:13: index 1.5 is not an integer"},
    {"Z[n] = X[n, n/2]", "E0101 t.tw:6:14: '/' in an index (indices are integers: // rounds down)"},
    {"Z[n] = X[n, n^2]", "E0101 t.tw:6:14: '^' in an index (write a product)"},
    {"Z[n] = X[n, exp(n)]", "E0101 t.tw:6:13: a function call in an index: exp (indices know + - * // % min max; write "
                            "other functions to an integer tensor and index with it)"},
    {"Z[n] = X[n, n//0]", "E0105 t.tw:6:14: '//' by 0 (indices are divided by positive sizes)"},
    {"Z[n] = X[n, n%k]", "E0102 t.tw:6:15: axis k is neither on the left side nor reduced (inside brackets a bare name "
                         "is an index; its extent is size(k))"},
    {"Z[n] = X[n n k]", "E0104 t.tw:6:8: X has 2 dims and is read with 3 indices"},
    {"Z[n k] = X[n, k n]", "E0101 t.tw:6:17: expected ',' or ']' after an index, found 'n' (indices parted by blanks "
                           "are bare names only; part them all with commas)"},
    {"Z[n k] = X[n k, 0]", "E0101 t.tw:6:15: expected an axis name or ']', found ',' (indices parted by blanks are "
                           "bare names only; part them all with commas)"},
    {"Z[n] = Z[n]", "E0107 t.tw:6:8: Z reads itself (there is no recurrence; give the result another name)"},
    {"Z[n] = W[n]\nW[n] = Y[n]", "E0107 t.tw:6:8: W is read before it is written at t.tw:7:1 (statements stand in the "
                                 "order in which they are computed)"},
    {"Z[0] = 1\nW[n] = Z[0] + Y[n]\nZ[1] = 2",
     "E0107 t.tw:8:1: a piece of Z after Z was read (all pieces of a tensor stand before its first use)"},
    {"Z[n] = Y[n]\nZ[n] = Y[n]",
     "E0104 t.tw:7:1: the pieces of Z are not shown to cover it once: it may meet the piece that begins at [0] (pieces "
     "must be disjoint and leave no gap, for all sizes in range)"},
    {"Z[n, 0] = Y[n]\nZ[n, 2] = Y[n]",
     "E0104 t.tw:7:1: the pieces of Z are not shown to cover it once: the pieces hold 2*n of 3*n elements (pieces must "
     "be disjoint and leave no gap, for all sizes in range)"},
    {"Z[n, 0] = Y[n]\nZ[n, 0] = Y[n]",
     "E0104 t.tw:7:1: the pieces of Z are not shown to cover it once: it may meet the piece that begins at [0, 0] "
     "(pieces must be disjoint and leave no gap, for all sizes in range)"},
    {"Z[n, 0] = Y[n]\nZ[n] = Y[n]", "E0104 t.tw:7:1: this piece of Z has 1 dim, the one at t.tw:6:1 has 2"},
    {"Z[n, 0] : f16 = Y[n]\nZ[n, 1] : f32 = Y[n]",
     "E0103 t.tw:7:11: the pieces of Z have different types: see t.tw:6:1 (declare one type)"},
    {"Y[n] = 1\nZ[n]=1", "E0102 t.tw:6:1: the name Y is taken: see t.tw:2:15 (tensors and sizes share one name space)"},
    {"Z[2*n] = Y[n]", "E0104 t.tw:6:1: Z is not written exactly once: the pieces hold n of 2*n-1 elements"},
    {"Z[n+1] = Y[n]", "E0104 t.tw:6:1: Z is not written exactly once: the pieces hold n of n+1 elements"},
    {"Z[-n] = Y[n]", "E0104 t.tw:6:1: the stride -1 of axis n is not positive"},
    {"Z[n-1] = Y[n]", "E0104 t.tw:6:1: Z is not written exactly once: it writes from -1 to n-2 in dim 1 of extent n-1"},
    {"Z[n] = Y[n] where n < k", "E0102 t.tw:6:21: a condition on sizes alone: n is an extent here (outside brackets a "
                                "bare name is an extent; the index is index(n))"},
    {"Z[n] = Y[n] where k <= 4", "E0102 t.tw:6:21: a condition on sizes alone: k is an extent here (outside brackets a "
                                 "bare name is an extent; the index is index(k))"},
    {"Z[n] = select(n < 3, Y[n], 0)", "E0102 t.tw:6:17: a condition on sizes alone: n is an extent here (outside "
                                      "brackets a bare name is an extent; the index is index(n))"},
    {"Z[n] = Y[n] where Y[n]",
     "E0103 t.tw:6:19: `where` takes a condition, this is f32 (compare it: `where m[x] != 0`)"},
    {"Z[n] = Y[n] where index(n) < 3 < 4", "E0101 t.tw:6:32: comparisons do not chain (write `a < b and b < c`)"},
    {"Z[n] = Y[n] and B[n]", "E0103 t.tw:6:13: and of f32 and bool (compare them: x != 0)"},
    {"Z[n] = not Y[n]", "E0103 t.tw:6:8: not of f32 (compare it: x != 0)"},
    {"Z[n] = select(Y[n], 1, 0)", "E0103 t.tw:6:8: select of f32 as a condition (compare it: x != 0)"},
    {"Z[n] : i32 = Y[n]",
     "E0103 t.tw:6:1: a value of type f32 cannot be stored as i32 in Z (cast it: i32(round(...)))"},
    {"Z[n] : bool = Y[n]", "E0103 t.tw:6:1: a value of type f32 cannot be stored as bool in Z (compare it: x != 0)"},
    {"Z[n] = bitand(Y[n], 1)", "E0103 t.tw:6:8: bit_and of f32 and i32 (it takes integers)"},
    {"Z[n] = any[k] X[n k]", "E0103 t.tw:6:1: any of f32 (it takes conditions: x != 0)"},
    {"Z[n] : f32 = argmax[k] X[n k]",
     "E0103 t.tw:6:1: argmax gives an index, Z is f32 (declare it index(axis) or i64)"},
    {"Z = argmax[n k] X[n k]", "E0104 t.tw:6:1: argmax runs over one axis, not 2"},
    {"Z[n] = J[n else 0.5]", "E0103 t.tw:6:17: the `else` value of J is f32, its elements are i64 (cast the value)"},
    {"Z[n] = Y[n] + sum[k] X[n k]", "E0101 t.tw:6:15: a reduction inside an expression: sum (a reduction takes the "
                                    "whole right side; give it a statement of its own)"},
    {"Z[n] = foo(Y[n])", "E0102 t.tw:6:8: unknown function foo"},
    {"Z[n] = sqr(Y[n])", "E0102 t.tw:6:8: unknown function sqr (did you mean sqrt?)"},
    {"Z[n] = exp(Y[n], 2)", "E0101 t.tw:6:8: exp takes 1 argument, not 2"},
    {"Z[n] = exp(Y[n], eps=2)", "E0102 t.tw:6:18: exp takes no eps"},
    {"Z[n] = sum[k, eps=1] X[n k]", "E0102 t.tw:6:15: sum takes no eps"},
    {"Z[n] = softmax[k] X[n k]", "E0104 t.tw:6:16: softmax[k] keeps axis k, which is not on the left side"},
    {"Z[n k] = softmax[q] X[n k]",
     "E0102 t.tw:6:18: unknown name q: expected an axis (every axis and size stands in the header)"},
    {"Z[n] = index(k)", "E0102 t.tw:6:14: axis k is neither on the left side nor reduced (its extent is size(k))"},
    {"Z[n] = size(Y)", "E0102 t.tw:6:13: Y is a tensor: expected a size"},
    {"Z[n] = index(q)", "E0102 t.tw:6:14: unknown name q: expected an axis (every axis and size stands in the header)"},
    {"Z[n] = n[0]", "E0102 t.tw:6:8: n is a size, and is indexed"},
    {"Z[n] = (Y[n]", "E0101 t.tw:7:1: expected ')' after an expression in parentheses, found the end of the line"},
    {"Z[n] = Y[n] Y[n]", "E0101 t.tw:6:13: expected the end of the line after the statement, found 'Y'"},
    {"Z[n] = 1..2", "E0101 t.tw:6:9: expected the end of the line after the statement, found '..'"},
    {"Z[n] = 1e", "E0101 t.tw:6:8: a number runs into a letter: 1e"},
    {"Z[n] = 1e999", "E0101 t.tw:6:8: number 1e999 is outside the range of f64 (write inf for infinity)"},
    {"Z[n] = 3x", "E0101 t.tw:6:8: a number runs into a letter: 3x"},
    {"Z[n] = \"a\"", "E0101 t.tw:6:8: unexpected '\"' (names with other characters stand in single quotes)"},
    {"Z[n] = Y[n] & B[n]",
     "E0101 t.tw:6:13: unexpected '&' (write `and` and `or`; bits are bitand(a, b), bitor(a, b))"},
    {"Z[n] = !B[n]", "E0101 t.tw:6:8: unexpected '!' (write `not a`, or `a != b`)"},
    {"Z[n] = 'abc", "E0101 t.tw:6:8: a quoted name without its closing quote"},
    {"Z[n] = $", "E0101 t.tw:6:8: unexpected '$'"},
    {"Z[n] = sum",
     "E0101 t.tw:6:8: expected an expression, found 'sum' ('sum' is reserved; quote it to use it as a name)"},
    {"Z[n] = where",
     "E0101 t.tw:6:8: expected an expression, found 'where' ('where' is reserved; quote it to use it as a name)"},
    {"input = Y", "E0101 t.tw:6:7: expected the name of a tensor, found '='"},
    {"sum[n] = Y[n]", "E0101 t.tw:6:1: expected a statement, a declaration or 'output', found 'sum' ('sum' is "
                      "reserved; quote it to use it as a name)"},
    {"Z[n] = clip(Y[n], 0)", "E0101 t.tw:6:8: clip takes 3 arguments, not 2"},
    {"Z[n] = elu(Y[n], beta=1)", "E0102 t.tw:6:18: elu takes no beta (it takes alpha)"},
    {"Z[n k] = softmax[k k] X[n k]", "E0104 t.tw:6:20: axis k stands twice in softmax[...]"},
    {"Z[n k] = layernorm[k, bias=1] X[n k]",
     "E0102 t.tw:6:23: layernorm takes no bias (layernorm, rmsnorm and l2norm take eps)"},
    {"Z[n] = gelu(Y[n], Y[n])", "E0101 t.tw:6:8: gelu takes 1 argument, not 2"},
    {"Z[n] = relu()", "E0101 t.tw:6:8: relu takes 1 argument, not 0"},
    {"Z[2*n+k] = X[n k]", "E0104 t.tw:6:1: the axes of a dim on the left side are not the digits of one number (write "
                          "64*h + d with d < 64: each element once, without gaps)"},
    {"opaque W[n] = f(Y)\nZ[n]=Y[n]",
     "E0101 t.tw:6:13: expected ':' after an output of an opaque statement, found '='"},
    {"opaque W[n] : f32 = f(Q)\nZ[n]=Y[n]",
     "E0102 t.tw:6:23: unknown name Q: expected a tensor (every axis and size stands in the header)"},
    {"Z[n] = X[n, k]", "E0102 t.tw:6:13: axis k is neither on the left side nor reduced (inside brackets a bare name "
                       "is an index; its extent is size(k))"},
    {"Z[n] = Y[m]", "E0102 t.tw:6:10: axis m is neither on the left side nor reduced (inside brackets a bare name is "
                    "an index; its extent is size(m))"},
    {"Z[m] = Y[m]", "E0104 t.tw:6:8: axis m has extent m, but dim 1 of Y (t.tw:2:15) has extent n (use one size for "
                    "both, derive one from the other in the header, or write `else`)"},
    {"Z[n] = sum[n] Y[n] * 2",
     "E0104 t.tw:6:12: axis n is on the left side or is reduced twice (a reduced axis is gone from the result)"},
    {"Z[n k m] = X[n k] + Y[m-1]",
     "E0105 t.tw:6:21: index m-1 runs from -1 to m-2 and leaves its tensor for some sizes in range: dim 1 of Y "
     "(t.tw:2:15) has extent n (give the value outside with `else`, or exclude those points with `where`)"},
};

TEST(TextErrors, OfFiles) {
  for (const Case& c : files) EXPECT_EQ(error_of(c.text), c.what) << c.text;
}

TEST(TextErrors, OfStatements) {
  for (const Case& c : statements) EXPECT_EQ(error_of(head + c.text + tail), c.what) << c.text;
}

// Depth, length and size are limited, so that no text exhausts the machine.
TEST(TextErrors, HostileTextsEndInErrors) {
  auto repeated = [](const std::string& s, int n) {
    std::string all;
    for (int i = 0; i < n; ++i) all += s;
    return all;
  };
  const std::string deep = "nested deeper than 400";
  EXPECT_NE(error_of(head + "Z[n] = " + repeated("(", 100000) + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = " + repeated("-", 100000) + "1" + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = " + repeated("not ", 100000) + "1" + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = 1" + repeated(" + 1", 100000) + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = 1" + repeated("^1", 100000) + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = " + repeated("Y[n else ", 100000) + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of(head + "Z[n] = Y[" + repeated("J[", 100000) + tail).find(deep), std::string::npos);
  EXPECT_NE(error_of("program p(n=" + repeated("min(1,", 100000) + ")").find(deep), std::string::npos);
  EXPECT_NE(error_of(std::string(std::size_t{17} << 20, ' ')).find("17825792 bytes"), std::string::npos);
  std::string pieces = "program p()\n";
  for (int i = 0; i < 5000; ++i) pieces += "Z[" + std::to_string(i) + "] = 1\n";
  EXPECT_NE(error_of(pieces + "output Z\n").find("5000 pieces"), std::string::npos);
  EXPECT_NE(error_of("program p(n)\ninput X[" + repeated("n ", 100) + "] : f32\noutput X\n").find("100 dims"),
            std::string::npos);
}

TEST(TextErrors, OverflowingSizes) {
  EXPECT_NE(error_of("program p(n)\ninput X[n] : f32\nY[n] = X[n + 9223372036854775807 + 1 else 0]\noutput Y\n")
                .find("E0106"),
            std::string::npos);
  EXPECT_NE(
      error_of("program p(n)\ninput X[n] : f32\nY[n] = X[9223372036854775807*n*2 else 0]\noutput Y\n").find("E0106"),
      std::string::npos);
  const Program p = parse("program p(n, m = n*n*n)\ninput X[n] : f32\nY[n m] = X[n]\noutput Y\n", "t.tw");
  EXPECT_THROW(fix_sizes(p, {{"n", 2147483648}}), Error);
}

} // namespace
} // namespace tilewright
