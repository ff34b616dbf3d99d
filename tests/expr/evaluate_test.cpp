#include "expr/evaluate.h"
#include "expr/evaluate_oracle.h"
#include "expr/random_program.h"
#include "expr/rough_program.h"
#include "support/error.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tilewright {
namespace {

using testing::Random;
constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

bool long_run() { return std::getenv("TILEWRIGHT_LONG") != nullptr; }

// ---- against the oracle

// The first element that differs, or nothing. NaNs are equal to NaNs.
std::string difference(const Program& p, const Values& got, const Values& want) {
  for (const auto& [id, w] : want) {
    if (!got.count(id)) return p.tensor(id).name + " is missing";
    const Array& g = got.at(id);
    if (g.dtype != w.dtype || g.dims != w.dims) return p.tensor(id).name + " has another type or shape";
    for (std::int64_t i = 0; i < w.count(); ++i) {
      std::size_t bytes = bytes_of(w.dtype), at = static_cast<std::size_t>(i) * bytes;
      if (std::memcmp(g.data + at, w.data + at, bytes) == 0) continue;
      oracle::Number a = oracle::Point::element(g, i), b = oracle::Point::element(w, i);
      if (a.floating() && std::isnan(a.real) && std::isnan(b.real)) continue;
      if (w.dtype == DType::boolean && a.whole == b.whole) continue; // an input of 2 or 255 is true
      return p.tensor(id).name + "[" + std::to_string(i) +
             "]: " + std::to_string(a.floating() ? a.real : double(a.whole)) + ", not " +
             std::to_string(b.floating() ? b.real : double(b.whole)) + " (" + std::string(name_of(w.dtype)) + ")";
    }
  }
  return {};
}

std::optional<Values> oracle_values(const Program& p, const Values& in, const Binding& sizes, Evaluation mode) {
  try {
    return oracle::evaluate(p, in, sizes, mode);
  } catch (const oracle::Fault&) {
    return std::nullopt;
  }
}

TEST(Evaluate, RandomProgramsEqualTheOracle) {
  const int cases = long_run() ? 20000 : 500;
  for (int seed = 0; seed < cases; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    testing::RandomOptions options;
    if (seed % 5 == 0) options.max_extent = 19;
    Program p = testing::random_program(random, options);
    Binding sizes = testing::default_sizes(p);
    Values in = testing::random_inputs(p, random);
    for (Evaluation mode : {Evaluation::typed, Evaluation::fp64}) {
      Values want = oracle::evaluate(p, in, sizes, mode), got = evaluate(p, in, sizes, mode);
      ASSERT_EQ(difference(p, got, want), "") << "seed " << seed << (mode == Evaluation::fp64 ? " fp64" : " typed");
    }
  }
}

TEST(Evaluate, RoughStatementsEqualTheOracle) {
  const int cases = long_run() ? 100000 : 2000;
  int failed = 0, empty = 0, wide = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Random random(static_cast<std::uint64_t>(seed) + 1000000);
    testing::RoughProgram rough(random);
    Program p = rough.make();
    Values in = rough.inputs(p);
    for (Evaluation mode : {Evaluation::typed, Evaluation::fp64}) {
      std::optional<Values> want = oracle_values(p, in, {}, mode);
      if (!want) {
        ++failed;
        ASSERT_THROW(evaluate(p, in, {}, mode), Error) << "seed " << seed;
        continue;
      }
      Values got;
      ASSERT_NO_THROW(got = evaluate(p, in, {}, mode)) << "seed " << seed;
      ASSERT_EQ(difference(p, got, *want), "") << "seed " << seed << (mode == Evaluation::fp64 ? " fp64" : " typed");
      for (const auto& [id, a] : got) empty += a.count() == 0, wide += a.count() > 256;
    }
  }
  std::printf("%d rough programs in two modes: %d failed as they must, %d empty tensors, %d of more than a block\n",
              cases, failed, empty, wide);
  EXPECT_GT(failed, cases / 50);
  EXPECT_LT(failed, cases);
  EXPECT_GT(empty, 0);
  EXPECT_GT(wide, cases / 20);
}

// ---- small programs by hand

struct Case {
  Program program;
  Builder build{program};
  Values in;

  TensorId input(DType type, std::vector<std::int64_t> dims, const std::vector<double>& elements) {
    TensorId id = build.tensor("X", type, std::vector<Size>(dims.begin(), dims.end()), Kind::input);
    program.inputs.push_back(id);
    Array a = Array::make(type, std::move(dims));
    for (std::size_t i = 0; i < elements.size(); ++i) testing::put(a, static_cast<std::int64_t>(i), elements[i]);
    in[id] = a;
    return id;
  }
  Values run(Evaluation mode = Evaluation::typed) const { return evaluate(program, in, {}, mode); }
  std::vector<double> values(TensorId id, Evaluation mode = Evaluation::typed) const {
    Array a = run(mode).at(id);
    std::vector<double> result;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      oracle::Number n = oracle::Point::element(a, i);
      result.push_back(n.floating() ? n.real : static_cast<double>(n.whole));
    }
    return result;
  }
};

using List = std::vector<double>;
Index ax(AxisId a) { return axis_index(a); }
ScalarRef times(ScalarRef a, ScalarRef b) { return binary(Op::mul, std::move(a), std::move(b)); }

template <class F> Error error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(Code::internal, "", "");
}

List count_up(int from, int n) {
  List v;
  for (int i = 0; i < n; ++i) v.push_back(from + i);
  return v;
}

// Y[y x] = sum[i j] X[s*y+i-p, s*x+j-p else 0]
TensorId box3(Case& c, TensorId x, std::int64_t out, std::int64_t stride, std::int64_t pad) {
  auto at = [&](AxisId a, AxisId i) { return Size(stride) * ax(a) + ax(i) - constant_index(pad); };
  return c.build.statement("Y", DType::f32, {out, out, 3, 3}, c.build.read(x, {at(0, 2), at(1, 3)}, number(0)),
                           Reducer::sum, {2, 3});
}

TEST(Evaluate, PointwiseThenDepthwise) {
  Case c;
  List x = count_up(1, 9);
  x.insert(x.end(), 9, 1.0);
  TensorId data = c.input(DType::f32, {2, 3, 3}, x), w = c.input(DType::f32, {2}, {1, -1});
  TensorId mid =
      c.build.statement("M", DType::f32, {3, 3, 2},
                        times(c.build.read(data, {ax(2), ax(0), ax(1)}), c.build.read(w, {ax(2)})), Reducer::sum, {2});
  TensorId y = box3(c, mid, 3, 1, 1);
  EXPECT_EQ(c.values(y), (List{8, 15, 12, 21, 36, 27, 20, 33, 24}));
}

TEST(Evaluate, StridedDepthwise) {
  Case c;
  TensorId x = c.input(DType::f32, {4, 4}, count_up(0, 16));
  TensorId after = box3(c, x, 2, 2, 0), around = box3(c, x, 2, 2, 1);
  EXPECT_EQ(c.values(after), (List{45, 39, 66, 50}));
  EXPECT_EQ(c.values(around), (List{10, 24, 51, 90}));
}

TEST(Evaluate, PaddingIsZeroNotTheBias) {
  Case c;
  TensorId x = c.input(DType::f32, {1, 2, 2}, {1, 2, 3, 4}), w = c.input(DType::f32, {1}, {0}),
           b = c.input(DType::f32, {}, {5});
  TensorId sum =
      c.build.statement("S", DType::f32, {2, 2, 1},
                        times(c.build.read(x, {ax(2), ax(0), ax(1)}), c.build.read(w, {ax(2)})), Reducer::sum, {2});
  TensorId mid = c.build.statement("M", DType::f32, {2, 2},
                                   binary(Op::add, c.build.read(sum, {ax(0), ax(1)}), c.build.read(b, {})));
  EXPECT_EQ(c.values(box3(c, mid, 2, 1, 1)), (List{20, 20, 20, 20}));
}

// m = max x; e = exp(x - m) where live; p = e / sum e.
TEST(Evaluate, MaskedSoftmax) {
  Case c;
  TensorId x = c.input(DType::f32, {2, 4}, {1, 2, 3, 900, 0, 0, 0, 0}), n = c.input(DType::i32, {2}, {3, 0});
  auto live = [&] { return binary(Op::lt, axis_value(1), c.build.read(n, {ax(0)})); };
  ScalarRef read = c.build.read(x, {ax(0), ax(1)});
  TensorId m = c.build.statement("m", DType::f32, {2, 4}, read, Reducer::max, {1}, live());
  ScalarRef e = unary(Op::exp, binary(Op::sub, read, c.build.read(m, {ax(0)})));
  TensorId s = c.build.statement("s", DType::f32, {2, 4}, e, Reducer::sum, {1}, live());
  TensorId p = c.build.statement("p", DType::f32, {2, 4}, binary(Op::div, e, c.build.read(s, {ax(0)})), Reducer::none,
                                 {}, live());
  EXPECT_EQ(c.values(m), (List{3, -inf}));
  EXPECT_EQ(c.values(s)[1], 0);
  List got = c.values(p), exact = c.values(p, Evaluation::fp64);
  double total = std::exp(-2.0) + std::exp(-1.0) + 1;
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(exact[static_cast<std::size_t>(i)], std::exp(i - 2.0) / total);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], exact[i], 1e-7);
  EXPECT_EQ(List(got.begin() + 3, got.end()), List(5, 0));
}

TEST(Evaluate, RoundsToTheDeclaredTypeOnceAfterTheSum) {
  Case c;
  TensorId x = c.input(DType::f16, {4}, {2048, 1, 1, 1}); // in f16 steps of 2: 2048 + 1 would stay 2048
  auto sum = [&](DType type) { return c.build.statement("S", type, {4}, c.build.read(x, {ax(0)}), Reducer::sum, {0}); };
  TensorId half = sum(DType::f16), brain = sum(DType::bf16), single = sum(DType::f32);
  EXPECT_EQ(c.values(half), List{2052}); // 2051 is a tie, to even
  EXPECT_EQ(c.values(brain), List{2048});
  EXPECT_EQ(c.values(single), List{2051});
  EXPECT_EQ(c.values(half, Evaluation::fp64), List{2051});
  EXPECT_EQ(c.run(Evaluation::fp64).at(half).dtype, DType::f64);
}

TEST(Evaluate, SumsInAxisOrderInTheComputeType) {
  Case c;
  TensorId x = c.input(DType::f32, {2, 2}, {1e8, 1, -1e8, 1}); // rows first: ((1e8 + 1) - 1e8) + 1 = 1
  ScalarRef body = c.build.read(x, {ax(0), ax(1)});
  TensorId rows = c.build.statement("R", DType::f32, {2, 2}, body, Reducer::sum, {0, 1});
  TensorId columns = c.build.statement("C", DType::f32, {2, 2}, body, Reducer::sum, {1, 0});
  TensorId wide = c.build.statement("W", DType::f64, {2, 2}, body, Reducer::sum, {0, 1});
  EXPECT_EQ(c.values(rows), List{1});
  EXPECT_EQ(c.values(columns), List{2});
  EXPECT_EQ(c.values(wide), List{2});
  EXPECT_EQ(c.values(rows, Evaluation::fp64), List{2});
}

TEST(Evaluate, IntegersWrapAndSaturate) {
  Case c;
  TensorId x = c.input(DType::i32, {3}, {2147483647, -2147483648.0, 300});
  TensorId f = c.input(DType::f32, {5}, {nan, 1e20, -1e20, -2.9, 200});
  ScalarRef value = c.build.read(x, {ax(0)}), real = c.build.read(f, {ax(0)});
  TensorId next = c.build.statement("N", DType::i32, {3}, binary(Op::add, value, integer(1)));
  TensorId stored = c.build.statement("S", DType::i8, {3}, value);
  TensorId sum = c.build.statement("A", DType::i32, {3}, times(value, integer(2)), Reducer::sum, {0});
  TensorId wide = c.build.statement("B", DType::i64, {3}, value, Reducer::sum, {0});
  TensorId negated = c.build.statement("D", DType::i32, {3}, binary(Op::div, value, integer(-1)));
  TensorId bytes = c.build.statement("F", DType::i8, {5}, real), whole = c.build.statement("G", DType::i32, {5}, real);
  TensorId unsign = c.build.statement("H", DType::u8, {5}, real),
           truth = c.build.statement("I", DType::boolean, {5}, real);
  EXPECT_EQ(c.values(next), (List{-2147483648.0, -2147483647, 301}));
  EXPECT_EQ(c.values(stored), (List{-1, 0, 44}));
  EXPECT_EQ(c.values(sum), List{598}); // -2 + 0 + 600
  EXPECT_EQ(c.values(wide), List{299});
  EXPECT_EQ(c.values(negated), (List{-2147483647, -2147483648.0, -300}));
  EXPECT_EQ(c.values(bytes), (List{0, 127, -128, -2, 127}));
  EXPECT_EQ(c.values(whole), (List{0, 2147483647, -2147483648.0, -2, 200}));
  EXPECT_EQ(c.values(unsign), (List{0, 255, 0, 0, 200}));
  EXPECT_EQ(c.values(truth), (List{1, 1, 1, 1, 1}));
}

TEST(Evaluate, TheFirstFloatBeyondAnIntegerTypeSaturates) {
  Case c;
  TensorId x = c.input(DType::f64, {6}, {128, 256, 0x1p31, 0x1p63, -0x1p31, -0x1p63});
  auto stored = [&](DType type) { return c.build.statement("S", type, {6}, c.build.read(x, {ax(0)})); };
  TensorId i8 = stored(DType::i8), u8 = stored(DType::u8), i32 = stored(DType::i32), i64 = stored(DType::i64);
  EXPECT_EQ(c.values(i8), (List{127, 127, 127, 127, -128, -128}));
  EXPECT_EQ(c.values(u8), (List{128, 255, 255, 255, 0, 0}));
  EXPECT_EQ(c.values(i32), (List{128, 256, 2147483647, 2147483647, -0x1p31, -0x1p31}));
  Array whole = c.run().at(i64);
  const std::int64_t* wide = whole.as<std::int64_t>();
  EXPECT_EQ(wide[3], INT64_MAX);
  EXPECT_EQ(wide[5], INT64_MIN);
}

TEST(Evaluate, NaNsAndFirstWinners) {
  Case c;
  TensorId x = c.input(DType::f32, {3, 4}, {1, nan, 9, nan, 5, 7, 7, 2, -0.0, 0, -0.0, 0});
  ScalarRef body = c.build.read(x, {ax(0), ax(1)});
  auto reduce = [&](Reducer r, DType t) { return c.build.statement("R", t, {3, 4}, body, r, {1}); };
  TensorId most = reduce(Reducer::argmax, DType::i32), least = reduce(Reducer::argmin, DType::i64),
           max = reduce(Reducer::max, DType::f32);
  EXPECT_EQ(c.values(most), (List{1, 1, 0}));
  EXPECT_EQ(c.values(least), (List{1, 3, 0}));
  List m = c.values(max);
  EXPECT_TRUE(std::isnan(m[0]));
  EXPECT_EQ(m[1], 7);
  EXPECT_TRUE(std::signbit(m[2])); // of equals, the first; but the identity -inf came before
}

TEST(Evaluate, ReductionsOfNothing) {
  Case c;
  TensorId x = c.input(DType::i32, {0}, {});
  ScalarRef body = c.build.read(x, {ax(1)});
  auto reduce = [&](Reducer r, DType t) { return c.build.statement("R", t, {2, 0}, body, r, {1}); };
  std::pair<TensorId, double> expected[] = {
      {reduce(Reducer::sum, DType::f32), 0},     {reduce(Reducer::prod, DType::i8), 1},
      {reduce(Reducer::any, DType::boolean), 0}, {reduce(Reducer::all, DType::boolean), 1},
      {reduce(Reducer::max, DType::f16), -inf},  {reduce(Reducer::max, DType::i8), -128},
      {reduce(Reducer::min, DType::u8), 255},    {reduce(Reducer::max, DType::boolean), 0}};
  for (auto [id, value] : expected) EXPECT_EQ(c.values(id), (List{value, value})) << id;
  TensorId none = c.build.statement("E", DType::f32, {0, 3}, number(1));
  EXPECT_EQ(c.values(none), List{});
  TensorId arg = reduce(Reducer::argmax, DType::i32);
  Error e = error_of([&] { c.run(); });
  EXPECT_EQ(e.code, Code::bounds);
  EXPECT_NE(e.message.find(c.program.tensor(arg).name), std::string::npos);
}

// ---- failures

TEST(Evaluate, AGatherOutOfRangeIsNamed) {
  Case c;
  TensorId w = c.input(DType::f32, {4, 2}, count_up(0, 8)), at = c.input(DType::i32, {3}, {3, 7, -1});
  Index gather;
  gather.terms.push_back({1, std::make_shared<const Access>(Access{at, {ax(0)}, nullptr})});
  ScalarRef bare = c.build.read(w, {gather, ax(1)});
  c.build.place = {12, 3, ""};
  c.build.statement("Out", DType::f32, {3, 2}, bare);
  Error e = error_of([&] { c.run(); });
  EXPECT_EQ(e.code, Code::bounds);
  EXPECT_EQ(e.where, "12:3");
  for (std::string part : {"Out", "index 7", c.program.tensor(w).name.c_str(), "extent 4"})
    EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
}

TEST(Evaluate, WhatIsNotChosenCannotFail) {
  Case c;
  TensorId w = c.input(DType::f32, {4}, count_up(1, 4)), at = c.input(DType::i32, {3}, {3, 7, -1});
  Index gather;
  gather.terms.push_back({1, std::make_shared<const Access>(Access{at, {ax(0)}, nullptr})});
  ScalarRef bare = c.build.read(w, {gather}), index = c.build.read(at, {ax(0)});
  ScalarRef good = binary(Op::logical_and, binary(Op::ge, index, integer(0)), binary(Op::lt, index, integer(4)));
  TensorId guarded = c.build.statement("G", DType::f32, {3}, bare, Reducer::none, {}, good);
  TensorId chosen = c.build.statement("C", DType::f32, {3}, select(good, bare, number(-1)));
  TensorId padded = c.build.statement("P", DType::f32, {3}, c.build.read(w, {gather}, number(9)));
  ScalarRef positive = binary(Op::gt, bare, number(0));
  TensorId both = c.build.statement("B", DType::boolean, {3}, binary(Op::logical_and, good, positive));
  TensorId quotient = c.build.statement("Q", DType::i32, {4}, binary(Op::div, integer(12), axis_value(0)), Reducer::sum,
                                        {0}, binary(Op::gt, axis_value(0), integer(0)));
  EXPECT_EQ(c.values(guarded), (List{4, 0, 0}));
  EXPECT_EQ(c.values(chosen), (List{4, -1, -1}));
  EXPECT_EQ(c.values(padded), (List{4, 9, 9}));
  EXPECT_EQ(c.values(both), (List{1, 0, 0}));
  EXPECT_EQ(c.values(quotient), List{12 + 6 + 4});
}

TEST(Evaluate, ADivisionByZeroIsAnError) {
  for (Op op : {Op::div, Op::floor_div, Op::mod}) {
    Case c;
    TensorId x = c.input(DType::i64, {3}, {1, 0, 2});
    c.build.statement("Q", DType::i64, {3}, binary(op, integer(5, DType::i64), c.build.read(x, {ax(0)})));
    Error e = error_of([&] { c.run(); });
    EXPECT_EQ(e.code, Code::input);
    EXPECT_NE(e.message.find("Q"), std::string::npos);
  }
}

TEST(Evaluate, InputsAreChecked) {
  Case c;
  TensorId x = c.input(DType::f32, {2, 3}, count_up(0, 6));
  TensorId y = c.build.statement("Y", DType::f32, {2, 3}, c.build.read(x, {ax(0), ax(1)}));
  Array good = c.in.at(x);
  c.in.erase(x);
  EXPECT_EQ(error_of([&] { c.run(); }).code, Code::input);
  c.in[x] = Array::make(DType::f32, {3, 2});
  EXPECT_NE(error_of([&] { c.run(); }).message.find("[3 2]"), std::string::npos);
  c.in[x] = Array::make(DType::f64, {2, 3});
  EXPECT_EQ(error_of([&] { c.run(); }).code, Code::input);
  EXPECT_EQ(c.values(y, Evaluation::fp64), List(6, 0)); // a float may come as f64 there
  c.in[x] = good;
  EXPECT_EQ(c.values(y), count_up(0, 6));
}

TEST(Evaluate, WhatCannotFitIsRefused) {
  Case c;
  c.build.statement("Y", DType::f32, {std::int64_t(1) << 24, std::int64_t(1) << 24}, number(1));
  EXPECT_EQ(error_of([&] { c.run(); }).code, Code::memory);
  Case d;
  d.build.statement("Y", DType::f32, {std::int64_t(1) << 40, std::int64_t(1) << 40}, number(1));
  EXPECT_EQ(error_of([&] { d.run(); }).code, Code::memory);
}

// ---- programs

TEST(Evaluate, SizesFollowBindingsShapesAndDefaults) {
  Program p;
  Builder build(p);
  Size n = Size::symbol("n"), m = Size::symbol("m");
  p.sizes = {{"n", std::nullopt, {}, false}, {"m", Size(2), {}, false}, {"k", n + m, {}, false}};
  TensorId x = build.tensor("X", DType::f32, {n}, Kind::input);
  p.inputs = {x};
  TensorId y = build.statement("Y", DType::i64, {n, m}, size_value(Size::symbol("k")), Reducer::sum, {0, 1});
  Values in = {{x, Array::make(DType::f32, {3})}};
  auto result = [&](const Binding& sizes) {
    return *evaluate(p, in, sizes, Evaluation::typed).at(y).as<std::int64_t>();
  };
  EXPECT_EQ(result({}), 3 * 2 * 5);
  EXPECT_EQ(result({{"m", 4}}), 3 * 4 * 7);
  EXPECT_EQ(error_of([&] { result({{"n", 4}}); }).code, Code::input);
  EXPECT_EQ(error_of([&] { result({{"k", 6}}); }).code, Code::size);
  p.inputs.clear();
  p.tensor(x).kind = Kind::intermediate;
  in.clear();
  EXPECT_EQ(error_of([&] { result({}); }).code, Code::size);
}

TEST(Evaluate, PiecesStateAndUnalignedWeights) {
  Program p;
  Builder build(p);
  std::vector<std::byte> bytes(9);
  float values[2] = {2, 3};
  std::memcpy(bytes.data() + 1, values, 8);
  TensorId w = build.tensor("w", DType::f32, {2}, Kind::weight);
  p.tensor(w).data = std::span<const std::byte>(bytes).subspan(1);
  TensorId x = build.tensor("X", DType::f32, {4}, Kind::input);
  p.inputs = {x};
  TensorId out = build.tensor("K", DType::f32, {4});
  p.tensor(out).stored_in = x;
  build.piece(out, {ax(0)}, {2}, build.read(w, {ax(0)}));
  build.piece(out, {ax(0) + constant_index(2)}, {1}, build.read(out, {ax(0)})); // reads the first piece
  Array in = Array::make(DType::f32, {4});
  in.as<float>()[3] = 7;
  Values result = evaluate(p, {{x, in}}, {}, Evaluation::typed);
  const float* k = result.at(out).as<float>();
  EXPECT_EQ(List(k, k + 4), (List{2, 3, 2, 0}));
  EXPECT_EQ(result.at(x).as<float>()[3], 7);
}

TEST(Evaluate, OpaqueNodesWorkOnDeclaredTypes) {
  Case c;
  TensorId x = c.input(DType::f16, {3}, {3, 1, 2});
  TensorId y = c.build.tensor("S", DType::f16, {3});
  Opaque sort{"Sort", {x}, {y}, nullptr, {}};
  c.program.nodes.emplace_back(sort);
  EXPECT_EQ(error_of([&] { c.run(); }).code, Code::unsupported);
  std::get<Opaque>(c.program.nodes[0]).reference =
      std::make_shared<const Reference>([](std::span<const Array> in, std::span<Array> out) {
        ASSERT_EQ(in[0].dtype, DType::f16);
        std::copy_n(in[0].as<std::uint16_t>(), 3, out[0].as<std::uint16_t>());
        std::sort(out[0].as<std::uint16_t>(), out[0].as<std::uint16_t>() + 3);
      });
  EXPECT_EQ(c.values(y), (List{1, 2, 3}));
  EXPECT_EQ(c.values(y, Evaluation::fp64), (List{1, 2, 3}));
}

} // namespace
} // namespace tilewright
