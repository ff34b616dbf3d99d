// The text language: every example is read, printed, read again and verified; random programs survive the same; and
// what the rules of the language say is seen in what statements become.
#include "expr/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "expr/lexer.h"
#include "expr/opaque.h"
#include "expr/random_program.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// parse(print(p)) == p, and printing is stable.
void expect_round_trip(const Program& p) {
  const std::string text = print(p);
  SCOPED_TRACE(text);
  const Program again = parse(text, "printed.tw");
  EXPECT_TRUE(same(p, again)) << "read again it is\n" << print(again);
  EXPECT_EQ(print(again), text);
}

// The printed statements of a program, without header, declarations and outputs.
std::string statements(const std::string& text) {
  const Program p = parse(text, "t.tw");
  expect_round_trip(p);
  std::istringstream lines(print(p));
  std::string line, result;
  for (bool in_header = true; std::getline(lines, line);) {
    in_header = in_header && line.find(')') == std::string::npos && !result.empty();
    if (line.starts_with("program") || line.starts_with(" ") || line.starts_with("input") ||
        line.starts_with("weight") || line.starts_with("output"))
      continue;
    result += line + "\n";
  }
  return result;
}

std::vector<fs::path> examples() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(TILEWRIGHT_SOURCE_DIR) / "examples"))
    if (entry.path().extension() == ".tw") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// ---- examples

TEST(Text, ExamplesAreReadPrintedAndReadAgain) {
  int programs = 0;
  for (const fs::path& path : examples()) {
    SCOPED_TRACE(path.filename().string());
    for (const Program& p : parse_all(read_file(path), path.filename().string())) {
      verify(p);
      expect_round_trip(p);
      ++programs;
    }
  }
  EXPECT_GE(programs, 16);
}

TEST(Text, ExamplesPrintAsTheGoldenFiles) {
  const bool update = std::getenv("TILEWRIGHT_UPDATE_GOLDEN") != nullptr;
  for (const fs::path& path : examples()) {
    std::string printed;
    for (const Program& p : parse_all(read_file(path), path.filename().string()))
      printed += (printed.empty() ? "" : "\n") + print(p);
    const fs::path golden =
        fs::path(TILEWRIGHT_SOURCE_DIR) / "tests/golden/text" / path.filename().replace_extension(".txt");
    if (update) std::ofstream(golden, std::ios::binary) << printed;
    EXPECT_EQ(read_file(golden), printed) << golden.filename() << " differs; TILEWRIGHT_UPDATE_GOLDEN=1 writes it anew";
  }
}

TEST(Text, ExamplesWithTheirSizesFixed) {
  for (const fs::path& path : examples()) {
    SCOPED_TRACE(path.filename().string());
    for (const Program& p : parse_all(read_file(path), path.filename().string())) {
      Binding sizes;
      int next = 3;
      for (const SizeDecl& s : p.sizes)
        if (!s.value) sizes[s.name] = next++;
      const Program fixed = fix_sizes(p, sizes);
      for (const Tensor& t : fixed.tensors)
        for (const Size& dim : t.dims) EXPECT_TRUE(dim.is_constant()) << t.name;
      for (const auto& node : fixed.nodes)
        for (const Size& extent : std::get<Statement>(node).axes) EXPECT_TRUE(extent.is_constant());
      expect_round_trip(fixed);
    }
  }
}

// ---- random programs

TEST(Text, RandomProgramsAreReadAgain) {
  const int cases = std::getenv("TILEWRIGHT_LONG") ? 20000 : 1000;
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Random random(static_cast<std::uint64_t>(seed));
    const Program p = testing::random_program(random, {});
    expect_round_trip(p);
    expect_round_trip(fix_sizes(p, {}));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Text, SameTellsProgramsApart) {
  const std::string text =
      "program p(n, m=3)\ninput A[n m], B[m] : f32\nC[n] = sum[m] A[n m] * B[m] + 1 where index(m) < 2\noutput C\n";
  const Program p = parse(text, "t.tw");
  EXPECT_TRUE(same(p, parse("program p(n, m=3, k = m)\ninput A[n m], B[k] : f32\nC[n] : f32 = sum[k]\n  A[n k] * B[k] "
                            "+ 1 where index(k) < 2\noutput C\n",
                            "t.tw")));
  const std::pair<const char*, const char*> changes[] = {{"program p", "program q"},
                                                         {"m=3", "m=4"},
                                                         {"m=3", "m"},
                                                         {"n,", "n in 1..9,"},
                                                         {": f32", ": f16"},
                                                         {"input", "weight"},
                                                         {"sum", "max"},
                                                         {"* B[m]", "* B[0]"},
                                                         {"+ 1", "+ 2"},
                                                         {"+ 1", "+ 1.5"},
                                                         {"+ 1", "- 1"},
                                                         {"< 2", "<= 2"},
                                                         {" where index(m) < 2", ""},
                                                         {"output C", "output C, C"},
                                                         {"B[m]", "B[m else 0]"},
                                                         {"A[n m], B[m]", "B[m], A[n m]"},
                                                         {"C[n] =", "C[n] : f64 ="},
                                                         {"A[n m] *", "A[n, m-1 else 0] *"}};
  for (const auto& [from, to] : changes) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    if (std::string(from) == "B[m]")
      changed = "program p(n, m=3)\ninput A[n m], B[m] : f32\nC[n] = sum[m] A[n m] * B[m else 0] + 1 where index(m) < "
                "2\noutput C\n";
    EXPECT_FALSE(same(p, parse(changed, "t.tw"))) << changed;
  }
}

// ---- the rules

TEST(Text, IndicesPartedByBlanksOrCommas) {
  EXPECT_EQ(
      statements(
          "program p(a, b=2)\ninput X[a b] : f32\nY[a b] = X[a, b]\nZ[a, b] = X[a b] + X[a,b-1 else 0]\noutput Y, Z\n"),
      "Y[a b] : f32 = X[a b]\nZ[a b] : f32 = X[a b] + X[a, b-1 else 0]\n");
  // Rule 2: [a -b] is one index.
  EXPECT_EQ(statements("program p(a=4, b=3)\ninput X[a] : f32\nY[a b] = X[a -b else 0]\noutput Y\n"),
            "Y[a b] : f32 = X[a-b else 0]\n");
}

TEST(Text, NamesAreIndicesInsideBracketsAndExtentsOutside) {
  EXPECT_EQ(statements(
                "program p(x, q)\ninput X[x] : f32\nY[x q] = X[x + q - size(q) + 1 else q] * x + index(q)\noutput Y\n"),
            "Y[x q] : f32 = X[x+q-size(q)+1 else q] * x + index(q)\n");
}

TEST(Text, LinesContinueAfterABlank) {
  EXPECT_EQ(statements("program p(a)   # sizes\n\n# all of it\ninput X[a],\n   # between\n\n  Z[a] : f32\nY[a] "
                       "=\n\tX[a]\n\t + Z[a] # end\noutput Y"),
            "Y[a] : f32 = X[a] + Z[a]\n");
  EXPECT_EQ(statements("program p(a)\r\ninput X[a] : f32\r\nY[a] = X[a]\r\noutput Y\r\n"), "Y[a] : f32 = X[a]\n");
}

TEST(Text, QuotedNamesMayHoldAnything) {
  const std::string text = "program 'my model'(a)\ninput 'x:0'[a], 'sum'[a], 'it''s'[a], 'a\nb'[a] : f32\n'y/z'[a] = "
                           "'x:0'[a] + 'sum'[a] + 'it''s'[a] + 'a\nb'[a]\noutput 'y/z'\n";
  const Program p = parse(text, "t.tw");
  EXPECT_EQ(p.name, "my model");
  EXPECT_EQ(p.tensor(2).name, "it's");
  expect_round_trip(p);
}

TEST(Text, ReducersAndDefaultTypes) {
  EXPECT_EQ(statements("program p(a, b)\ninput X[a b] : f16\ninput N[a b] : i8\ninput M[a b] : bool\ninput D[a] : f64\n"
                       "A[a] = sum[b] X[a b]\nB[a b] = X[a b] * 2\nC[a] = max[b] N[a b]\nE[a b] = N[a b] + N[a "
                       "b]\nF[a] = sum[b] M[a b]\n"
                       "G[a] = any[b] M[a b] and X[a b] > 0\nH[a] = argmin[b] X[a b]\nI[a b] = N[a b] * 0.5\nJ[a b] = "
                       "X[a b] * D[a]\n"
                       "K[a b] = index(a) + b\nL[a b] = N[a b] / 2\nM2[a b] = X[a b] < 1\nO[a b] = X[a b] * N[a "
                       "b]\nP[a b] = bf16(X[a b])\n"
                       "output A, B, C, E, F, G, H, I, J, K, L, M2, O, P\n"),
            "A[a] : f16 = sum[b] X[a b]\nB[a b] : f16 = X[a b] * 2\nC[a] : i32 = max[b] N[a b]\nE[a b] : i8 = N[a b] + "
            "N[a b]\nF[a] : i32 = sum[b] M[a b]\n"
            "G[a] : bool = any[b] M[a b] and X[a b] > 0\nH[a] : index(b) = argmin[b] X[a b]\nI[a b] : f32 = f32(N[a "
            "b]) * 0.5\nJ[a b] : f64 = X[a b] * D[a]\n"
            "K[a b] : i32 = index(a) + b\nL[a b] : f32 = f32(N[a b]) / 2\nM2[a b] : bool = X[a b] < 1\nO[a b] : f16 = "
            "X[a b] * N[a b]\nP[a b] : bf16 = bf16(X[a b])\n");
}

TEST(Text, OperatorsBindAsUsual) {
  const std::string head =
      "program p(a)\ninput X[a], Y[a], Z[a] : f32\ninput I[a], J[a] : i32\ninput B[a], C[a] : bool\n";
  auto body = [&](const std::string& text, const std::string& type = "") {
    const std::string all = statements(head + "R[a]" + type + " = " + text + "\noutput R\n");
    return all.substr(all.find("= ") + 2, all.size() - all.find("= ") - 3);
  };
  for (const char* text : {"X[a] - (Y[a] - Z[a])",
                           "X[a] - Y[a] - Z[a]",
                           "X[a] / (Y[a] * Z[a])",
                           "(X[a] + Y[a]) * Z[a]",
                           "-X[a]^2",
                           "(-X[a])^2",
                           "X[a]^Y[a]^Z[a]",
                           "(X[a]^Y[a])^Z[a]",
                           "X[a]^-2",
                           "(-2)^X[a]",
                           "-(3)",
                           "--X[a]",
                           "X[a] - -3",
                           "exp(-X[a] * 2)",
                           "select(B[a] and not C[a], X[a], Y[a])",
                           "select(X[a] < Y[a] or B[a] and C[a], 0.0, 1.0)",
                           "not (B[a] or C[a])",
                           "(not B[a]) == C[a]",
                           "bitand(I[a], 255) + shl(I[a], 2)",
                           "tdiv(I[a], J[a]) + I[a] // J[a] % 3",
                           "bitnot(I[a])",
                           "min(X[a], Y[a]) + max(X[a], -inf)",
                           "i32(round(X[a]))",
                           "f16(X[a] + 0.1)",
                           "f64(X[a]) + 0.1",
                           "i64(index(a)) + 5",
                           "i64((index(a)))",
                           "nan() + X[a]",
                           "sign(X[a]) * floor(Y[a]) + isnan(Z[a])",
                           "X[a] + -0.0",
                           "1e+20 * X[a]",
                           "f32((1.5))",
                           "i64((2))",
                           "X[a] * a",
                           "i64(I[a]) * 4000000000",
                           "atan(X[a]) + asinh(Y[a]) + cosh(Z[a])"})
    EXPECT_EQ(body(text), text);
  EXPECT_EQ(body("pow(X[a], 2)"), "X[a]^2");
  EXPECT_EQ(body("X[a] * 2.0"), "X[a] * 2");
  EXPECT_EQ(body("1/2 * X[a]"), "1.0 / 2.0 * X[a]");
  EXPECT_EQ(body("I[a] * 2.5"), "f32(I[a]) * 2.5");
  EXPECT_EQ(body("sqrt(I[a])"), "sqrt(I[a])");
  EXPECT_EQ(body("min(X[a], Y[a], 3)"), "min(min(X[a], Y[a]), 3)");
}

TEST(Text, SizesAreFreeDerivedFixedOrRanged) {
  const Program p = parse("program p(h, i=3, y=(h+i-1)//2, c == 8, x in 0..9, k=4 in 2..16, z in 5..5, o = h - h)\n"
                          "input X[h c x] : f32\nY[y c k z] = X[0, c, 0 else 0] + o\noutput Y\n",
                          "t.tw");
  expect_round_trip(p);
  const Statement& s = *p.statement(0);
  EXPECT_EQ(s.axes[0], floor_div(Size::symbol("h") + Size::symbol("i") - 1, 2));
  EXPECT_EQ(s.axes[1], Size(8));
  EXPECT_EQ(s.axes[3], Size(5));
  EXPECT_EQ(p.sizes[0].range.low, 1); // an axis
  EXPECT_EQ(p.sizes[1].range.low, 0); // only a size
  EXPECT_EQ(p.sizes[4].range.high, 9);
  EXPECT_EQ(p.sizes[5].value, Size(4));
  const Program fixed = fix_sizes(p, {{"h", 7}, {"x", 3}});
  EXPECT_EQ(fixed.statement(0)->axes[0], Size(4));
  EXPECT_EQ(fixed.sizes[2].value, Size(4));
}

TEST(Text, TypesOfIndices) {
  const Program p = parse("program p(t, v)\ninput a[t] : index(v)\ninput b[t] : i32 index(v)\ninput E[v] : f32\nY[t] = "
                          "E[a[t]] + E[b[t]]\noutput Y\n",
                          "t.tw");
  expect_round_trip(p);
  EXPECT_EQ(p.tensor(0).dtype, DType::i64);
  EXPECT_EQ(p.tensor(1).dtype, DType::i32);
  EXPECT_EQ(*p.tensor(1).index_of, Size::symbol("v"));
}

TEST(Text, SparseTensors) {
  const Program p = parse(
      "program p(b, x, c)\ninput n[b] : i32\ninput m[b x] : bool\ninput X[b x c] : f16 sparse(lengths n, tile 8, 4)\n"
      "input Y[b x c] : f16 sparse(mask m)\ninput Z[x c] : f16 sparse(zeros)\nS[b x c] = X[b x c] + Y[b x c] + Z[x "
      "c]\noutput S\n",
      "t.tw");
  expect_round_trip(p);
  EXPECT_EQ(p.tensor(2).sparse->form, Sparse::lengths);
  EXPECT_EQ(p.tensor(2).sparse->tile_columns, 4);
  EXPECT_EQ(p.tensor(3).sparse->of, "m");
}

TEST(Text, OpaqueStatementsFindTheirReference) {
  register_reference("twice", [](std::span<const Array>, std::span<Array>) {});
  const Program p = parse("program p(n, k=2)\ninput X[n] : f32\nopaque V[k] : f32, I[k] : index(n) = twice(X)\nopaque "
                          "W : f32 = 'no such'(X)\nY[k] = V[k] + X[I[k]] + W\noutput Y\n",
                          "t.tw");
  expect_round_trip(p);
  EXPECT_TRUE(std::get<Opaque>(p.nodes[0]).reference);
  EXPECT_FALSE(std::get<Opaque>(p.nodes[1]).reference);
  EXPECT_EQ(*p.tensor(2).index_of, Size::symbol("n"));
}

TEST(Text, PiecesMakeOneTensor) {
  const Program p =
      parse("program p(n, a, b)\ninput A[n a], B[n b] : f16\nY[n, a] = A[n a]\nY[n, b + size(a)] = B[n b]\noutput Y\n",
            "t.tw");
  EXPECT_EQ(p.tensor(2).dims[1], Size::symbol("a") + Size::symbol("b"));
  EXPECT_EQ(p.tensor(2).dtype, DType::f16);
  // A number takes the type of the other pieces.
  EXPECT_EQ(parse("program p(a)\ninput A[a] : f16\nY[0] = 0.5\nY[a + 1] = A[a]\noutput Y\n", "t.tw").tensor(1).dtype,
            DType::f16);
  // A piece may read an earlier one, which becomes a tensor of its own.
  EXPECT_EQ(statements("program p(t, e)\ninput G[t e] : f32\nx[t, 0] = argmax[e] G[t e]\nx[t, 1] = argmax[e] G[t e] "
                       "where index(e) != x[t, 0]\noutput x\n"),
            "x_1[t] : index(e) = argmax[e] G[t e]\nx[t, 0] : index(e) = x_1[t]\nx[t, 1] : index(e) = argmax[e] G[t e] "
            "where index(e) != x_1[t]\n");
}

TEST(Text, DefinitionsStandForStatements) {
  EXPECT_EQ(statements("program p(t, c)\ninput X[t c] : f16\nY[t c] = layernorm[c, eps=1e-3] X[t c]\noutput Y\n"),
            "Y_mean_sum[t] : f32 = sum[c] X[t c]\n"
            "Y_variance_sum[t] : f32 = sum[c] (X[t c] - Y_mean_sum[t] / i64(c)) * (X[t c] - Y_mean_sum[t] / i64(c))\n"
            "Y[t c] : f16 = (X[t c] - Y_mean_sum[t] / i64(c)) / sqrt(Y_variance_sum[t] / i64(c) + 0.001)\n");
  EXPECT_EQ(
      statements("program p(t, c, k)\ninput X[t c] : i8\nY[t, k] = 0\nY[t, c + size(k)] = rmsnorm[c] X[t c] where "
                 "index(c) > 0\nZ = mean[t c] X[t c]\noutput Y, Z\n")
          .substr(0, 60),
      "Y[t k] : f32 = 0\nY_square_sum[t] : f32 = sum[c] f32(X[t c]) ");
  EXPECT_EQ(statements("program p(c)\ninput X[c] : f32\nY[c] = leaky_relu(X[c], alpha=0.2) + clip(X[c], -1, 1) + "
                       "relu(X[c])\noutput Y\n"),
            "Y[c] : f32 = select(X[c] < 0, X[c] * 0.2, X[c]) + min(max(X[c], -1), 1) + max(X[c], 0)\n");
}

TEST(Text, ProgramsOfAFileAreChosenByName) {
  const std::string text =
      "program one()\ninput X : f32\nY = X\noutput Y\nprogram two()\ninput X : f32\nZ = -X\noutput Z\n";
  EXPECT_EQ(parse(text, "t.tw").name, "one");
  EXPECT_EQ(parse(text, "t.tw", "two").name, "two");
  EXPECT_EQ(parse_all(text, "t.tw").size(), 2u);
}

TEST(Text, StateIsAnOutputInAnInputsBuffer) {
  const Program p = parse(
      "program p(x, n)\ninput K[x], N[n] : f16\ninput at : i32\nL[x] = N[x - at else K[x]]\noutput L = K\n", "t.tw");
  expect_round_trip(p);
  EXPECT_EQ(p.tensor(3).stored_in, 0);
}

// Programs that do not come from a text: names that clash, extents without a name, ids out of order.
TEST(Text, BuiltProgramsGetNamesForTheirExtents) {
  Program p;
  p.name = "built";
  p.sizes.push_back({"n", std::nullopt, {1, 64}, true});
  const Size n = Size::symbol("n");
  Builder build(p);
  const TensorId out = build.tensor("n.out", DType::f32, {2 * n + 1, 3, 3});
  const TensorId in = build.tensor("in put", DType::f32, {2 * n + 1, 3, 3}, Kind::input);
  p.inputs.push_back(in);
  Statement s;
  s.out = out;
  s.axes = {3, 2 * n + 1, 3};
  s.names = {"i", "i", "n"};
  s.at = {axis_index(1), axis_index(2), axis_index(0)};
  s.body = binary(Op::mul, build.read(in, {axis_index(1), axis_index(0), axis_index(2)}),
                  cast(size_value(n * n), DType::f32));
  p.nodes.emplace_back(s);
  p.outputs.push_back(out);
  verify(p);
  expect_round_trip(p);
  EXPECT_EQ(print(p),
            "program built(n in 1..64, i = 2*n+1, i_2 == 3, n_2 == 3, s = n*n)\ninput 'in put'[i i_2 n_2] : f32\n"
            "'n.out'[i n_2 i_2] : f32 = 'in put'[i i_2 n_2] * s\noutput 'n.out'\n");
}

} // namespace
} // namespace tilewright
