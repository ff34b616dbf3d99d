#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

using EpilogueTest = OnEveryIsa;
TW_ON_EVERY_ISA(EpilogueTest);

double rounded(double x, DType type) {
  const float f = static_cast<float>(x);
  return static_cast<double>(type == DType::f16    ? f16_to_f32(f32_to_f16(f))
                             : type == DType::bf16 ? bf16_to_f32(f32_to_bf16(f))
                                                   : f);
}

double expected(const EpilogueStep& s, double x, double v) {
  const double line = std::isnan(x) ? x : std::max(0.0, std::min(1.0, double(s.a) * x + double(s.b)));
  switch (s.op) {
  case StepOp::add: return x + v;
  case StepOp::sub: return x - v;
  case StepOp::rsub: return v - x;
  case StepOp::mul: return x * v;
  case StepOp::div: return x / v;
  case StepOp::rdiv: return v / x;
  case StepOp::max: return std::isnan(x) || std::isnan(v) ? std::nan("") : std::max(x, v);
  case StepOp::min: return std::isnan(x) || std::isnan(v) ? std::nan("") : std::min(x, v);
  case StepOp::leaky: return x < 0 ? v * x : x;
  case StepOp::elu: return x < 0 ? v * std::expm1(x) : x;
  case StepOp::neg: return -x;
  case StepOp::abs: return std::abs(x);
  case StepOp::square: return x * x;
  case StepOp::sqrt: return std::sqrt(x);
  case StepOp::exp: return std::exp(x);
  case StepOp::log: return std::log(x);
  case StepOp::sigmoid: return 1 / (1 + std::exp(-x));
  case StepOp::silu: return x / (1 + std::exp(-x));
  case StepOp::hardsigmoid: return line;
  case StepOp::hardswish: return x * line;
  case StepOp::tanh: return std::tanh(x);
  case StepOp::erf: return std::erf(x);
  case StepOp::gated_erf: return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  case StepOp::softplus: return x > 30 ? x : std::log1p(std::exp(x));
  case StepOp::round: return rounded(x, s.dtype);
  case StepOp::rint: return std::nearbyint(x);
  case StepOp::gate: return v == 0 ? 0 : x * v;
  case StepOp::to_float: return x;
  }
  return 0;
}

// An identity contraction, so that the epilogue's input is known exactly: C = 1 * x.
struct Identity {
  Identity(const Kernels& leaf, std::int64_t rows, std::int64_t columns)
      : m(rows), n(columns), ones(DType::f32, rows), b(DType::f32, packed_elements(leaf, columns, 1)) {
    for (std::int64_t r = 0; r < m; ++r) ones.set(r, 1);
  }
  void run(const Kernels& leaf, Stored& x, Stored& c, const std::vector<EpilogueStep>& steps) {
    leaf.pack_b({.n = n, .k = 1, .src = x.data(), .b_k = n, .b_n = 1, .dst = b.data()});
    leaf.contract({.m = m,
                   .n = n,
                   .k = 1,
                   .a = ones.data(),
                   .a_rows = {1},
                   .b = b.data(),
                   .c = c.data(),
                   .c_type = c.type(),
                   .c_rows = {n},
                   .epilogue = {steps.data(), static_cast<int>(steps.size())}});
  }
  std::int64_t m, n;
  Stored ones, b;
};

TEST_P(EpilogueTest, EveryStepOnEveryKindOfValue) {
  const double inf = HUGE_VAL;
  const std::vector<double> values = {0.0, -0.0, 1,    -1,    0.5,   -0.5, 2.75, -2.75, 6,   -6,   20,          -20,
                                      88,  -88,  1e-6, -1e-6, 1e-30, 0.9,  -0.9, 4.2,   inf, -inf, std::nan("")};
  const std::int64_t n = static_cast<std::int64_t>(values.size()), m = 3;
  Identity identity(leaf(), m, n);
  Stored x(DType::f32, n), c(DType::f32, m * n);
  for (std::int64_t i = 0; i < n; ++i) x.set(i, values[static_cast<std::size_t>(i)]);
  for (int op = 0; op <= static_cast<int>(StepOp::rint); ++op)
    for (double v : {0.3, -1.5, std::nan("")}) {
      EpilogueStep step = {.op = static_cast<StepOp>(op), .a = static_cast<float>(v), .b = 0.5f};
      if (step.op == StepOp::round) step.dtype = v > 0 ? DType::f16 : DType::bf16;
      if (std::isnan(v) && (step.op == StepOp::hardsigmoid || step.op == StepOp::hardswish)) continue;
      identity.run(leaf(), x, c, {step});
      for (std::int64_t i = 0; i < m * n; ++i) {
        const double in = 0.0 + x.get(i % n), // the sum starts at +0

            want = static_cast<double>(static_cast<float>(expected(step, in, static_cast<double>(step.a))));
        SCOPED_TRACE("step " + std::to_string(op) + " of " + std::to_string(in) + " with " + std::to_string(v));
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(c.get(i)));
        else if (std::isinf(want))
          ASSERT_EQ(c.get(i), want);
        else
          ASSERT_NEAR(c.get(i), want, std::abs(want) * 1e-6 + 2e-7 * std::min(1.0, std::abs(in)) + 1e-37);
      }
    }
}

// Steps in any order with operands of any shape: the quick endings in registers and the general way must agree with the
// meaning.
void check_case(const Kernels& leaf, unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::int64_t m = random.in(1, 30), n = random.in(1, 80);
  Identity identity(leaf, m, n);
  Stored x(DType::f32, n), c(random.of({DType::f32, DType::f32, DType::f16, DType::bf16}), m * n);
  for (std::int64_t i = 0; i < n; ++i) x.set(i, random.real(-4, 4));
  std::vector<EpilogueStep> steps;
  std::vector<std::unique_ptr<Stored>> operands;
  std::vector<std::vector<std::int64_t>> tables;
  const int count = static_cast<int>(random.in(0, 4));
  tables.reserve(4);
  for (int i = 0; i < count; ++i) {
    EpilogueStep s;
    s.op = random.of(
        {StepOp::add, StepOp::add, StepOp::mul, StepOp::max, StepOp::min, StepOp::sub, StepOp::leaky, StepOp::rsub});
    s.a = static_cast<float>(random.real(-2, 2));
    if (random.chance(0.6)) {
      s.dtype = random.of({DType::f32, DType::f32, DType::f16, DType::bf16});
      s.column = random.chance(0.7) ? 1 : random.in(0, 2);
      s.rows.stride = random.chance(0.5) ? 0 : n * std::max<std::int64_t>(s.column, 1);
      if (random.chance(0.2)) {
        tables.emplace_back();
        for (std::int64_t r = 0; r < m; ++r) tables.back().push_back(random.in(0, 5));
        s.rows.table = tables.back().data();
      }
      const std::int64_t rows =
          s.rows.table ? *std::max_element(tables.back().begin(), tables.back().end()) : (m - 1) * s.rows.stride;
      operands.push_back(std::make_unique<Stored>(s.dtype, rows + (n - 1) * s.column + 1));
      for (std::int64_t k = 0; k < operands.back()->count(); ++k) operands.back()->set(k, random.real(-2, 2));
      s.operand = operands.back()->data();
    }
    steps.push_back(s);
  }
  identity.run(leaf, x, c, steps);
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t j = 0; j < n; ++j) {
      double want = x.get(j);
      std::size_t next = 0;
      for (const EpilogueStep& s : steps) {
        double v = static_cast<double>(s.a);
        if (s.operand) v = operands[next++]->get((s.rows.table ? s.rows.table[r] : r * s.rows.stride) + j * s.column);
        want = expected(s, want, v);
      }
      ASSERT_NEAR(c.get(r * n + j), want, 1e-5 + std::abs(want) * step_of(c.type())) << r << ", " << j;
    }
}

TEST_P(EpilogueTest, RandomLists) {
  for (int i = 0; i < cases(400); ++i) check_case(leaf(), static_cast<unsigned>(i));
}

TEST_P(EpilogueTest, TheResidualMayBeTheOutputItself) {
  const std::int64_t m = 19, n = leaf().nr + 3;
  Identity identity(leaf(), m, n);
  Stored x(DType::f32, n), c(DType::f32, m * n);
  for (std::int64_t j = 0; j < n; ++j) x.set(j, double(j));
  for (std::int64_t i = 0; i < m * n; ++i) c.set(i, double(100 * i));
  identity.run(leaf(), x, c, {{.op = StepOp::add, .operand = c.data(), .rows = {n}}});
  for (std::int64_t i = 0; i < m * n; ++i) ASSERT_EQ(c.get(i), double(100 * i + i % n));
}

} // namespace
} // namespace tilewright::kernels
