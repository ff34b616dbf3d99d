// Sessions against the evaluator: random programs, any strides, kept intermediates, bound sizes, cancelled runs.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "expr/random_program.h"
#include "expr/text.h"
#include "runtime/copy.h"
#include "runtime/open.h"
#include "runtime/sessions.h"

using namespace tilewright;
using tilewright::testing::random_inputs;
using tilewright::testing::random_program;

namespace {

double number(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return a.as<double>()[i];
  case DType::f32: return static_cast<double>(a.as<float>()[i]);
  case DType::f16: return static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::bf16: return static_cast<double>(bf16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::i8: return a.as<std::int8_t>()[i];
  case DType::u8:
  case DType::boolean: return a.as<std::uint8_t>()[i];
  case DType::i32: return a.as<std::int32_t>()[i];
  case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
  default: return static_cast<double>(f8_to_f32(a.as<std::uint8_t>()[i], a.dtype));
  }
}

double difference(const Array& got, const Array& want) {
  double d = 0, n = 0;
  for (std::int64_t i = 0; i < want.count(); ++i) {
    const double a = number(got, i), b = number(want, i);
    d += (a - b) * (a - b), n += b * b;
  }
  return std::sqrt(d / std::max(n, 1e-6));
}

// A session adds in another order than the evaluator and may hold a value wider, so that a narrow tensor on the way is
// rounded to a neighbour here and there. By how much that moves an output is measured: the evaluator's own distance
// from fp64, which comes of all its roundings. Two evaluations that are as good are at most twice that apart, and what
// f32 sums may differ.
double bound_of(const Array& typed, const Array& exact) {
  return is_float(typed.dtype) ? 2 * difference(typed, exact) + 1e-5 : 0;
}

TEST(Session, RandomProgramsEqualTheEvaluator) {
  const int cases = std::getenv("TILEWRIGHT_LONG") ? 2000 : 150;
  tilewright::testing::RandomOptions options;
  options.smooth = true, options.free_sizes = true;
  for (int seed = 1; seed <= cases; ++seed) {
    tilewright::testing::Random random(static_cast<std::uint64_t>(seed));
    const Program p = random_program(random, options);
    const Values given = random_inputs(p, random);
    const Values want = evaluate(p, given, tilewright::testing::default_sizes(p), Evaluation::typed);
    const Values exact = evaluate(p, given, tilewright::testing::default_sizes(p), Evaluation::fp64);
    std::map<std::string, Array> constants;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].kind == Kind::weight && p.tensors[t].data.empty())
        constants.emplace(p.tensors[t].name, given.at(static_cast<TensorId>(t)));
    Program bound = fix_sizes(p, tilewright::testing::default_sizes(p));
    bind_constants(bound, constants);
    SessionOptions o;
    o.threads = 1 + seed % 3, o.keep = seed % 2 == 0;
    Session session(bound, o);
    std::vector<Strided> in, out;
    std::vector<Array> results;
    for (TensorId t : bound.inputs) in.push_back(dense(given.at(t)));
    for (TensorId t : bound.outputs) results.push_back(Array::make(bound.tensor(t).dtype, dims_of(bound.tensor(t))));
    for (const Array& a : results) out.push_back(dense(a));
    session.run(in, out);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const TensorId t = bound.outputs[i];
      ASSERT_LE(difference(results[i], want.at(t)), bound_of(want.at(t), exact.at(t)))
          << bound.tensor(t).name << " of seed " << seed << "\n"
          << print(p);
    }
  }
}

// Each of many lanes is looked at: the bad index is far behind the first block.
TEST(Session, AnIndexOutsideIsFoundWhereverItIs) {
  Session session(
      parse("program p(n=5000, m=8)\ninput X[m] : f32\ninput at[n] : index(m)\nY[n] = X[at[n]]\noutput Y\n", "p.tw"));
  Array x = Array::make(DType::f32, {8}),
        at = Array::make(session.program().tensor(session.program().inputs[1]).dtype, {5000}),
        y = Array::make(DType::f32, {5000});
  const auto set = [&](std::int64_t i, std::int64_t v) {
    at.dtype == DType::i64 ? at.as<std::int64_t>()[i] = v : at.as<std::int32_t>()[i] = static_cast<std::int32_t>(v);
  };
  for (std::int64_t i = 0; i < 8; ++i) x.as<float>()[i] = static_cast<float>(i);
  for (std::int64_t i = 0; i < 5000; ++i) set(i, i % 8);
  session.run({dense(x), dense(at)}, {dense(y)});
  EXPECT_EQ(y.as<float>()[4999], 7);
  for (std::int64_t bad : {0, 255, 256, 700, 2300, 4999}) {
    set(bad, 8);
    EXPECT_THROW(session.run({dense(x), dense(at)}, {dense(y)}), Error) << bad;
    set(bad, 0);
  }
}

// What counts the rows of an output is kept to the end, and told; arrays lie as the caller wants them.
TEST(Session, TellsHowManyRowsAreResults) {
  const Program p = parse("program p(r=3, n=300)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m + 1\n"
                          "Y[r n] = 2 * X[r n]\nZ[n] = sum[r] Y[r n]\nW[n] = Z[n] * index(n)\noutput Y[r found], W[found], X\n",
                          "p.tw");
  Array x = Array::make(DType::f32, {3, 300}), m = Array::make(DType::i64, {}), y = Array::make(DType::f32, {300, 3}),
        w = Array::make(DType::f32, {300}), again = Array::make(DType::f32, {3, 300});
  for (std::int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i % 17);
  for (int threads : {1, 3}) {
    SessionOptions o;
    o.threads = threads;
    Session session(p, o);
    for (std::int64_t rows : {0, 1, 7, 299, 300}) {
      *m.as<std::int64_t>() = rows - 1;
      const auto dims = session.run({dense(x), dense(m)}, {{DType::f32, {3, 300}, {1, 3}, y.data}, dense(w), dense(again)});
      ASSERT_EQ(dims, (std::vector<std::vector<std::int64_t>>{{3, rows}, {rows}, {3, 300}}));
      const Values want = evaluate(p, {{p.inputs[0], x}, {p.inputs[1], m}}, {}, Evaluation::typed);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t r = 0; r < 3; ++r)
          ASSERT_EQ(y.as<float>()[i * 3 + r], want.at(p.outputs[0]).as<float>()[r * rows + i]);
        ASSERT_EQ(w.as<float>()[i], want.at(p.outputs[1]).as<float>()[i]);
      }
    }
    for (std::int64_t bad : {-2, 300}) {
      *m.as<std::int64_t>() = bad;
      EXPECT_THROW(session.run({dense(x), dense(m)}, {{DType::f32, {3, 300}, {1, 3}, y.data}, dense(w), dense(again)}), Error);
    }
  }
}

struct Softmax : ::testing::Test {
  Program program = parse("program p(n=8, c=50)\ninput X[n c] : f32\nP[n c] = softmax[c] X[n c]\n"
                          "Y[n] = max[c] P[n c]\noutput Y\n",
                          "p.tw");
  Array x = Array::make(DType::f32, {8, 50}), y = Array::make(DType::f32, {8});
  void SetUp() override {
    for (std::int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = std::sin(static_cast<float>(i) * 1.7f) * 3;
  }
};

TEST_F(Softmax, KeepsWhatLiesBetweenKernels) {
  SessionOptions o;
  o.keep = true;
  Session session(program, o);
  session.run({dense(x)}, {dense(y)});
  const Program& p = session.program();
  Values inputs{{p.inputs[0], x}};
  const Values want = evaluate(p, inputs, {}, Evaluation::typed);
  int compared = 0;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].kind != Kind::intermediate) continue;
    const auto kept = session.intermediate(static_cast<TensorId>(t));
    if (!kept) continue;
    EXPECT_LT(difference(*kept, want.at(static_cast<TensorId>(t))), 1e-5) << p.tensors[t].name;
    ++compared;
  }
  EXPECT_GE(compared, 1);                                    // exponentials and sums stay in their kernel
}

TEST_F(Softmax, StopsWhenCancelled) {
  Session session(program);
  const std::atomic<bool> cancelled{true};
  try {
    session.run({dense(x)}, {dense(y)}, {nullptr, &cancelled, nullptr});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::interrupted);
  }
  session.run({dense(x)}, {dense(y)});
  EXPECT_GT(y.as<float>()[0], 0);
}

TEST_F(Softmax, TimesEachKernel) {
  Session session(program);
  std::vector<double> seconds;
  session.run({dense(x)}, {dense(y)}, {&seconds, nullptr, nullptr});
  EXPECT_EQ(seconds.size(), session.plan().kernels.size());
  for (double s : seconds) EXPECT_GE(s, 0);
}

TEST_F(Softmax, PlansForMachinesThatItCannotRunOn) {
  SessionOptions o;
  o.machine = "h200";
  EXPECT_EQ(plan_program(program, o).machine.name, "h200");
  EXPECT_THROW(Session(program, o), Error);
  o.machine = "h2000";
  EXPECT_THROW(plan_program(program, o), Error);
  o.machine.clear(), o.threads = -1;
  EXPECT_THROW(plan_program(program, o), Error);
  o.threads = 1, o.without = {"no such pass"};
  EXPECT_THROW(plan_program(program, o), Error);
}

TEST(Sessions, BindSizesOnceEach) {
  Sessions sessions(
      parse("program p(n, c=4, d=2*c)\ninput X[n c], Q[d] : f32\nY[n c] = X[n c] * Q[c]\noutput Y\n", "p.tw"), {});
  const auto bound = [&](std::vector<std::vector<std::int64_t>> shapes) { return sessions.bind(shapes); };
  EXPECT_EQ(bound({{3, 4}, {8}}), (Binding{{"n", 3}, {"c", 4}}));
  EXPECT_EQ(bound({{3, 5}, {10}}), (Binding{{"n", 3}, {"c", 5}}));
  EXPECT_THROW(bound({}), Error) << "n has no value";
  EXPECT_THROW(bound({{3}, {8}}), Error);
  EXPECT_THROW(bound({{3, 4}}), Error);
  EXPECT_EQ(sessions.output_dims(0, bound({{3, 5}, {10}})), (std::vector<std::int64_t>{3, 5}));
  const auto first = sessions.session({{"n", 1}, {"c", 4}});
  EXPECT_EQ(sessions.session({{"n", 1}, {"c", 4}}), first);
  EXPECT_EQ(sessions.session(), first);
  for (std::int64_t n = 2; n < 8; ++n) EXPECT_NE(sessions.session({{"n", n}, {"c", 4}}), first);
  EXPECT_NE(sessions.session({{"n", 1}, {"c", 4}}), first) << "only the last few are kept";
}

TEST(Sessions, GivenSizesStay) {
  SessionOptions o;
  o.sizes = {{"n", 3}};
  Sessions sessions(parse("program p(n, m=n+1)\ninput X[n], Z[m] : f32\nY[n] = X[n]\noutput Y\n", "p.tw"), o);
  EXPECT_EQ(sessions.bind({}), (Binding{{"n", 3}}));
  EXPECT_THROW(sessions.bind({{4}, {5}}), Error);
  o.sizes = {{"m", 3}};
  EXPECT_THROW(Sessions(parse("program p(n, m=n+1)\ninput X[n], Z[m] : f32\nY[n] = X[n]\noutput Y\n", "p.tw"), o),
               Error);
  o.sizes = {{"n", 0}};
  EXPECT_THROW(Sessions(parse("program p(n)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n", "p.tw"), o), Error);
}

} // namespace
