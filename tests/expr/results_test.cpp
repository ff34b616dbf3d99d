// Outputs whose rows are counted: what the evaluator gives of them, how they are written, and what is refused.
#include "expr/results.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

const std::string kept = "program kept(r=3, n=5)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m - 1\n"
                         "Y[r n] = 2 * X[r n]\nZ[n] = sum[r] Y[r n]\noutput Y[r found], Z[found], X\n";

Values given(const Program& p, std::int64_t m) {
  Array x = Array::make(DType::f32, {3, 5}), count = Array::make(DType::i64, {});
  for (int i = 0; i < 15; ++i) x.as<float>()[i] = static_cast<float>(i);
  *count.as<std::int64_t>() = m;
  return {{p.inputs[0], x}, {p.inputs[1], count}};
}

TEST(Results, AreTheFirstRows) {
  const Program p = parse(kept, "kept.tw");
  for (const Evaluation mode : {Evaluation::typed, Evaluation::fp64})
    for (std::int64_t rows = 0; rows <= 5; ++rows) {
      const Values values = evaluate(p, given(p, rows + 1), {}, mode);
      const Array &y = values.at(p.outputs[0]), &z = values.at(p.outputs[1]);
      ASSERT_EQ(y.dims, (std::vector<std::int64_t>{3, rows}));
      ASSERT_EQ(z.dims, (std::vector<std::int64_t>{rows}));
      EXPECT_EQ(values.at(p.outputs[2]).dims, (std::vector<std::int64_t>{3, 5}));
      for (std::int64_t i = 0; i < 3 * rows; ++i) {
        const double v = mode == Evaluation::typed ? static_cast<double>(y.as<float>()[i]) : y.as<double>()[i];
        EXPECT_EQ(v, static_cast<double>(2 * (i / rows * 5 + i % rows)));
      }
    }
  for (std::int64_t bad : {0, 7}) {
    try {
      evaluate(p, given(p, bad), {}, Evaluation::typed);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::bounds);
      EXPECT_EQ(e.message, "found counts " + std::to_string(bad - 1) + " of the 5 rows of dim 1");
    }
  }
}

TEST(Results, IncludeWhatCountsThem) {
  const Program p = parse(kept, "kept.tw");
  const TensorId found = p.tensor(p.outputs[0]).counted_by.at(1);
  EXPECT_EQ(p.tensor(found).name, "found");
  EXPECT_EQ(p.tensor(p.outputs[0]).counted_by.at(0), -1);
  EXPECT_TRUE(p.is_result(found));
  EXPECT_TRUE(p.results().contains(found));
  EXPECT_FALSE(p.is_result(p.inputs[1]));
  EXPECT_TRUE(p.tensor(p.outputs[2]).counted_by.empty());
}

TEST(Results, AreWrittenAndReadAgain) {
  for (const std::string& text : {kept, std::string("program p(n, h = n // 2)\ninput A[n h] : f32\ninput c, d : i64\n"
                                                    "output A[c d], A[c, d]\n")}) {
    const Program p = parse(text, "p.tw");
    const std::string printed = print(p);
    const Program again = parse(printed, "printed.tw");
    EXPECT_TRUE(same(p, again)) << printed;
    EXPECT_EQ(print(again), printed);
    Program other = p;
    other.tensor(other.outputs[0]).counted_by.clear();
    EXPECT_FALSE(same(p, other));
    EXPECT_EQ(fix_sizes(parse(kept, "kept.tw"), {{"n", 2}}).tensor(3).counted_by,
              parse(kept, "kept.tw").tensor(3).counted_by);
  }
}

TEST(Results, ThatCannotBeAreRefused) {
  const struct {
    const char *output, *what;
  } cases[] = {
      {"Y[r q]",
       "E0102 t.tw:6:12: unknown name q: expected a size of the header (every axis and size stands in the header)"},
      {"Y[r]", "E0104 t.tw:6:8: Y has 2 dims, 1 extents are given"},
      {"Y[n n]",
       "E0104 t.tw:6:10: dim 0 of Y is r, not n (give the extent that it has, or a tensor that counts its rows)"},
      {"Y[r f]", "E0103 t.tw:5:1: f counts the rows of Y, and is not an i64 tensor without dims"},
      {"Y[r X]", "E0103 t.tw:5:1: X counts the rows of Y, and is not an i64 tensor without dims"},
      {"Y[c n], Y[r c]", "E0104 t.tw:6:16: Y is counted in two ways"},
      {"Y[c n", "E0101 t.tw:7:1: expected ']' after the extents of Y, found the end of the line (each is the name of a "
                "size, or of a tensor that counts)"},
      {"S[c n] = X", "E0102 t.tw:4:1: the rows of S are counted, and it is stored in an input"},
  };
  for (const auto& c : cases) {
    try {
      parse("program p(r, n)\ninput X[r n], f : f32\ninput c : i64\n"
            "S[r n] = X[r n]\nY[r n] = X[r n]\noutput " +
                std::string(c.output) + "\n",
            "t.tw");
      ADD_FAILURE() << c.output;
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), c.what) << c.output;
    }
  }
  Program p = parse(kept, "kept.tw");
  p.tensor(p.tensor(p.outputs[0]).counted_by[1]).counted_by = {};
  Program inner = p;
  inner.outputs.erase(inner.outputs.begin());
  EXPECT_THROW(verify(inner), Error); // counted, and no output
  p.tensor(p.outputs[0]).counted_by.pop_back();
  EXPECT_THROW(verify(p), Error);
}

TEST(FirstRows, EqualTheLoopOverAllPoints) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> dims, cut;
    for (std::size_t rank = random() % 4; dims.size() < rank;) {
      dims.push_back(1 + static_cast<std::int64_t>(random() % 5));
      cut.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(dims.back() + 1)));
    }
    Array a = Array::make(round % 2 ? DType::f16 : DType::f64, dims);
    for (std::size_t i = 0; i < a.bytes(); ++i) a.data[i] = static_cast<std::byte>(random());
    const Array part = first_rows(a, cut);
    ASSERT_EQ(part.dims, cut);
    const std::size_t width = bytes_of(a.dtype);
    std::int64_t to = 0;
    for (std::int64_t from = 0; from < a.count(); ++from) {
      std::int64_t rest = from;
      bool inside = true;
      for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) inside = inside && rest % dims[d] < cut[d];
      if (!inside) continue;
      ASSERT_EQ(std::memcmp(part.data + static_cast<std::size_t>(to++) * width,
                            a.data + static_cast<std::size_t>(from) * width, width),
                0);
    }
    ASSERT_EQ(to, part.count());
  }
}

} // namespace
} // namespace tilewright
