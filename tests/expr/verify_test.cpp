// The verifier: proofs of bounds and of pieces against enumeration, and every refusal provoked by a program that a pass
// could build by mistake.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "expr/random_program.h"
#include "expr/scalar.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

std::string error_of(const Program& p) {
  try {
    verify(p);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string error_of(const std::string& text) {
  try {
    parse(text, "t.tw");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// ---- bounds

struct Window { // Y[a b] = X[index] where guard
  std::int64_t a, b, dim;
  Index index;
  ScalarRef guard;
};

Program program_of(const Window& w) {
  Program p;
  p.name = "w";
  Builder build(p);
  const TensorId x = build.tensor("X", DType::f32, {w.dim}, Kind::input);
  p.inputs.push_back(x);
  p.outputs.push_back(
      build.statement("Y", DType::f32, {w.a, w.b}, build.read(x, {w.index}), Reducer::none, {}, w.guard));
  return p;
}

std::int64_t value_at(const Index& i, std::int64_t a, std::int64_t b) {
  std::int64_t sum = i.offset.constant();
  for (const Index::Term& t : i.terms) {
    auto* axis = std::get_if<AxisId>(&t.of);
    sum += t.coefficient.constant() *
           (axis ? (*axis == 0 ? a : b) : value_at(*std::get<std::shared_ptr<const Index>>(t.of), a, b));
  }
  sum = floor_div_i64(sum, i.div.constant());
  return i.mod == Size(0) ? sum : floor_mod_i64(sum, i.mod.constant());
}

TEST(Verify, BoundsOfConstantExtentsAreExact) {
  std::mt19937 random(7);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int inside = 0, outside = 0;
  for (int n = 0; n < 3000; ++n) {
    Window w{1 + below(6), 1 + below(6), 1 + below(12), {}, nullptr};
    w.index = Size(below(5) - 1) * axis_index(0) + Size(below(4) - 1) * axis_index(1) + constant_index(below(5) - 1);
    if (below(3) == 0) w.index = floor_div(w.index, 1 + below(4));
    if (below(3) == 0) w.index = floor_mod(w.index, 1 + below(6));
    if (below(3) == 0) w.index = w.index + Size(below(3) - 1) * axis_index(below(2));
    bool good = true;
    for (std::int64_t a = 0; a < w.a; ++a)
      for (std::int64_t b = 0; b < w.b; ++b) {
        const std::int64_t v = value_at(w.index, a, b);
        good = good && v >= 0 && v < w.dim;
      }
    const Program p = program_of(w);
    EXPECT_EQ(error_of(p).empty(), good) << print(p) << error_of(p);
    ++(good ? inside : outside);
  }
  EXPECT_GT(inside, 500);
  EXPECT_GT(outside, 500);
}

TEST(Verify, GuardsAreTrustedOnlyWhereTheyHold) {
  std::mt19937 random(11);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int proved = 0, refused = 0;
  for (int n = 0; n < 3000; ++n) {
    Window w{1 + below(6), 1 + below(6), 1 + below(8), {}, nullptr};
    w.index = Size(below(4) - 1) * axis_index(0) + Size(below(4) - 2) * axis_index(1) + constant_index(below(5) - 2);
    auto side = [&] {
      return binary(Op::add, binary(Op::mul, integer(below(4) - 1), axis_value(below(2))), integer(below(5) - 2));
    };
    const Op ops[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    auto condition = [&] {
      const ScalarRef left = side(), right = side();
      return binary(ops[below(6)], left, right);
    };
    w.guard = condition();
    if (below(2)) w.guard = binary(Op::logical_and, w.guard, condition());
    const Program p = program_of(w);
    const bool accepted = error_of(p).empty();
    ++(accepted ? proved : refused);
    if (!accepted) continue;
    // Every live point reads inside: the evaluator fails on one that does not.
    Values in;
    in[0] = Array::make(DType::f32, {w.dim});
    EXPECT_NO_THROW(evaluate(p, in, {}, Evaluation::typed)) << print(p);
  }
  EXPECT_GT(proved, 300);
  EXPECT_GT(refused, 300);
}

TEST(Verify, BoundsForAllSizesInRange) {
  const std::string head = "program p(n, m = n+2, k in 2..8, h, i=3, y = (h-i)//2+1, s == 4)\ninput X[n], Z[m], K[k] : "
                           "f32\ninput H[h] : f32\ninput S[s] : f32\n";
  auto of = [&](const std::string& s) { return error_of(head + s + "\noutput Y\n"); };
  EXPECT_EQ(of("Y[n] = Z[n + 2]"), "");
  EXPECT_EQ(of("Y[n] = X[size(n) - 1 - n]"), "");
  EXPECT_EQ(of("Y[n] = X[n // 2] + X[n % size(n)]"), "");
  EXPECT_EQ(of("Y[k] = K[1] + K[k // 1]"), "");
  EXPECT_NE(of("Y[k] = K[2]"), "");
  EXPECT_EQ(of("Y[y i] = H[2*y + i]"), ""); // y and i follow from h: no default of h is needed
  EXPECT_NE(of("Y[y i] = H[2*y + i + 1]"), "");
  EXPECT_EQ(of("Y[s] = S[(3*s + 1) % 4] + S[s // 2 * 2 + s % 2] + S[s - s % 2]"), "");
  EXPECT_EQ(of("Y[n] = X[n + 1] where index(n) < n - 1"), "");
  EXPECT_EQ(of("Y[n k] = X[n - k] where index(k) <= index(n)"), "");
  EXPECT_EQ(of("Y[n] = X[n + 1] where index(n) + 1 != n"), of("Y[n] = X[n + 1]")); // says nothing that is used
  EXPECT_EQ(of("Y[n k] = X[n - k] where index(k) <= index(n) or index(n) == 0"), of("Y[n k] = X[n - k]"));
}

// i32 wraps around: at index(n) = 3 the left side is negative.
TEST(Verify, GuardsThatOverflowProveNothing) {
  const std::string text = "program p(n == 4, m == 3)\ninput X[m] : f32\nY[n] = X[n] where index(n) * 1000000000 < "
                           "2999999999 - 999999999\noutput Y\n";
  EXPECT_NE(error_of(text), "");
  EXPECT_EQ(
      error_of("program p(n == 4, m == 3)\ninput X[m] : f32\nY[n] = X[n] where index(n) * 1000 < 3000\noutput Y\n"),
      "");
  EXPECT_NE(error_of("program p(n == 4, m == 3)\ninput X[m] : f32\nY[n] = X[n] where index(n) * 1000000000 < "
                     "2000000001\noutput Y\n"),
            "");
}

TEST(Verify, SizesThatDisagreeAreNamedWithBothPlaces) {
  EXPECT_EQ(error_of("program p(n, m)\ninput A[n m] : f32\ninput B[n] : f32\nY[n] = sum[m] A[n m] * B[m]\noutput Y\n"),
            "E0104 t.tw:4:24: axis m has extent m, but dim 1 of B (t.tw:3:7) has extent n (use one size for both, "
            "derive one from the other in the header, or write `else`)");
  // Rule 9: a smaller axis is legal, for all sizes in range.
  EXPECT_EQ(error_of("program p(n in 1..4, m in 4..9)\ninput B[m] : f32\nY[n] = B[n]\noutput Y\n"), "");
  const Program p = parse("program p(n=4, m=9)\ninput B[m] : f32\nY[n] = B[n]\noutput Y\n", "t.tw");
  EXPECT_NO_THROW(fix_sizes(p, {{"n", 9}}));
  try {
    fix_sizes(p, {{"n", 10}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "E0104 t.tw:3:1: axis n has extent 10, but dim 1 of B has extent 9 (use one size for "
                               "both, derive one from the other in the header, or write `else`)");
  }
}

// ---- pieces

struct Strip {
  std::int64_t low, stride, count;
};

TEST(Verify, PiecesOfConstantExtentsAreExact) {
  std::mt19937 random(3);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int good_ones = 0, bad_ones = 0;
  for (int n = 0; n < 4000; ++n) {
    const std::int64_t rows = 1 + below(5), columns = 1 + below(5);
    // Either cut recursively, which covers exactly, or strips at random; then sometimes spoil it.
    std::vector<std::pair<Strip, Strip>> boxes;
    auto cut = [&](auto&& self, Strip r, Strip c, int depth) -> void {
      Strip& part = below(2) ? r : c;
      if (depth == 0 || part.count < 2) return boxes.emplace_back(r, c), void();
      Strip rest = part;
      if (below(2)) {
        const std::int64_t at = 1 + below(static_cast<int>(part.count) - 1);
        rest = {part.low + at * part.stride, part.stride, part.count - at};
        part.count = at;
      } else {
        rest = {part.low + part.stride, part.stride * 2, part.count / 2};
        part = {part.low, part.stride * 2, (part.count + 1) / 2};
      }
      const bool is_row = &part == &r;
      self(self, r, c, depth - 1);
      self(self, is_row ? rest : r, is_row ? c : rest, depth - 1);
    };
    cut(cut, {0, 1, rows}, {0, 1, columns}, below(4));
    if (below(2)) {
      Strip& s =
          below(2) ? boxes[static_cast<std::size_t>(below(static_cast<int>(boxes.size())))].first : boxes.back().second;
      (below(3) == 0 ? s.low : below(2) ? s.stride : s.count) += below(3) - 1;
      s.count = std::max<std::int64_t>(s.count, 1);
      s.stride = std::max<std::int64_t>(s.stride, 1);
    }
    Program p;
    p.name = "p";
    Builder build(p);
    const TensorId out = build.tensor("Y", DType::f32, {rows, columns});
    std::multiset<std::pair<std::int64_t, std::int64_t>> written;
    for (const auto& [r, c] : boxes) {
      build.piece(out,
                  {Size(r.stride) * axis_index(0) + constant_index(r.low),
                   Size(c.stride) * axis_index(1) + constant_index(c.low)},
                  {r.count, c.count}, number(1));
      for (std::int64_t i = 0; i < r.count; ++i)
        for (std::int64_t j = 0; j < c.count; ++j) written.insert({r.low + i * r.stride, c.low + j * c.stride});
    }
    p.outputs.push_back(out);
    bool good = written.size() == static_cast<std::size_t>(rows * columns);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) good = good && written.count({i, j}) == 1;
    EXPECT_EQ(error_of(p).empty(), good) << print(p) << error_of(p);
    ++(good ? good_ones : bad_ones);
  }
  EXPECT_GT(good_ones, 1000);
  EXPECT_GT(bad_ones, 500);
}

TEST(Verify, PiecesForAllSizes) {
  auto of = [](const std::string& header, const std::string& pieces) {
    return error_of("program p(" + header + ")\n" + pieces + "output Y\n");
  };
  EXPECT_EQ(of("n, a, b", "Y[n, a] = 1\nY[n, b + size(a)] = 2\n"), "");
  EXPECT_NE(of("n, a, b", "Y[n, a] = 1\nY[n, b + size(a) + 1] = 2\n"), "");
  EXPECT_NE(of("n, a, b", "Y[n, a] = 1\nY[n, b + size(a) - 1] = 2\n"), "");
  EXPECT_EQ(of("h, w", "Y[2*h, 2*w] = 1\nY[2*h, 2*w+1] = 2\nY[2*h+1, 2*w] = 3\nY[2*h+1, 2*w+1] = 4\n"), "");
  EXPECT_NE(of("h, w", "Y[2*h, 2*w] = 1\nY[2*h, 2*w+1] = 2\nY[2*h+1, 2*w] = 3\nY[2*h+1, 2*w] = 4\n"), "");
  // A border, in the arrangement that no cut from edge to edge makes.
  EXPECT_EQ(of("a, b, c, d, m, k", "Y[a, b + size(k)] = 1\nY[a + size(m), b] = 2\n"
                                   "Y[m, k] = 3\nY[m + size(a), k + size(b)] = 4\n"),
            of("a, b, c, d, m, k",
               "Y[a, b + size(k)] = 1\nY[a + size(m), b] = 2\nY[m, k] = 3\nY[m + size(a), k + size(b)] = 4\n"));
  // Left open by the ranges, decided at the defaults.
  EXPECT_EQ(of("n=6, a=4, b=2", "Y[n] = 1\nZ[a] = Y[a]\nW[a] = Y[a + size(b)]\nY2[a] = Z[a] + W[a]\n"), "");
}

// ---- what a pass could get wrong

Program two_statements() {
  return parse("program p(n, k)\ninput X[n k] : f32\ninput I[n] : index(k)\nS[n] = sum[k] X[n k]\nY[n k] = X[n k] * "
               "S[n] + X[n, I[n]]\noutput Y\n",
               "t.tw");
}

Statement& statement(Program& p, std::size_t i) { return std::get<Statement>(p.nodes[i]); }

TEST(Verify, RefusesBrokenPrograms) {
  ASSERT_EQ(error_of(two_statements()), "");
  const std::pair<const char*, std::function<void(Program&)>> cases[] = {
      {"E0901 p: the result of a statement is no tensor", [](Program& p) { statement(p, 0).out = 9; }},
      {"E0107 t.tw:5:1: S is read before all of it is written", [](Program& p) { std::swap(p.nodes[0], p.nodes[1]); }},
      {"S is read and never written", [](Program& p) { p.nodes.erase(p.nodes.begin()); }},
      {"X is an input or a weight, and is written",
       [](Program& p) {
         statement(p, 0).out = 0;
         statement(p, 0).at = {axis_index(0), axis_index(1)};
         statement(p, 0).reduced.clear();
         statement(p, 0).reducer = Reducer::none;
       }},
      {"an input that is listed twice", [](Program& p) { p.inputs.push_back(0); }},
      {"an input that is not listed", [](Program& p) { p.inputs.pop_back(); }},
      {"the name X is used twice", [](Program& p) { p.tensors[1].name = "X"; }},
      {"the name n is used twice", [](Program& p) { p.tensors[1].name = "n"; }},
      {"an empty name", [](Program& p) { p.tensors[1].name = ""; }},
      {"size q in q is not a free size of the program",
       [](Program& p) { statement(p, 0).axes[1] = Size::symbol("q"); }},
      {"an axis of extent -1", [](Program& p) { statement(p, 0).axes[1] = -1; }},
      {"reduced axes without a reducer", [](Program& p) { statement(p, 0).reducer = Reducer::none; }},
      {"reduced axes without a reducer, or the reverse", [](Program& p) { statement(p, 1).reducer = Reducer::sum; }},
      {"a reduced axis that is none",
       [](Program& p) {
         statement(p, 0).reduced = {1, 1};
       }},
      {"a reduced axis that is none", [](Program& p) { statement(p, 0).reduced = {5}; }},
      {"axis k is neither on the left side nor reduced",
       [](Program& p) {
         statement(p, 0).reduced.clear();
         statement(p, 0).reducer = Reducer::none;
       }},
      {"axis n stands twice on the left side, or is reduced", [](Program& p) { statement(p, 0).reduced = {0}; }},
      {"S is written with 2 indices and has 1 dims",
       [](Program& p) { statement(p, 0).at.push_back(constant_index(0)); }},
      {"a left side is stride * axis + offset",
       [](Program& p) { statement(p, 1).at[1] = floor_div(axis_index(1), 2); }},
      {"X is read with 1 indices and has 2 dims",
       [](Program& p) {
         statement(p, 0).body =
             std::make_shared<Scalar>(Scalar{Op::read, DType::f32, {}, Access{0, {axis_index(0)}, nullptr}});
       }},
      {"an index over no axis",
       [](Program& p) {
         statement(p, 0).body = read(p, 0, {axis_index(0), axis_index(7)});
       }},
      {"an access to no tensor",
       [](Program& p) {
         statement(p, 0).body = std::make_shared<Scalar>(Scalar{Op::read, DType::f32, {}, Access{33, {}, nullptr}});
       }},
      {"a read with another type than its tensor", [](Program& p) { p.tensors[0].dtype = DType::f16; }},
      {"a missing part of a body", [](Program& p) { statement(p, 0).body = nullptr; }},
      {"+ gives f32, not i32",
       [](Program& p) {
         auto s = std::make_shared<Scalar>(*statement(p, 1).body);
         s->dtype = DType::i32;
         statement(p, 1).body = s;
       }},
      {"* of f32 and i32",
       [](Program& p) {
         statement(p, 0).body =
             std::make_shared<Scalar>(Scalar{Op::mul, DType::f32, {statement(p, 0).body, integer(2)}, {}});
       }},
      {"exp of i32",
       [](Program& p) {
         statement(p, 0).body = std::make_shared<Scalar>(Scalar{Op::exp, DType::i32, {axis_value(0)}, {}});
       }},
      {"with 1 arguments",
       [](Program& p) {
         statement(p, 0).body = std::make_shared<Scalar>(Scalar{Op::add, DType::f32, {number(1)}, {}});
       }},
      {"a constant without its value",
       [](Program& p) {
         statement(p, 0).body = std::make_shared<Scalar>(Scalar{Op::constant, DType::f32, {}, std::int64_t{1}});
       }},
      {"the value of no axis", [](Program& p) { statement(p, 0).body = axis_value(4); }},
      {"size q in q is not a free size",
       [](Program& p) { statement(p, 1).body = cast(size_value(Size::symbol("q")), DType::f32); }},
      {"`where` takes a condition", [](Program& p) { statement(p, 0).guard = number(1); }},
      {"whose elements are f32",
       [](Program& p) {
         p.tensors[1].dtype = DType::f32;
         p.tensors[1].index_of.reset();
       }},
      {"an index type on elements that are f32", [](Program& p) { p.tensors[1].dtype = DType::f32; }},
      {"index I[n] runs from 0 to k", [](Program& p) { p.tensors[1].index_of = Size::symbol("k") + 1; }},
      {"a program without outputs", [](Program& p) { p.outputs.clear(); }},
      {"an output is no tensor", [](Program& p) { p.outputs = {17}; }},
      {"the range of size n is 5..2",
       [](Program& p) {
         p.sizes[0].range = {5, 2};
       }},
      {"size n is 99, outside 1..9",
       [](Program& p) {
         p.sizes[0].range = {1, 9};
         p.sizes[0].value = Size(99);
       }},
      {"size n is derived from k, which is not an earlier size",
       [](Program& p) { p.sizes[0].value = Size::symbol("k") + 1; }},
      {"Y is f32 and is stored in I, which is i64", [](Program& p) { p.tensors[3].stored_in = 1; }},
      {"is stored in X and is no output", [](Program& p) { p.tensors[2].stored_in = 0; }},
      {"a dim of -3", [](Program& p) { p.tensors[0].dims[0] = -3; }},
      {"a statement whose axes have no names", [](Program& p) { statement(p, 0).names.pop_back(); }},
      {"an index divided by k-1, which may be zero",
       [](Program& p) {
         statement(p, 0).body = read(p, 0, {axis_index(0), floor_div(axis_index(1), Size::symbol("k") - 1)}, number(0));
       }},
  };
  for (const auto& [wanted, spoil] : cases) {
    Program p = two_statements();
    spoil(p);
    EXPECT_NE(error_of(p).find(wanted), std::string::npos) << wanted << "\n  but: " << error_of(p);
  }
}

TEST(Verify, OpaqueStatements) {
  Program p = parse("program p(n)\ninput X[n] : f32\nopaque W[n] : f32 = f(X)\nY[n] = W[n]\noutput Y\n", "t.tw");
  EXPECT_EQ(error_of(p), "");
  Program twice = p;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_NE(error_of(twice).find("W is written by an opaque statement and by another"), std::string::npos)
      << error_of(twice);
  Program unnamed = p;
  std::get<Opaque>(unnamed.nodes[0]).op = "";
  EXPECT_NE(error_of(unnamed).find("without a name"), std::string::npos);
  std::swap(p.nodes[0], p.nodes[1]);
  EXPECT_NE(error_of(p).find("W is read before"), std::string::npos);
}

// ---- sizes

TEST(FixSizes, GivesEveryExtentANumber) {
  const Program p = parse(
      "program p(n, m=3, k = 2*n+m, c == 5, h in 2..6)\ninput X[k c h] : f32\nY[n m] = X[2*n, 0, 0] / k\noutput Y\n",
      "t.tw");
  const Program q = fix_sizes(p, {{"n", 4}, {"h", 2}});
  EXPECT_EQ(q.tensor(0).dims[0], Size(11));
  EXPECT_EQ(q.sizes[2].value, Size(11));
  EXPECT_EQ(print(q), "program p(n == 4, m == 3, k == 11, c == 5, h == 2)\ninput X[k c h] : f32\nY[n m] : f32 = X[2*n, "
                      "0, 0] / 11\noutput Y\n");
  EXPECT_TRUE(same(fix_sizes(q, {}), q));
  EXPECT_TRUE(same(fix_sizes(q, {{"n", 4}}), q));
  auto error = [&](const Program& of, const Binding& sizes) -> std::string {
    try {
      fix_sizes(of, sizes);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(p, {}), "E0106 size n has no value (give it with --size n=N)");
  EXPECT_EQ(error(p, {{"n", 4}, {"h", 7}}), "E0106 size h is 7, outside 2..6");
  EXPECT_EQ(error(p, {{"n", 0}, {"h", 2}}), "E0106 size n is 0, outside 1..2147483648");
  EXPECT_EQ(error(p, {{"n", 4}, {"h", 2}, {"k", 11}}),
            "E0106 size k is derived: m+2*n, and cannot be given (sizes that can be given: n, m, c, h)");
  EXPECT_EQ(error(p, {{"n", 4}, {"h", 2}, {"z", 1}}),
            "E0102 no size z in program p (sizes that can be given: n, m, c, h)");
  EXPECT_EQ(error(p, {{"n", 4}, {"h", 2}, {"c", 6}}), "E0106 size c is 6, outside 5..5");
  EXPECT_EQ(error(q, {{"n", 5}}), "E0106 size n is 5, outside 4..4");
  const Program derived = parse("program p(h, y = h-3)\ninput X[h] : f32\nY[y] = X[y]\noutput Y\n", "t.tw");
  EXPECT_EQ(error(derived, {{"h", 3}}),
            "E0106 size y = h-3 is 0, outside 1..2147483648 (the sizes that it is derived from do not go together)");
  EXPECT_EQ(error(derived, {{"h", 4}}), "");
}

TEST(FixSizes, ValuesDoNotChange) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    testing::Random random(seed);
    const Program p = testing::random_program(random, {});
    const Binding sizes = testing::default_sizes(p);
    const Values in = testing::random_inputs(p, random);
    const Values a = evaluate(p, in, sizes, Evaluation::typed),
                 b = evaluate(fix_sizes(p, sizes), in, sizes, Evaluation::typed);
    for (TensorId out : p.outputs) {
      ASSERT_EQ(a.at(out).dims, b.at(out).dims);
      EXPECT_EQ(std::memcmp(a.at(out).data, b.at(out).data, a.at(out).bytes()), 0)
          << "seed " << seed << " " << p.tensor(out).name;
    }
  }
}

} // namespace
} // namespace tilewright
