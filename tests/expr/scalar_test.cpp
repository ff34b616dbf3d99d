// Scalars: types, folding, identities, equality, traversal and substitution.
#include "expr/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

// A program with one scalar input of each dtype, to read from.
struct Fixture {
  Program p;
  Builder build{p};
  std::map<DType, TensorId> inputs;
  Fixture() {
    p.name = "scalars";
    for (int t = 0; t <= static_cast<int>(DType::boolean); ++t) {
      const auto type = static_cast<DType>(t);
      inputs[type] = build.tensor("x_" + std::string(name_of(type)), type, {}, Kind::input);
      p.inputs.push_back(inputs[type]);
    }
  }
  ScalarRef of(DType type) { return build.read(inputs.at(type), {}); }
};

const DType all_types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                           DType::i8,  DType::u8,  DType::i32, DType::i64,  DType::boolean};

TEST(Scalar, Types) {
  Fixture f;
  const ScalarRef half = f.of(DType::f16), byte = f.of(DType::i8), truth = f.of(DType::boolean), wide = f.of(DType::i64);
  EXPECT_EQ(half->dtype, DType::f16);
  EXPECT_EQ(binary(Op::add, half, half)->dtype, DType::f32);
  EXPECT_EQ(binary(Op::add, half, half)->args[0], half);                 // the argument stays as stored
  EXPECT_EQ(binary(Op::add, byte, byte)->dtype, DType::i32);
  EXPECT_EQ(binary(Op::mul, wide, half)->dtype, DType::f32);
  EXPECT_EQ(binary(Op::mul, wide, half)->args[0]->op, Op::cast);
  EXPECT_EQ(binary(Op::lt, byte, wide)->dtype, DType::boolean);
  EXPECT_EQ(binary(Op::add, truth, truth)->dtype, DType::i32);
  EXPECT_EQ(binary(Op::bit_and, truth, truth)->op, Op::logical_and);
  EXPECT_EQ(unary(Op::sqrt, byte)->dtype, DType::f32);
  EXPECT_EQ(unary(Op::exp, f.of(DType::f64))->dtype, DType::f64);
  EXPECT_EQ(unary(Op::floor, byte), byte);
  EXPECT_EQ(select(truth, truth, unary(Op::logical_not, truth))->dtype, DType::boolean);
  EXPECT_EQ(select(byte, half, number(0))->args[0]->dtype, DType::boolean);
  EXPECT_EQ(binary(Op::mul, f.of(DType::f64), number(0.1))->args[1]->dtype, DType::f64);   // a literal takes the other type
  double value = 0;
  EXPECT_TRUE(is_literal(binary(Op::mul, f.of(DType::f64), number(0.1))->args[1], &value));
  EXPECT_EQ(value, 0.1);
  EXPECT_TRUE(is_literal(number(0.1), &value));
  EXPECT_EQ(value, static_cast<double>(0.1f));
  EXPECT_EQ(integer(std::int64_t{1} << 40)->dtype, DType::i64);
  EXPECT_EQ(size_value(Size(7))->op, Op::constant);
  EXPECT_EQ(size_value(Size::symbol("n"))->op, Op::size);
  for (DType a : all_types)
    for (DType b : all_types) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, promote(a, b)), promote(a, b)) << name_of(a) << name_of(b);
    }
}

TEST(Scalar, TypeErrors) {
  Fixture f;
  EXPECT_THROW(binary(Op::bit_and, f.of(DType::f32), integer(1)), Error);
  EXPECT_THROW(unary(Op::bit_not, f.of(DType::f16)), Error);
  EXPECT_THROW(f.build.read(f.inputs[DType::i32], {}, f.of(DType::f32)), Error);
  EXPECT_EQ(std::get<Access>(f.build.read(f.inputs[DType::f16], {}, integer(0))->leaf).otherwise->dtype, DType::f32);
}

TEST(Scalar, FoldsAndIdentities) {
  Fixture f;
  const ScalarRef x = f.of(DType::f32), i = f.of(DType::i32), t = binary(Op::lt, x, number(0));
  EXPECT_TRUE(equal(binary(Op::add, number(0.1), number(0.2)), number(static_cast<double>(0.1f + 0.2f))));
  EXPECT_FALSE(equal(binary(Op::add, number(0.1), number(0.2)), number(0.1 + 0.2 + 1e-7)));
  EXPECT_TRUE(equal(binary(Op::mul, number(16777217.0), number(1)), number(16777216)));
  EXPECT_TRUE(equal(binary(Op::add, integer(INT32_MAX), integer(1)), integer(INT32_MIN)));
  EXPECT_EQ(binary(Op::mul, x, number(1)), x);
  EXPECT_EQ(binary(Op::mul, integer(1), i), i);
  EXPECT_EQ(binary(Op::sub, x, number(0)), x);
  EXPECT_EQ(binary(Op::add, i, integer(0)), i);
  EXPECT_EQ(binary(Op::pow, x, integer(1)), x);
  EXPECT_EQ(unary(Op::neg, unary(Op::neg, x)), x);
  EXPECT_EQ(select(boolean(true), x, number(2)), x);
  EXPECT_EQ(select(t, x, x), x);
  EXPECT_EQ(binary(Op::logical_and, t, boolean(true)), t);
  EXPECT_TRUE(is_literal(binary(Op::logical_or, boolean(true), t)));
  EXPECT_TRUE(is_literal(binary(Op::mul, i, integer(0))));
  // What would change a NaN, an infinity or a -0, a division by zero, and what is not certain, stays.
  EXPECT_EQ(binary(Op::add, x, number(0))->op, Op::add);
  EXPECT_EQ(binary(Op::mul, x, number(0))->op, Op::mul);
  EXPECT_EQ(binary(Op::sub, x, number(-0.0))->op, Op::sub);
  EXPECT_EQ(binary(Op::div, integer(1), integer(0))->op, Op::div);
  EXPECT_EQ(binary(Op::mod, integer(1), integer(0))->op, Op::mod);
  EXPECT_EQ(binary(Op::sub, number(INFINITY), number(INFINITY))->op, Op::sub);
  EXPECT_EQ(cast(number(1e20), DType::i32)->op, Op::cast);
  EXPECT_EQ(cast(number(0.1), DType::f16)->op, Op::cast);
  EXPECT_EQ(binary(Op::shift_left, integer(1), integer(40))->op, Op::shift_left);
  EXPECT_EQ(binary(Op::mul, f.of(DType::f16), number(1))->op, Op::mul);   // an f16 read is not an f32 node
  EXPECT_EQ(cast(x, DType::f32), x);
}

TEST(Scalar, EqualityIsBitwise) {
  EXPECT_FALSE(equal(number(0.0), number(-0.0)));
  EXPECT_TRUE(equal(number(NAN), number(NAN)));
  EXPECT_TRUE(equal(number(0.1), number(static_cast<double>(0.1f))));
  EXPECT_EQ(hash(number(0.1)), hash(number(static_cast<double>(0.1f))));
  EXPECT_FALSE(equal(number(1), number(1, DType::f64)));
  EXPECT_TRUE(equal(ScalarRef(), ScalarRef()));
  EXPECT_FALSE(equal(ScalarRef(), number(1)));
}

// ---- what is folded is what the evaluator computes

std::vector<std::byte> evaluated(Fixture& f, const ScalarRef& body, const Values& inputs) {
  Program p = f.p;
  Builder build(p);
  const TensorId out = build.statement("y", body->dtype, {}, body);
  p.outputs = {out};
  Values result = evaluate(p, inputs, {}, Evaluation::typed);
  const Array& y = result.at(out);
  return {y.data, y.data + y.bytes()};
}

ScalarRef literal_of(DType type, double v) { return is_float(type) ? number(v, type) : integer(static_cast<std::int64_t>(v), type); }

TEST(ScalarProperty, FoldingIsEvaluation) {
  std::mt19937_64 random(7);
  int folded = 0;
  for (DType type : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (int o = static_cast<int>(Op::add); o < static_cast<int>(Op::select); ++o) {
      const Op op = static_cast<Op>(o);
      if (is_logical(op) || (op >= Op::bit_and && op <= Op::shift_right && is_float(type))) continue;
      for (int n = 0; n < 20; ++n) {
        Fixture f;
        const double limits[] = {4.0, 1.0, 1000.0, 2e9};
        const double limit = limits[random() % 4];
        auto draw = [&] {
          const double v = (static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1) * limit;
          return type == DType::f64 ? v : type == DType::f32 ? static_cast<double>(static_cast<float>(v)) : std::floor(v);
        };
        const double a = draw(), b = random() % 8 == 0 ? a : draw();
        const bool two = arity(op) == 2;
        const ScalarRef x = literal_of(type, a), y = literal_of(type, b), constant = two ? binary(op, x, y) : unary(op, x);
        if (!is_literal(constant)) continue;
        ++folded;
        const TensorId left = f.inputs.at(type), right = f.build.tensor("other", type, {}, Kind::input);
        f.p.inputs.push_back(right);
        const ScalarRef u = f.build.read(left, {}), v = f.build.read(right, {});
        testing::Random fill(1);
        Values inputs = testing::random_inputs(f.p, fill);
        testing::put(inputs[left], 0, a);
        testing::put(inputs[right], 0, b);
        ASSERT_EQ(evaluated(f, constant, inputs), evaluated(f, two ? binary(op, u, v) : unary(op, u), inputs))
            << name_of(op) << " of " << name_of(type) << " " << a << " and " << b;
      }
    }
  EXPECT_GT(folded, 1500);
}

// Simplifying constructors against the bare nodes, on awkward values.
TEST(ScalarProperty, IdentitiesChangeNoBit) {
  const float values[] = {0.0f, -0.0f, 1.0f, -1.5f, INFINITY, -INFINITY, NAN, 1e-42f, 3e38f};
  for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::min, Op::max, Op::pow})
    for (float constant : {0.0f, -0.0f, 1.0f, -1.0f})
      for (float v : values)
        for (bool swap : {false, true}) {
          Fixture f;
          const TensorId in = f.inputs[DType::f32];
          const ScalarRef x = f.build.read(in, {}), c = number(static_cast<double>(constant));
          const ScalarRef smart = swap ? binary(op, c, x) : binary(op, x, c);
          const auto bare = std::make_shared<const Scalar>(Scalar{op, DType::f32, swap ? std::vector{c, x} : std::vector{x, c}, {}});
          testing::Random fill(1);
          Values inputs = testing::random_inputs(f.p, fill);
          testing::put(inputs[in], 0, static_cast<double>(v));
          float a = 0, b = 0;
          std::memcpy(&a, evaluated(f, smart, inputs).data(), 4);
          std::memcpy(&b, evaluated(f, bare, inputs).data(), 4);
          if (std::isnan(a) && std::isnan(b)) continue;   // the payload of a NaN is nobody's business
          ASSERT_EQ(std::memcmp(&a, &b, 4), 0) << name_of(op) << " " << v << " " << constant << " " << swap;
        }
}

// ---- rebuilding

TEST(Scalar, SharedNodesAreVisitedOnce) {
  Fixture f;
  ScalarRef a = f.of(DType::f32), b = f.of(DType::f32);
  for (int i = 0; i < 200; ++i) {   // 2^200 paths
    a = binary(Op::add, a, a);
    b = binary(Op::add, b, b);
  }
  EXPECT_TRUE(equal(a, b));
  EXPECT_EQ(hash(a), hash(b));
  int reads = 0;
  for_each_access(a, [&](const Access&) { ++reads; });
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(rewrite(a, [](const ScalarRef& s) { return s; }), a);
  const ScalarRef c = rewrite(a, [](const ScalarRef& s) { return s->op == Op::read ? number(0) : s; });
  EXPECT_TRUE(equal(c, number(0)));
  EXPECT_FALSE(uses_axis_value(a, 0));
}

TEST(Scalar, AccessesInnermostFirst) {
  Program p;
  Builder build(p);
  const TensorId x = build.tensor("x", DType::f32, {4, 4}), i = build.tensor("i", DType::i32, {4}), e = build.tensor("e", DType::f32, {4});
  Index gather;
  gather.terms.push_back({1, std::make_shared<const Access>(Access{i, {axis_index(0)}, nullptr})});
  const ScalarRef s = build.read(x, {gather, axis_index(1)}, build.read(e, {axis_index(2)}));
  std::vector<TensorId> order;
  for_each_access(s, [&](const Access& a) { order.push_back(a.tensor); });
  EXPECT_EQ(order, (std::vector<TensorId>{i, e, x}));
  EXPECT_TRUE(mentions_axis(s, 0) && mentions_axis(s, 1) && mentions_axis(s, 2));
  EXPECT_FALSE(mentions_axis(s, 3));
  EXPECT_FALSE(uses_axis_value(s, 0));
  EXPECT_TRUE(uses_axis_value(build.read(e, {axis_index(0)}, cast(axis_value(2), DType::f32)), 2));
  const ScalarRef moved = substitute(p, s, {axis_index(3), axis_index(3), constant_index(1)});
  EXPECT_TRUE(mentions_axis(moved, 3) && !mentions_axis(moved, 0) && !mentions_axis(moved, 2));
}

// Renaming the axes of every statement, and putting a body under a substitution there and back, changes no bit.
TEST(ScalarProperty, SubstitutionKeepsPrograms) {
  int different = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    testing::Random random(seed);
    const Program p = testing::random_program(random);
    const Values inputs = testing::random_inputs(p, random);
    Program q = p;
    for (auto& node : q.nodes) {
      auto& s = std::get<Statement>(node);
      std::vector<AxisId> to(s.axes.size());
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<AxisId>(i);
      std::shuffle(to.begin(), to.end(), random);
      const Statement old = s;
      std::vector<Index> with;
      for (std::size_t i = 0; i < to.size(); ++i) {
        with.push_back(axis_index(to[i]));
        s.axes[static_cast<std::size_t>(to[i])] = old.axes[i];
        s.names[static_cast<std::size_t>(to[i])] = old.names[i];
      }
      for (AxisId& a : s.reduced) a = to[static_cast<std::size_t>(a)];
      for (Index& i : s.at) i = substitute(q, i, with);
      s.body = substitute(q, s.body, with);
      if (s.guard) s.guard = substitute(q, s.guard, with);
      different += !equal(s.body, old.body);
      ASSERT_EQ(s.body->dtype, old.body->dtype);
    }
    ASSERT_NO_THROW(verify(q)) << seed;
    const Values x = evaluate(p, inputs, testing::default_sizes(p), Evaluation::typed), y = evaluate(q, inputs, testing::default_sizes(p), Evaluation::typed);
    for (const auto& [id, array] : x)
      ASSERT_EQ(std::memcmp(array.data, y.at(id).data, array.bytes()), 0) << "seed " << seed << " tensor " << p.tensor(id).name;
  }
  EXPECT_GT(different, 100);
}

TEST(ScalarProperty, EqualProgramsHashEqual) {
  std::set<std::size_t> hashes;
  int bodies = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    testing::Random one(seed), two(seed);
    const Program p = testing::random_program(one), q = testing::random_program(two);
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto &a = std::get<Statement>(p.nodes[n]), &b = std::get<Statement>(q.nodes[n]);
      ASSERT_TRUE(equal(a.body, b.body) && equal(a.guard, b.guard));
      ASSERT_EQ(hash(a.body), hash(b.body));
      hashes.insert(hash(a.body));
      ++bodies;
    }
  }
  EXPECT_GT(hashes.size(), static_cast<std::size_t>(bodies) * 7 / 10);   // the smallest bodies repeat
}

// ---- building

TEST(Builder, NamesAndAxes) {
  Program p;
  p.sizes.push_back({"n", Size(4), {}, false});
  Builder build(p);
  const TensorId x = build.tensor("n", DType::f32, {4});
  EXPECT_EQ(p.tensor(x).name, "n_1");
  p.tensors.push_back({});
  p.tensors.back().name = "y";                                            // added behind the builder's back
  EXPECT_EQ(p.tensor(build.tensor("y", DType::f32, {})).name, "y_1");
  EXPECT_EQ(p.tensor(build.tensor("", DType::f32, {})).name, "t");
  const TensorId s = build.statement("s", DType::f32, {Size::symbol("n"), 5, Size::symbol("n")}, number(1), Reducer::sum, {1});
  const auto& statement = std::get<Statement>(p.nodes.back());
  EXPECT_EQ(statement.names, (std::vector<std::string>{"n", "i", "j"}));
  EXPECT_EQ(p.tensor(s).dims, (std::vector<Size>{Size::symbol("n"), Size::symbol("n")}));
  EXPECT_EQ(statement.at[1], axis_index(2));
  EXPECT_EQ(parallel_axes(statement), (std::vector<AxisId>{0, 2}));
  const TensorId w = build.weight("w", DType::i8, {2, 2}, std::vector<std::byte>(4, std::byte{3}));
  EXPECT_EQ(p.tensor(w).data.size(), 4U);
  EXPECT_THROW(build.weight("w", DType::f32, {2, 2}, std::vector<std::byte>(4)), Error);
}

TEST(Array, MakeAndErrors) {
  Array a = Array::make(DType::f32, {3, 5});
  EXPECT_EQ(a.count(), 15);
  EXPECT_EQ(a.bytes(), 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data) % 64, 0U);
  EXPECT_EQ(a.as<float>()[14], 0.0f);
  EXPECT_EQ(Array::make(DType::f32, {0, 5}).count(), 0);
  auto code = [](std::vector<std::int64_t> dims) {
    try {
      Array::make(DType::f32, std::move(dims));
    } catch (const Error& e) {
      return e.code;
    }
    return Code::internal;
  };
  EXPECT_EQ(code({INT64_MAX / 2, 5}), Code::size);
  EXPECT_EQ(code({INT64_MAX / 8}), Code::memory);
  EXPECT_EQ(code({-1}), Code::shape);
}

}  // namespace
}  // namespace tilewright
