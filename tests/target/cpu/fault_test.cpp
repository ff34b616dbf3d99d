// What fails in the evaluator fails in a plan, with the same code; what does not, does not: integers divided by zero,
// and elements of index tensors out of range, in random programs where guards, `select`, `else`, `and` and `or` leave
// some out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "expr/text.h"
#include "support/error.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

using testing::Random;

// Sums and products of integers become quotients, what kept divisors away from zero goes, and comparisons look at a
// remainder behind an `and` or `or`.
ScalarRef with_divisions(const ScalarRef& body, Random& random) {
  return rewrite(body, [&](const ScalarRef& s) -> ScalarRef {
    if (s->args.size() != 2 || is_float(s->dtype)) return s;
    if (is_comparison(s->op) && !is_float(s->args[0]->dtype) && !is_float(s->args[1]->dtype) && random() % 2) {
      const ScalarRef a = s->args[0], b = s->args[1];
      const ScalarRef left = binary(random() % 2 ? Op::eq : Op::ne, b, integer(0));
      return binary(random() % 2 ? Op::logical_or : Op::logical_and, left, binary(s->op, binary(Op::mod, a, b), b));
    }
    if (s->dtype == DType::boolean) return s;
    static constexpr Op partial[] = {Op::div, Op::floor_div, Op::mod, Op::pow};
    const bool sum = s->op == Op::add || s->op == Op::sub || s->op == Op::mul || s->op == Op::min || s->op == Op::max;
    if (sum && random() % 2 == 0) return binary(partial[random() % 4], s->args[0], s->args[1]);
    const ScalarRef b = s->args[1];
    if (s->op == Op::div && b->op == Op::add && b->args[0]->op == Op::abs && random() % 4)
      return binary(s->op, s->args[0], b->args[0]->args[0]);
    return s;
  });
}

Program with_divisions(Program p, Random& random) {
  for (auto& node : p.nodes) {
    Statement& s = std::get<Statement>(node);
    s.body = with_divisions(s.body, random);
    const bool pair = s.reducer == Reducer::argmax || s.reducer == Reducer::argmin; // must keep a live point
    if (s.guard && !pair) s.guard = with_divisions(s.guard, random);
  }
  return p;
}

Program small_program(Random& random) {
  testing::RandomOptions o;
  o.smooth = true;
  o.free_sizes = false;
  o.statements = 1 + static_cast<int>(random() % 4);
  return fix_sizes(testing::random_program(random, o), {});
}

Program with_gathers(Random& random) {
  Program p = small_program(random);
  auto gathers = [&] {
    return std::any_of(p.tensors.begin(), p.tensors.end(), [](const Tensor& t) { return t.index_of.has_value(); });
  };
  while (!gathers()) p = small_program(random);
  return p;
}

void damage_indices(const Program& p, Values& given, Random& random) {
  for (auto& [t, array] : given) {
    if (!p.tensor(t).index_of || array.dtype != DType::i32) continue;
    for (std::int64_t i = 0; i < array.count(); ++i)
      if (random() % 8 == 0) array.as<std::int32_t>()[i] = random() % 2 ? -1 - static_cast<int>(random() % 1000) : 8;
  }
}

// The error, or nothing.
template <class Run> std::optional<Error> error_in(Run run) {
  try {
    run();
    return {};
  } catch (const Error& e) {
    return e;
  }
}

std::string code_of(const std::optional<Error>& e) { return e ? std::string(id_of(e->code)) : std::string(); }

// The points of each statement that the plan computes, by walking its nests: a kernel of several statements computes of
// what lies between them only what its result needs.
struct Walk {
  const Program& p;                                        // of the nest
  const Nest& nest;
  std::map<StatementId, std::vector<std::byte>>& computed; // of the planned statements: a byte a point of the axes, row-major
  std::vector<std::int64_t> variables = std::vector<std::int64_t>(static_cast<std::size_t>(nest.variables) + 2, 0);

  void block(const Block& nodes) {
    for (const Node& n : nodes) {
      if (const For* f = std::get_if<For>(&n.op))
        for (std::int64_t at = 0; at < f->extent; at += f->size) {
          variables[2 * static_cast<std::size_t>(f->step)] = at;
          variables[2 * static_cast<std::size_t>(f->step) + 1] = std::min(at + f->size, f->extent);
          block(n.body);
        }
      if (const Compute* c = std::get_if<Compute>(&n.op); c && computed.count(c->statement)) mark(*c, 0, 0);
    }
  }

  void mark(const Compute& c, std::size_t axis, std::int64_t linear) {
    const Statement& s = *p.statement(c.statement);
    if (axis == s.axes.size()) {
      computed[c.statement].at(static_cast<std::size_t>(linear)) = std::byte{1};
      return;
    }
    const std::int64_t extent = s.axes[axis].constant();
    const std::int64_t low = std::max<std::int64_t>(c.ranges[axis].low.at(variables.data()), 0),
                       high = std::min(c.ranges[axis].high.at(variables.data()), extent);
    for (std::int64_t i = low; i < high; ++i) mark(c, axis + 1, linear * extent + i);
  }
};

ScalarRef zero_like(const ScalarRef& s) {
  if (s->dtype == DType::boolean) return boolean(false);
  return is_float(s->dtype) ? number(0, compute_type(s->dtype)) : integer(0, compute_type(s->dtype));
}

// The program in which a point that the plan leaves out cannot fail: its body is only chosen where it is computed.
Program as_computed(const Program& p, const Plan& plan) {
  Program q = p;
  std::map<StatementId, std::vector<std::byte>> computed;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    std::size_t points = 1;
    for (const Size& e : std::get<Statement>(p.nodes[n]).axes) points *= static_cast<std::size_t>(e.constant());
    computed[static_cast<StatementId>(n)].resize(points);
  }
  for (const PlannedKernel& k : plan.kernels) {
    const Nest nest = expand(p, *k.region, k.schedule, k.name);
    Walk{program_of(p, nest), nest, computed}.block(nest.body);
  }
  Builder build(q);
  for (auto& [id, points] : computed) {
    if (std::find(points.begin(), points.end(), std::byte{0}) == points.end()) continue;
    Statement s = *q.statement(id);
    std::vector<std::int64_t> dims;
    std::vector<Index> at;
    for (std::size_t a = 0; a < s.axes.size(); ++a) {
      dims.push_back(s.axes[a].constant());
      at.push_back(axis_index(static_cast<AxisId>(a)));
    }
    const ScalarRef here = build.read(build.weight("computed", DType::boolean, dims, points), at);
    s.body = select(here, s.body, zero_like(s.body));
    if (s.guard) s.guard = select(here, s.guard, boolean(true));
    q.nodes[static_cast<std::size_t>(id)] = s;
  }
  return q;
}

void one_case(std::uint64_t seed, std::map<std::string, int>& outcomes) {
  Random random(seed);
  const bool divide = random() % 2 != 0;
  Program program = divide ? with_divisions(small_program(random), random) : with_gathers(random);
  Values given = testing::random_inputs(program, random);
  if (!divide) damage_indices(program, given, random);
  int fused = 0;
  const Plan plan = testing::random_plan(program, random, &fused);
  const Program computed = as_computed(program, plan);
  const std::string expected = code_of(error_in([&] { evaluate(computed, given, {}, Evaluation::typed); }));
  const std::optional<Error> error = error_in([&] { testing::execute(plan, given); });
  const std::string found = code_of(error);
  ++outcomes[expected.empty() ? "no error" : expected];
  // Which of several is told does not depend on who works on what.
  for (int threads = 1; error && threads <= 4; ++threads) {
    Plan other = plan;
    other.options.threads = threads;
    const std::optional<Error> again = error_in([&] { testing::execute(other, given); });
    ASSERT_TRUE(again) << "seed " << seed;
    EXPECT_EQ(std::string(again->what()), error->what()) << "seed " << seed << " threads " << threads;
  }
  if (found == expected) return;
  std::string nests;
  for (const PlannedKernel& k : plan.kernels)
    nests += print(program, *k.region, k.schedule, expand(program, *k.region, k.schedule, k.name));
  FAIL() << "seed " << seed << " isa " << plan.options.isa << ": error \"" << found << "\", the evaluator's \""
         << expected << "\"\n"
         << print(program) << nests;
}

TEST(Faults, ComeWhereTheEvaluatorHasThem) {
  std::map<std::string, int> outcomes;
  if (const char* one = std::getenv("TILEWRIGHT_SEED")) return one_case(std::strtoull(one, nullptr, 10), outcomes);
  const int cases = std::getenv("TILEWRIGHT_LONG") ? 20000 : 1600;
  for (int seed = 1; seed <= cases && !::testing::Test::HasFailure(); ++seed)
    one_case(static_cast<std::uint64_t>(seed), outcomes);
  for (const auto& [what, count] : outcomes) std::printf("%6d %s\n", count, what.c_str());
  EXPECT_GT(outcomes["E0301"], cases / 30);
  EXPECT_GT(outcomes["E0105"], cases / 30);
}

Error error_of(const std::string& text, const std::vector<std::vector<std::int32_t>>& inputs) {
  const Program p = fix_sizes(parse(text, "test"), {});
  Values given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Array a = Array::make(DType::i32, {static_cast<std::int64_t>(inputs[i].size())});
    std::memcpy(a.data, inputs[i].data(), a.bytes());
    given[p.inputs[i]] = a;
  }
  try {
    const PlanOptions options = testing::options_for(kernels::kernels_for(kernels::available_isas().front()), 2);
    testing::execute(plan_groups(std::make_shared<Program>(p), machine_named("generic-avx2"), options, fold_maps(p)),
                     given);
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::internal, "", "no error");
}

TEST(Faults, NameTheStatement) {
  const std::string text = "program p(i = 3)\ninput A[i], B[i] : i32\nQ[i] : i32 = A[i] // B[i]\n"
                           "R[i] : i32 = select(A[i] > 0, A[i] % B[i], 0)\noutput Q, R\n";
  const Error both = error_of(text, {{1, 2, 3}, {4, 0, 6}});
  EXPECT_EQ(both.code, Code::input);
  EXPECT_EQ(both.where, "Q") << both.what();
  const std::string decided =
      "program p(i = 3)\ninput A[i], B[i] : i32\nR[i] : bool = B[i] == 0 or A[i] % B[i] == 1\noutput R\n";
  EXPECT_EQ(error_of(decided, {{1, 0, 3}, {4, 0, 0}}).message, "no error");
  const std::string chosen =
      "program p(i = 3)\ninput A[i], B[i] : i32\nR[i] : i32 = select(A[i] > 0, A[i] % B[i], 0)\noutput R\n";
  EXPECT_EQ(error_of(chosen, {{1, 0, 3}, {4, 0, 6}}).message, "no error");
  EXPECT_EQ(error_of(chosen, {{1, 0, 3}, {4, 0, 0}}).where, "R");
}

} // namespace
} // namespace tilewright
