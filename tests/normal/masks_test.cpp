// masks_to_guards: tables are what they say on every element, and a mask becomes a guard only where that changes nothing.
#include <gtest/gtest.h>

#include <limits>

#include "normal/masks.h"
#include "normal/normal.h"
#include "normal/same_outputs.h"
#include "support/error.h"

namespace tilewright {
namespace {

Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }

std::vector<bool> evaluated(const ScalarRef& where, const std::vector<Size>& dims) {
  Program p;
  p.name = "where";
  Builder build(p);
  p.outputs = {build.statement("w", DType::boolean, dims, where)};
  const Array a = evaluate(p, {}, {}, Evaluation::typed).at(p.outputs[0]);
  std::vector<bool> all;
  for (std::int64_t i = 0; i < a.count(); ++i) all.push_back(a.data[i] != std::byte{0});
  return all;
}

TEST(Tables, AreWhatTheySay) {
  int found = 0, spoiled = 0;
  for (std::uint64_t seed : testing::seeds(400)) {
    testing::Random random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    std::vector<std::int64_t> dims;
    for (int d = 1 + static_cast<int>(below(3)); d > 0; --d) dims.push_back(1 + below(7));
    const auto rank = static_cast<int>(dims.size());
    const int b = static_cast<int>(below(static_cast<std::uint64_t>(rank))), a = static_cast<int>(below(static_cast<std::uint64_t>(b) + 1)) - 1;
    const std::int64_t low = below(9) - 5, high = low + below(8);
    Program p;
    p.name = "table";
    Builder build(p);
    const DType type = below(2) ? DType::boolean : below(2) ? DType::f32 : DType::f64;
    const double dead = type == DType::boolean ? 0 : -1e4 * static_cast<double>(1 + below(5)), live = type == DType::boolean;
    Array m = Array::make(type, dims);
    std::vector<std::int64_t> at(dims.size(), 0);
    for (std::int64_t i = 0; i < m.count(); ++i) {
      const std::int64_t v = at[static_cast<std::size_t>(b)] - (a < 0 ? 0 : at[static_cast<std::size_t>(a)]);
      testing::put(m, i, low <= v && v <= high ? live : dead);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
    const bool spoil = below(2);
    if (spoil) testing::put(m, below(static_cast<std::uint64_t>(m.count())), below(2) ? live : dead);
    const TensorId t = build.tensor("M", type, std::vector<Size>(dims.begin(), dims.end()), Kind::weight);
    p.tensor(t).data = {m.data, m.bytes()};
    const auto table = two_valued(p, t);
    std::int64_t yes = 0;
    auto element = [&](std::int64_t i) {
      if (type == DType::boolean) return static_cast<double>(m.data[i] != std::byte{0});
      return type == DType::f32 ? static_cast<double>(m.as<float>()[i]) : m.as<double>()[i];
    };
    for (std::int64_t i = 0; i < m.count(); ++i) yes += element(i) == live;
    if (!table) {
      EXPECT_TRUE(spoil || yes == 0 || yes == m.count()) << "seed " << seed;
      ++spoiled;
      continue;
    }
    ++found;
    const auto says = evaluated(table->where, p.tensor(t).dims);
    for (std::int64_t i = 0; i < m.count(); ++i)
      ASSERT_EQ(element(i), says[static_cast<std::size_t>(i)] ? table->yes : table->no) << "seed " << seed << " element " << i;
  }
  std::printf("  %d tables read, %d not\n", found, spoiled);
}

Array causal(std::int64_t q, std::int64_t x, double dead, DType type = DType::f32) {
  Array m = Array::make(type, {q, x});
  for (std::int64_t i = 0; i < q; ++i)
    for (std::int64_t j = 0; j < x; ++j) testing::put(m, i * x + j, type == DType::boolean ? j <= i + x - q : j <= i + x - q ? 0.0 : dead);
  return m;
}

TEST(Masks, AnAddedTableBecomesAGuard) {
  for (double dead : {-1e4, -1e9, -3.4028234663852886e38, -std::numeric_limits<double>::infinity()}) {
    Program p = program("program p(q=4, x=6, d=3)\ninput S[q x], V[x d] : f32\nweight M[q x] : f32\n"
                        "T[q x] = S[q x] / 8 + M[q x]\nP[q x] = softmax[x] T[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n");
    testing::Random random(3);
    Values given = testing::random_inputs(p, random);
    given[2] = causal(4, 6, dead);
    testing::make_known(p, given);
    const Program q = normalise(p);
    const std::string text = print(q);
    EXPECT_EQ(text.find("M["), std::string::npos) << text;
    EXPECT_NE(text.find("where index(x) <= index(q) + 2"), std::string::npos) << text;
    testing::expect_same_outputs(p, q, given, 1e-6);
    EXPECT_TRUE(masks_left(p).empty());
  }
}

TEST(Masks, ASelectOfATableToo) {
  Program p = program("program p(q=4, x=4)\ninput S[q x] : f32\nweight M[q x] : bool\nT[q x] = select(M[q x], S[q x], -1e30)\nP[q x] = softmax[x] T[q x]\noutput P\n");
  testing::Random random(3);
  Values given = testing::random_inputs(p, random);
  given[1] = causal(4, 4, 0, DType::boolean);
  testing::make_known(p, given);
  const Program q = normalise(p);
  EXPECT_NE(print(q).find("where index(x) <= index(q)"), std::string::npos) << print(q);
  testing::expect_same_outputs(p, q, given, 1e-6);
}

// As exporters write it: two ranges and a comparison, each a node of its own.
TEST(Masks, AComparisonOfRangesToo) {
  for (const auto& [compared, guard] : {std::pair{"rx[x] <= rq[q, 0] + 2", "index(x) <= index(q) + 5"}, {"not (rx[x] > rq[q, 0])", "index(x) <= index(q) + 3"}}) {
    Program p = program("program p(h=2, q=4, x=9, one=1)\nweight rx[x], rq[q one] : i64\ninput S[h q x] : f32\nB[q x] : bool = " + std::string(compared) +
                        "\nT[h q x] = select(B[q x], S[h q x], -inf)\nP[h q x] = softmax[x] T[h q x]\noutput P\n");
    std::vector<std::int64_t> columns{0, 1, 2, 3, 4, 5, 6, 7, 8}, rows{3, 4, 5, 6};
    for (Tensor& t : p.tensors)
      if (t.kind == Kind::weight) t.data = std::as_bytes(std::span(t.name == "rx" ? columns : rows));
    const Program n = masks_to_guards(p);
    int guards = 0;
    for (std::size_t i = 0; i < n.nodes.size(); ++i)
      if (const Statement* s = n.statement(static_cast<StatementId>(i)); s && s->guard) {
        const std::vector<bool> live = evaluated(substitute(n, s->guard, {constant_index(0), axis_index(0), axis_index(1)}), {4, 9});
        const Program g = program("program g(q=4, x=9)\nL[q x] : bool = " + std::string(guard) + "\noutput L\n");
        const Array expected = evaluate(g, {}, {}, Evaluation::typed).at(g.outputs[0]);
        for (std::size_t k = 0; k < live.size(); ++k) EXPECT_EQ(live[k], expected.data[k] != std::byte{0}) << compared << " at " << k;
        ++guards;
      }
    EXPECT_GE(guards, 2) << print(n);
    rows[2] = 9;                                          // no progression any more
    const Program kept = masks_to_guards(p);
    for (std::size_t i = 0; i < kept.nodes.size(); ++i) {
      EXPECT_FALSE(kept.statement(static_cast<StatementId>(i))->guard);
    }
  }
}

// Too many points to try: the bounds themselves say that a row always has one, or that one has none.
TEST(Masks, OfLongRows) {
  for (const auto& [where, some] : {std::pair{"index(x) <= index(q)", true}, {"index(x) <= index(q) and index(q) - index(x) < 64", true}, {"index(x) < index(q)", false},
                                    {"index(x) >= index(q) + 1", false}, {"index(x) >= index(q)", true}}) {
    const Program p = program("program p(q=8192, x=8192)\ninput S[q x] : f32\nm[q] = max[x] S[q x] where " + std::string(where) + "\noutput m\n");
    EXPECT_EQ(always_some(p, *p.statement(0), p.statement(0)->guard), some) << where;
  }
}

TEST(Masks, OfAReductionItself) {
  const auto text = [](const std::string& statement) {
    return print(masks_to_guards(program("program p(t=3, v=5)\ninput Z[t v], m[v] : f32\ninput K[t v] : i8\ninput label[t] : index(v)\n" + statement + "\noutput Y\n")));
  };
  for (const char* statement : {"Y[t] = sum[v] select(index(v) == label[t], Z[t v], 0)", "Y[t] = max[v] select(m[v] > 0, Z[t v], -inf)", "Y[t] = sum[v] select(m[v] > 0, K[t v], 0)",
                                "Y[t] = min[v] select(m[v] > 0, inf, Z[t v])", "Y[t] = prod[v] select(index(v) > t, Z[t v], 1)", "Y[t] = max[v] select(index(v) < 2, Z[t v], -1e6)"})
    EXPECT_EQ(text(statement).find("select"), std::string::npos) << text(statement);
  // A point may be missing, another value than the identity, and the lowest integer, which is no infinity.
  for (const char* statement : {"Y[t] = max[v] select(m[v] > 0, Z[t v], -1e6)", "Y[t] = max[v] select(index(v) > 4, Z[t v], -100)", "Y[t] = sum[v] select(m[v] > 0, Z[t v], 1)",
                                "Y[t] = prod[v] select(m[v] > 0, Z[t v], 0)", "Y[t] = max[v] select(m[v] > 0, K[t v], -128)", "Y[t] = min[v] select(m[v] > 0, Z[t v], -inf)",
                                "Y[t] = max[v] select(index(v) > 7, Z[t v], -1e6)"})
    EXPECT_NE(text(statement).find("select"), std::string::npos) << text(statement);
}

// A row without a live point, readers that see the mask, a table that is no comparison: the program stays as it is, and says why.
TEST(Masks, StayWhereTheyMatter) {
  const auto stays = [](const std::string& statements, const std::string& outputs, const Array& table) {
    Program p = program("program p(q=4, x=4)\ninput S[q x], m[x] : f32\nweight M[q x] : f32\n" + statements + "\noutput " + outputs + "\n");
    testing::Random random(3);
    Values given = testing::random_inputs(p, random);
    given[2] = table;
    testing::make_known(p, given);
    EXPECT_EQ(print(masks_to_guards(p)), print(p));
    return masks_left(p);
  };
  const std::string usual = "T[q x] = S[q x] + M[q x]\nP[q x] = softmax[x] T[q x]";
  Array dead_row = causal(4, 4, -1e9), scattered = causal(4, 4, -1e9), weak = causal(4, 4, -5000);
  for (std::int64_t i = 0; i < 4; ++i) dead_row.as<float>()[5 * i] = -1e9f;   // keys before the query: the first has none
  scattered.as<float>()[3] = 0;
  EXPECT_EQ(stays(usual, "P", dead_row), (std::vector<std::string>{"masks: the mask in T stays a value: P_max may have no other point"}));
  stays(usual, "P", scattered);
  stays(usual, "P", weak);
  EXPECT_EQ(stays(usual, "P, T", causal(4, 4, -1e9)).size(), 1u);
  EXPECT_EQ(stays(usual + "\nU[q x] = T[q x] * 2", "P, U", causal(4, 4, -1e9)).size(), 1u);
  stays("T[q x] = S[q x] + M[q x]\nA[q] = sum[x] T[q x]", "A", causal(4, 4, -1e9));
  stays("T[q x] = S[q x] + M[q x]\nA[q] = min[x] T[q x]", "A", causal(4, 4, -1e9));
  stays("T[q x] = S[q x] + M[q x]\nA[q] = max[x] T[q x]\nE[q x] = exp(T[q x] - A[x])", "E", causal(4, 4, -1e9));   // another row's maximum
  stays("T[q x] = S[q x] + M[q x]\nA[q] = max[x] T[q x]\nE[q x] = exp(T[q x] - m[x])", "A, E", causal(4, 4, -1e9));
  stays("T[q x] = select(m[x] > 0, S[q x], -1e9)\nP[q x] = softmax[x] T[q x]", "P", causal(4, 4, 0));               // known only later
}

TEST(Masks, EqualTheEvaluator) {
  int changed = 0;
  const auto all = testing::seeds(400);
  for (std::uint64_t seed : all) {
    testing::Random random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
    const std::int64_t q = 1 + below(6), x = 1 + below(7);
    const std::string dead = pick({"-1e4", "-1e9", "-inf", "-1.2676506002282294e30", "-100"});
    const std::string where = pick({"index(x) <= index(q) + " + std::to_string(below(5) - 1), "index(x) < " + std::to_string(1 + below(6)),
                                    "F[q x]", "not F[q x]", "index(q) - index(x) <= 1 and index(x) <= index(q)", "G[x] > 0", "index(x) % 2 == 0"});
    const std::string masked = pick({"select(" + where + ", S[h q x], " + dead + ")", "select(" + where + ", " + dead + ", S[h q x])",
                                     "S[h q x] / 8 + M[q x]", "M[q x] + S[h q x]", "(S[h q x] + select(" + where + ", 0, " + dead + ")) * 0.5"});
    const std::string rest = pick({"P[h q x] = softmax[x] T[h q x]\n", "P[h q x] = softmax[x] T[h q x]\n", "P[h q] = logsumexp[x] T[h q x]\n", "P[h q x] = softmax[q] T[h q x]\n",
                                   "P[h q] = max[x] T[h q x]\n", "P[h q] = sum[x] " + pick({"select(" + where + ", S[h q x], 0)", "select(" + where + ", 0, S[h q x]) * 2"}) + "\n",
                                   "A[h q] = max[x] " + masked + "\nP[h q x] = exp(T[h q x] - A[h q])\n"});
    const std::string out = below(8) ? "P" : "P, T";
    Program p = program("program p(h=2, q=" + std::to_string(q) + ", x=" + std::to_string(x) + ")\ninput S[h q x], G[x] : f32\nweight M[q x] : f32\nweight F[q x] : bool\n"
                        "T[h q x] = " + masked + "\n" + rest + "output " + out + "\n");
    Values given = testing::random_inputs(p, random);
    const std::int64_t low = below(4) ? -8 : below(4) - 2, high = below(4);
    Array m = Array::make(DType::f32, {q, x}), f = Array::make(DType::boolean, {q, x});
    for (std::int64_t i = 0; i < q; ++i)
      for (std::int64_t j = 0; j < x; ++j) {
        const bool live = low <= j - i && j - i <= high;
        testing::put(m, i * x + j, live ? 0 : dead == "-inf" ? -INFINITY : std::stod(dead));
        testing::put(f, i * x + j, live);
      }
    for (TensorId t = 0; t < static_cast<TensorId>(p.tensors.size()); ++t) {
      if (p.tensor(t).name == "M") given[t] = m;
      if (p.tensor(t).name == "F") given[t] = f;
    }
    testing::make_known(p, given);
    const Program guarded = masks_to_guards(p);
    changed += print(guarded) != print(p);
    testing::expect_same_outputs(p, guarded, given, 1e-9);
    testing::expect_same_outputs(p, normalise(p), given, 1e-5);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_TRUE(all.size() == 1 || changed > static_cast<int>(all.size()) / 5) << changed;
}

}  // namespace
}  // namespace tilewright
