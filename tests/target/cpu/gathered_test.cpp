// Operands that are read through slots: whatever the pattern, the result is the evaluator's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "expr/text.h"
#include "normal/normal.h"
#include "sparse/spread.h"
#include "target/cpu/execute.h"
#include "target/cpu/gathered_leaf.h"

namespace tilewright {
namespace {

bool long_run() { return std::getenv("TILEWRIGHT_LONG") != nullptr; }

struct Random {
  std::mt19937_64 engine;
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  float value() { return static_cast<float>(below(2001) - 1000) / 500; }
};

struct Case {
  std::string text, sparse;       // the program, and which tensor is sparse
  std::vector<std::int64_t> tile; // of its last two dims
  std::string source;             // "", a mask or lengths
};

std::string number(std::int64_t n) { return std::to_string(n); }

// One of the statements that a pattern may run through, with random extents, tile, type and epilogue.
Case random_case(Random& random, bool large) {
  auto extent = [&](std::int64_t most) { return number(1 + random.below(random.chance(20) ? 4 : most)); };
  const std::int64_t most = large ? 150 : 50;
  const std::int64_t r = 1 + random.below(random.chance(40) ? 1 : 40), c = 1 + random.below(random.chance(50) ? 1 : 40);
  const std::string type = random.chance(70) ? "f32" : random.chance(50) ? "f16" : "bf16";
  std::string source, form = "zeros";
  const int shape = static_cast<int>(random.below(5));
  const std::string a = shape == 1 ? "b m k" : shape == 2 ? "b s k" : "m k";
  if (random.chance(25))
    form = "mask M", source = "M";
  else if (shape == 2 && random.chance(60))
    form = "lengths L", source = "L";
  const bool weights = random.chance(40);
  std::string text = "program p(b=" + number(1 + random.below(3)) + ", m=" + extent(most) + ", s=" + extent(most) +
                     ", k=" + extent(2 * most) + ", n=" + extent(most) + ")\n";
  // A mask over all dims, or over those of the rows.
  std::string mask = a;
  if (form == "mask M" && random.chance(50)) mask.resize(mask.size() - 2);
  if (form == "mask M") text += "input M[" + mask + "] : bool\n";
  if (form == "lengths L") text += "input L[b] : i32\n";
  text += std::string("input A[") + a + "] : " + type + " sparse(" + form + ", tile " + number(r) + ", " + number(c) +
          ")\n";
  const std::string b = shape == 1 ? "b k n" : shape == 3 ? "n k" : "k n", out = a.substr(0, a.size() - 1) + "n";
  text +=
      (weights && shape != 1 ? "weight" : "input") + std::string(" B[") + b + "] : " + type + "\ninput bias[n] : f32\n";
  text += "C[" + out + "]" + (random.chance(50) ? "" : " : " + type) + " = sum[k] " +
          (shape == 4 ? "B[" + b + "] * A[" + a + "]" : "A[" + a + "] * B[" + b + "]") + "\n";
  std::string last = "C";
  if (random.chance(40)) text += "D[" + out + "] = max(C[" + out + "] + bias[n], 0)\n", last = "D";
  return {text + "output " + last + "\n", "A", {r, c}, source};
}

std::int64_t rows_of(const Array& a) { return a.dims.back() == 0 ? 0 : a.count() / a.dims.back(); }

void set(Array& a, std::int64_t i, float v) {
  if (a.dtype == DType::f32)
    a.as<float>()[i] = v;
  else
    a.as<std::uint16_t>()[i] = a.dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
}

// Random values; A is zero outside random cells of the tile, of the mask or of the lengths.
Values random_values(const Program& p, const Case& c, Random& random, int live_percent) {
  Values given;
  std::map<std::string, TensorId> id;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    id[p.tensors[t].name] = static_cast<TensorId>(t);
    if (p.tensors[t].kind == Kind::intermediate) continue;
    Array a = testing::empty_of(p, static_cast<TensorId>(t));
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.dtype == DType::boolean)
        a.data[i] = random.chance(live_percent) ? std::byte{1} : std::byte{0};
      else if (a.dtype == DType::i32)
        a.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(60));
      else
        set(a, i, random.value());
    }
    given[static_cast<TensorId>(t)] = std::move(a);
  }
  Array& a = given.at(id.at(c.sparse));
  const std::int64_t columns = a.dims.back(), rows = a.dims[a.dims.size() - 2];
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, bool> cells;
  for (std::int64_t i = 0; i < rows_of(a); ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      bool live = true;
      if (c.source == "M") {
        const Array& mask = given.at(id.at("M"));
        live = mask.data[mask.count() == a.count() ? i * columns + j : i] != std::byte{0};
      } else if (c.source == "L") {
        live = i % rows < given.at(id.at("L")).as<std::int32_t>()[i / rows];
      } else {
        const auto [at, fresh] = cells.try_emplace({i / rows, i % rows / c.tile[0], j / c.tile[1]}, false);
        if (fresh) at->second = random.chance(live_percent);
        live = at->second;
      }
      if (!live) set(a, i * columns + j, random.chance(10) ? -0.0f : 0.0f);
    }
  return given;
}

Plan plan_of(const Program& program, const std::string& isa, int threads) {
  const Isa named = parse_isa(isa);
  const kernels::Kernels& leaf = kernels::kernels_for(named);
  PlanOptions o{threads, isa, leaf.mr, leaf.nr, leaf.lanes};
  return make_plan(std::make_shared<Program>(program), machine_named("generic-avx2"), o);
}

// The weights' bytes, as a session has them.
Program with_weights(Program p, const Values& given) {
  for (const auto& [t, a] : given)
    if (p.tensor(t).kind == Kind::weight) p.tensor(t).data = {a.data, a.bytes()}, p.tensor(t).owner = a.owner;
  return p;
}

double element(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f64) return a.as<double>()[i];
  if (a.dtype == DType::f32) return a.as<float>()[i];
  return a.dtype == DType::f16 ? f16_to_f32(a.as<std::uint16_t>()[i]) : bf16_to_f32(a.as<std::uint16_t>()[i]);
}

// Operands that were gathered, by their form; the leaf says so in its description.
struct Seen {
  std::map<std::string, int> forms;
};

void expect_right(const Program& p, const Plan& plan, const Values& given, const std::string& what) {
  const Values got = testing::execute(plan, given), again = testing::execute(plan, given);
  const Values want = evaluate(p, given, {}, Evaluation::fp64);
  for (TensorId t : p.outputs) {
    const Array &x = got.at(t), &y = want.at(t);
    ASSERT_EQ(std::memcmp(x.data, again.at(t).data, x.bytes()), 0) << what; // the same bits every time
    double scale = 1;
    for (std::int64_t i = 0; i < y.count(); ++i) scale = std::max(scale, std::abs(y.as<double>()[i]));
    double slack = 2e-5; // of the narrowest type that something is rounded to
    for (const Tensor& tensor : p.tensors)
      slack = std::max(slack, tensor.dtype == DType::f16 ? 4e-3 : tensor.dtype == DType::bf16 ? 3e-2 : 0.0);
    for (std::int64_t i = 0; i < x.count(); ++i)
      ASSERT_NEAR(element(x, i), y.as<double>()[i], slack * scale) << what << "\nelement " << i;
  }
}

TEST(Gathered, RandomProductsAndPatterns) {
  Seen seen;
  const int n = long_run() ? 2000 : 160;
  const char* seed = std::getenv("TILEWRIGHT_SEED");
  const auto isas = kernels::available_isas();
  for (int i = 0; i < n; ++i) {
    Random random{std::mt19937_64(seed ? std::strtoull(seed, nullptr, 10) : static_cast<std::uint64_t>(i))};
    const Case c = random_case(random, i % 8 == 0);
    const Program parsed = fix_sizes(parse(c.text, "case.tw"), {});
    const int percents[] = {0, 2, 10, 30, 100};
    const Values given = random_values(parsed, c, random, percents[random.below(5)]);
    const Program p = with_weights(parsed, given);
    Plan plan = plan_of(
        p, std::string(name_of(isas[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(isas.size())))])),
        static_cast<int>(1 + random.below(3)));
    for (PlannedKernel& k : plan.kernels) // other tiles than the planner's
      for (AxisStep& s : k.schedule.steps)
        if (random.chance(50)) s.size = 1 + random.below(64);
    for (const cpu::Kernel& k : cpu::compile(plan).kernels)
      for (const std::string& leaf : k.leaves) {
        const auto at = leaf.find("gathered (");
        ++seen.forms[at == std::string::npos ? leaf.substr(0, leaf.find(' '))
                                             : leaf.substr(at, leaf.find(')') - at + 1)];
      }
    expect_right(p, plan, given, "seed " + number(i) + "\n" + c.text);
    if (HasFatalFailure() || seed) return;
  }
  for (const auto& [form, count] : seen.forms) std::printf("%5d %s\n", count, form.c_str());
  for (const char* form : {"gathered (columns of row blocks)", "gathered (whole rows)", "gathered (pieces of rows)"})
    EXPECT_GT(seen.forms[form], n / 20) << form;
}

// The same leaf whatever is live: below and above the share from which on the plain call is faster.
TEST(Gathered, EmptyFullAndSingle) {
  for (const char* tile : {"32, 1", "1, 16", "1, 70", "8, 8"})
    for (int live : {0, 1, 100}) {
      const std::string text =
          std::string("program p(m=45, k=70, n=50)\ninput A[m k] : f32 sparse(zeros, tile ") + tile +
          ")\ninput B[k n], bias[n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\nD[m n] = C[m n] + bias[n]\noutput D\n";
      const Program p = fix_sizes(parse(text, "case.tw"), {});
      Random random{std::mt19937_64(7)};
      Values given = random_values(p, {text, "A", {45, 70}, ""}, random, 100);
      Array& a = given.begin()->second;
      if (live < 100) std::memset(a.data, 0, a.bytes());
      if (live == 1) a.as<float>()[44 * 70 + 69] = 3;
      expect_right(p, plan_of(p, "base", 2), given, text);
    }
}

// A zero hides what it would be multiplied with, and nothing else does: documented, and the plain form does not.
TEST(Gathered, ZerosHideInfinities) {
  const std::string text = "program p(m=4, k=4, n=40)\ninput A[m k] : f32 sparse(zeros, tile 4, 1)\ninput B[k n] : "
                           "f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n";
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  Values given;
  for (TensorId t : p.inputs) given[t] = testing::empty_of(p, t);
  float *a = given.at(p.inputs[0]).as<float>(), *b = given.at(p.inputs[1]).as<float>();
  for (int i = 0; i < 4; ++i) a[i * 4] = 1;                    // column 0 is live
  for (int j = 0; j < 40; ++j) b[j] = 2, b[40 + j] = INFINITY; // row 1 meets a dead column
  const Values got = testing::execute(plan_of(p, "base", 1), given);
  for (int i = 0; i < 160; ++i) EXPECT_EQ(got.at(p.outputs[0]).as<float>()[i], 2);
  a[5] = NAN; // no number is not zero
  EXPECT_TRUE(std::isnan(testing::execute(plan_of(p, "base", 1), given).at(p.outputs[0]).as<float>()[40]));
}

// ---- every way that the tiles may run

using Form = cpu::Gathered::Form;

void each_gathered(const std::vector<cpu::Kernel::Step>& steps, const std::function<void(cpu::Gathered&)>& f) {
  for (const cpu::Kernel::Step& s : steps) {
    if (const auto* stream = std::get_if<cpu::Kernel::Stream>(&s.op)) each_gathered(stream->body, f);
    if (const auto* c = std::get_if<cpu::Kernel::Contract>(&s.op); c && c->leaf.gathered) f(*c->leaf.gathered);
  }
}
std::function<void(const cpu::Executable&)> for_gathered(std::function<void(cpu::Gathered&)> f) {
  return [f](const cpu::Executable& exe) {
    for (const cpu::Kernel& k : exe.kernels) each_gathered(k.steps, f);
  };
}

// Ways that this leaf can run.
std::vector<cpu::Gathered::Way> ways_of(const cpu::Gathered& g) {
  std::vector<cpu::Gathered::Way> ways{{Form::plain}};
  if (!g.a.there() || g.form == Form::buckets) return {};
  const std::int64_t across = g.a.reduced < 0 ? 1 : g.a.detector.cells.along(static_cast<std::size_t>(g.a.reduced));
  if (across > 1) {
    ways.push_back({Form::columns});
    for (std::int64_t tall : {2, 3, 8})
      if (g.merges) ways.push_back({Form::columns, tall});
  }
  if (g.tall_dim >= 0) ways.push_back({Form::rows, 1, across});
  if (g.tall_dim >= 0 && across > 1 && !g.b.there() && !g.c.there())
    for (std::int64_t wide : {1, 2, 5}) ways.push_back({Form::pieces, 1, wide});
  return ways;
}

// Whatever is chosen, the bits are the same: so that a choice may depend on earlier runs.
TEST(Gathered, EveryWayGivesTheSameBits) {
  std::map<std::string, int> seen;
  const int n = long_run() ? 600 : 60;
  const auto isas = kernels::available_isas();
  for (int i = 0; i < n; ++i) {
    Random random{std::mt19937_64(static_cast<std::uint64_t>(1000 + i))};
    Case c = random_case(random, i % 8 == 0);
    if (c.source == "L") continue; // what lies behind a length is never read
    const Program parsed = fix_sizes(parse(c.text, "case.tw"), {});
    const int percents[] = {0, 2, 10, 30, 100};
    const Values given = random_values(parsed, c, random, percents[random.below(5)]);
    const Program p = with_weights(parsed, given);
    const Plan plan = plan_of(
        p, std::string(name_of(isas[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(isas.size())))])),
        static_cast<int>(1 + random.below(3)));
    std::vector<cpu::Gathered::Way> ways;
    const Values want = testing::execute(plan, given, for_gathered([&](cpu::Gathered& g) { ways = ways_of(g); }));
    for (const cpu::Gathered::Way& way : ways)
      for (const bool packs : {true, false}) {
        const Values got = testing::execute(
            plan, given, for_gathered([&](cpu::Gathered& g) { g.forced = way, g.packs_forced = packs; }));
        ++seen[std::to_string(static_cast<int>(way.form)) + (packs ? " packed" : " where B lies")];
        for (TensorId t : p.outputs)
          ASSERT_EQ(std::memcmp(got.at(t).data, want.at(t).data, want.at(t).bytes()), 0)
              << "seed " << i << " form " << static_cast<int>(way.form) << " tall " << way.tall << " wide " << way.wide
              << " packs " << packs << "\n"
              << c.text;
      }
  }
  for (const auto& [way, count] : seen) std::printf("%5d %s\n", count, way.c_str());
}

// Both operands, results that are wanted in places, channels of convolutions, and what kernels make themselves.
std::string random_form(Random& random) {
  auto extent = [&](std::int64_t most) { return number(1 + random.below(random.chance(20) ? 4 : most)); };
  const auto tile = [&] {
    return number(1 + random.below(random.chance(50) ? 1 : 12)) + ", " +
           number(1 + random.below(random.chance(50) ? 1 : 40));
  };
  const std::string sizes = "program p(b=" + number(1 + random.below(3)) + ", m=" + extent(60) + ", k=" + extent(80) +
                            ", n=" + extent(90) + ", f=" + extent(50) + ", h=" + number(3 + random.below(9)) + ")\n";
  const std::string bias = random.chance(40) ? "+ v[n]" : "";
  switch (random.below(6)) {
  case 0: // both
    return sizes + "input A[m k] : f32 sparse(zeros, tile " + tile() + ")\n" +
           (random.chance(50) ? "input" : "weight") + " B[k n] : f32 sparse(zeros, tile " + tile() +
           ")\ninput v[n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\nD[m n] = C[m n] " + bias + "\noutput D\n";
  case 1: // the second alone; which side it is on
    return sizes + (random.chance(50) ? "input" : "weight") + " B[" + (random.chance(50) ? "k n" : "n k") +
           "] : f32 sparse(zeros, tile " + tile() +
           ")\ninput A[b m k] : f32\ninput v[n] : f32\nC[b m n] = sum[k] A[b m k] * B[B]\nD[b m n] = C[b m n] " + bias +
           "\noutput D\n";
  case 2: // where it is wanted
    return sizes + "input S[m n] : f32 sparse(zeros, tile " + tile() + ")\ninput A[m k] : f32" +
           (random.chance(50) ? " sparse(zeros, tile " + tile() + ")" : "") +
           "\ninput B[k n], v[n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\nD[m n] = S[m n] * C[m n] " + bias +
           "\noutput D\n";
  case 3: // channels
    return sizes + "input A[b k h h2] : f32 sparse(zeros, tile 12, 12)\n" + (random.chance(50) ? "input" : "weight") +
           " B[n k i j] : f32\ninput v[n] : f32\nC[b n y x] = sum[k i j] A[b, k, y+i-1, x+j-1 else 0] * B[n k i "
           "j]\nD[b n y x] = max(C[b n y x] + v[n], 0)\noutput D\n";
  case 4: // made by kernels
    return sizes +
           "input A[m k] : f32\ninput B[k n], W[n f], v[n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\nD[m n] = max(C[m "
           "n] " +
           bias + ", 0)\nE[m f] = sum[n] D[m n] * W[n f]\noutput E\n";
  default: // rows behind a length, through two products
    return sizes +
           "input L[b] : i32\ninput A[b m k] : f32 sparse(lengths L)\ninput B[k n], W[n f] : f32\nC[b m n] = sum[k] "
           "A[b m k] * B[k n]\nD[b m n] = max(C[b m n], 0)\nE[b m f] = sum[n] D[b m n] * W[n f]\noutput E\n";
  }
}

// Zeros in random cells of what is declared sparse.
void thin(Array& a, const Sparse& s, Random& random, int live_percent) {
  const std::int64_t columns = a.dims.back(), rows = a.dims.size() > 1 ? a.dims[a.dims.size() - 2] : 1;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, bool> cells;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const std::int64_t row = i / columns;
    const auto [at, fresh] =
        cells.try_emplace({row / rows, row % rows / s.tile_rows, i % columns / s.tile_columns}, false);
    if (fresh) at->second = random.chance(live_percent);
    if (!at->second) set(a, i, 0);
  }
}

TEST(Gathered, RandomForms) {
  Seen seen;
  const int n = long_run() ? 2000 : 180;
  const char* seed = std::getenv("TILEWRIGHT_SEED");
  const auto isas = kernels::available_isas();
  for (int i = 0; i < n; ++i) {
    Random random{std::mt19937_64(seed ? std::strtoull(seed, nullptr, 10) : static_cast<std::uint64_t>(i))};
    std::string text = random_form(random);
    if (const auto at = text.find("B[B]"); at != std::string::npos) // as it was declared
      text.replace(at, 4, text.substr(text.find(" B[") + 1, 6));
    if (const auto at = text.find("h="); text.find("h2") != std::string::npos)
      text.replace(at, 2, "i=3, j=3, y=h, x=h2, h2=7, h=");
    if (text.find("y=h,") != std::string::npos) { // sizes are declared before they are used
      const std::string late = "y=h, x=h2, h2=7, ";
      text.erase(text.find(late), late.size());
      text.replace(text.find(")\n"), 2, ", h2=7, y=h, x=h2)\n");
    }
    const Program parsed = fix_sizes(parse(text, "case.tw"), {});
    Values given;
    const int percents[] = {0, 2, 10, 30, 100};
    for (std::size_t t = 0; t < parsed.tensors.size(); ++t) {
      const Tensor& tensor = parsed.tensors[t];
      if (tensor.kind == Kind::intermediate) continue;
      Array a = testing::empty_of(parsed, static_cast<TensorId>(t));
      for (std::int64_t e = 0; e < a.count(); ++e) {
        if (a.dtype == DType::i32)
          a.as<std::int32_t>()[e] = static_cast<std::int32_t>(random.below(70));
        else
          set(a, e, random.value());
      }
      if (tensor.sparse && tensor.sparse->form == Sparse::zeros)
        thin(a, *tensor.sparse, random, percents[random.below(5)]);
      given[static_cast<TensorId>(t)] = std::move(a);
    }
    Program p = with_weights(parsed, given);
    for (std::size_t t = 0; t < p.tensors.size(); ++t) // the evaluator knows no lengths
      if (p.tensors[t].sparse && p.tensors[t].sparse->form == Sparse::lengths) {
        Array& a = given.at(static_cast<TensorId>(t));
        const Array& lengths = given.at(p.inputs[0]);
        const std::int64_t columns = a.dims[2], rows = a.dims[1];
        for (std::int64_t e = 0; e < a.count(); ++e)
          if (e / columns % rows >= lengths.as<std::int32_t>()[e / columns / rows]) set(a, e, 0);
      }
    spread_patterns(p, {true, false});
    Plan plan = plan_of(
        p, std::string(name_of(isas[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(isas.size())))])),
        static_cast<int>(1 + random.below(3)));
    for (PlannedKernel& k : plan.kernels)
      for (AxisStep& s : k.schedule.steps)
        if (random.chance(30)) s.size = 1 + random.below(64);
    for (const cpu::Kernel& k : cpu::compile(plan).kernels)
      for (const std::string& leaf : k.leaves) {
        const auto at = leaf.find("gathered (");
        ++seen.forms[at == std::string::npos ? leaf.substr(0, leaf.find(' '))
                                             : leaf.substr(at, leaf.find(')') - at + 1)];
      }
    expect_right(p, plan, given, "seed " + number(i) + "\n" + text);
    if (HasFatalFailure() || seed) return;
  }
  for (const auto& [form, count] : seen.forms) std::printf("%5d %s\n", count, form.c_str());
}

// ---- rows in the order of their keys

// Keys for every shape of a routing: uneven, all rows for one, one bucket only, none for some.
void route(Array& keys, std::int64_t slices, Random& random) {
  const std::int64_t kind = random.below(4), one = random.below(slices);
  for (std::int64_t i = 0; i < keys.count(); ++i) {
    const std::int64_t k = kind == 0 ? one : kind == 1 ? random.below(random.below(slices) + 1) : random.below(slices);
    if (keys.dtype == DType::i64)
      keys.as<std::int64_t>()[i] = k;
    else
      keys.as<std::int32_t>()[i] = static_cast<std::int32_t>(k);
  }
}

TEST(Gathered, RowsByKey) {
  int by_key = 0, others = 0;
  const int n = long_run() ? 1000 : 80;
  const auto isas = kernels::available_isas();
  for (int i = 0; i < n; ++i) {
    Random random{std::mt19937_64(static_cast<std::uint64_t>(i))};
    const int shape = static_cast<int>(random.below(4));
    const bool two = shape == 1, turned = shape == 2, extra = shape == 3;
    const std::string weight = random.chance(50) ? "weight" : "input", type = random.chance(70) ? "f32" : "bf16";
    const std::string key = two ? "t j" : "t",
                      row = extra ? "t h"
                            : two ? "t j"
                                  : "t",
                      x = extra ? "t h k" : "t k", w = turned ? "n k" : "k n";
    std::string text = "program p(t=" + number(1 + random.below(90)) + ", j=2, h=3, e=" + number(1 + random.below(12)) +
                       ", k=" + number(1 + random.below(60)) + ", n=" + number(1 + random.below(70)) + ")\ninput X[" +
                       x + "] : " + type + "\ninput g[" + key + "] : index(e)\n" + weight + " W[e " + w +
                       "] : " + type + "\ninput bias[n] : f32\nU[" + row + " n] = sum[k] X[" + x + "] * W[g[" + key +
                       "], " + (turned ? "n, k" : "k, n") + "]\n";
    const bool maps = random.chance(50);
    if (maps) text += "V[" + row + " n] = max(U[" + row + " n] + bias[n], 0)\n";
    text += std::string("output ") + (maps ? "V" : "U") + "\n";
    const Program parsed = fix_sizes(parse(text, "case.tw"), {});
    Values given;
    for (std::size_t t = 0; t < parsed.tensors.size(); ++t) {
      if (parsed.tensors[t].kind == Kind::intermediate) continue;
      Array a = testing::empty_of(parsed, static_cast<TensorId>(t));
      if (parsed.tensors[t].index_of)
        route(a, parsed.tensors[t].index_of->constant(), random);
      else
        for (std::int64_t q = 0; q < a.count(); ++q) set(a, q, random.value());
      given[static_cast<TensorId>(t)] = std::move(a);
    }
    const Program p = with_weights(parsed, given);
    Plan plan = plan_of(
        p, std::string(name_of(isas[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(isas.size())))])),
        static_cast<int>(1 + random.below(3)));
    for (PlannedKernel& k : plan.kernels)
      for (AxisStep& s : k.schedule.steps)
        if (random.chance(30)) s.size = 1 + random.below(64);
    for (const cpu::Kernel& k : cpu::compile(plan).kernels)
      for (const std::string& leaf : k.leaves) (leaf.find("rows by key") != std::string::npos ? by_key : others) += 1;
    expect_right(p, plan, given, "seed " + number(i) + "\n" + text);
    if (HasFatalFailure()) return;
  }
  std::printf("%5d by key, %d other leaves\n", by_key, others);
  EXPECT_GT(by_key, n / 2);
}

TEST(Gathered, AKeyThatIsNoSliceIsAnError) {
  const std::string text =
      "program p(t=40, e=3, k=8, n=40)\ninput X[t k] : f32\ninput g[t] : index(e)\ninput W[e k n] : f32\n"
      "U[t n] = sum[k] X[t k] * W[g[t], k, n]\noutput U\n";
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  for (std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX})
    for (int threads : {1, 3}) {
      Values given;
      for (TensorId t : p.inputs) given[t] = testing::empty_of(p, t);
      const Plan plan = plan_of(p, "base", threads);
      testing::execute(plan, given);
      given.at(p.inputs[1]).as<std::int64_t>()[17] = bad;
      EXPECT_THROW(testing::execute(plan, given), Error);
    }
}

} // namespace
} // namespace tilewright
