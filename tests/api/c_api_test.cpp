// The C interface: what it computes, what it refuses and how it says so, and many threads at once.
#include "tilewright/tilewright.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char* scale_text = R"(program scale(n in 0..64, c=4)
input X[n c], s[c] : f32
Y[n c] = X[n c] * s[c]
Z[n] = sum[c] Y[n c]
output Y, Z
)";

std::string error() { return tw_last_error(); }

// A session that closes itself; null where opening failed.
struct Opened {
  tw_session* s = nullptr;
  tw_status status;
  explicit Opened(const std::string& text, const std::vector<tw_option>& options = {}) {
    status = tw_open_memory(text.data(), text.size(), 1, options.data(), options.size(), &s);
  }
  ~Opened() { tw_close(s); }
};

tw_tensor tensor(const char* name, std::vector<int64_t> shape, void* data, int dtype = TW_F32) {
  tw_tensor t{};
  t.name = name, t.dtype = dtype, t.ndim = static_cast<int32_t>(shape.size()), t.data = data;
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d]) t.shape[d] = shape[d], t.stride[d] = step;
  return t;
}

struct Scale : testing::Test {
  Opened open{scale_text};
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, s{1, 10, 100, 1000}, y = std::vector<float>(8),
                                                                     z = std::vector<float>(2);
  std::vector<tw_tensor> in{tensor("X", {2, 4}, x.data()), tensor("s", {4}, s.data())};
  std::vector<tw_tensor> out{tensor("Y", {2, 4}, y.data()), tensor("Z", {2}, z.data())};

  void SetUp() override { ASSERT_EQ(open.status, TW_OK) << error(); }
  tw_status run() { return tw_run(open.s, in.data(), in.size(), out.data(), out.size(), nullptr); }
  void expect_refused(const std::string& part) {
    EXPECT_EQ(run(), TW_USAGE) << part;
    EXPECT_NE(error().find(part), std::string::npos) << error();
  }
};

TEST_F(Scale, Computes) {
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(y, (std::vector<float>{1, 20, 300, 4000, 5, 60, 700, 8000}));
  EXPECT_EQ(z, (std::vector<float>{4321, 8765}));
}

TEST_F(Scale, FollowsTheShapesOfItsInputs) {
  for (int64_t n : {1, 3, 2, 5, 0, 2}) {
    std::vector<float> big(static_cast<size_t>(4 * n + 1), 1.0f), sums(static_cast<size_t>(n + 1), -1.0f);
    in[0] = tensor("X", {n, 4}, big.data());
    tw_tensor asked = tensor("Z", {}, nullptr);
    ASSERT_EQ(tw_shape(open.s, in.data(), 2, &asked, 1), TW_OK) << error();
    EXPECT_EQ(asked.ndim, 1);
    EXPECT_EQ(asked.shape[0], n);
    EXPECT_EQ(tw_bytes(&asked), static_cast<size_t>(4 * n));
    asked.data = sums.data();
    ASSERT_EQ(tw_run(open.s, in.data(), 2, &asked, 1, nullptr), TW_OK) << error();
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 1111.0f);
    EXPECT_EQ(sums.back(), -1.0f) << "wrote past the end";
  }
}

TEST_F(Scale, TakesArraysByPositionInAnyOrderAndSomeOutputs) {
  in[0].name = in[1].name = nullptr;
  out[0].name = out[1].name = nullptr;
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(z[1], 8765);
  in = {tensor("s", {4}, s.data()), tensor("X", {2, 4}, x.data())};
  out = {tensor("Z", {2}, z.data())};
  z = {0, 0};
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(z, (std::vector<float>{4321, 8765}));
}

TEST_F(Scale, TakesAnyStrides) {
  // X transposed, backwards and broadcast; Y written into every second column.
  std::vector<float> turned{1, 5, 2, 6, 3, 7, 4, 8}, one{7}, wide(16, -1.0f);
  in[0] = tensor("X", {2, 4}, turned.data());
  in[0].stride[0] = 1, in[0].stride[1] = 2;
  std::vector<float> back(s.rbegin(), s.rend());
  in[1].data = back.data() + 3, in[1].stride[0] = -1;
  out[0].data = wide.data(), out[0].stride[0] = 8, out[0].stride[1] = 2;
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(wide, (std::vector<float>{1, -1, 20, -1, 300, -1, 4000, -1, 5, -1, 60, -1, 700, -1, 8000, -1}));
  in[1] = tensor("s", {4}, one.data());
  in[1].stride[0] = 0;
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(z, (std::vector<float>{70, 182}));
}

TEST_F(Scale, TakesUnalignedArrays) {
  std::vector<char> bytes(33);
  std::memcpy(bytes.data() + 1, x.data(), 32);
  in[0].data = bytes.data() + 1;
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(z, (std::vector<float>{4321, 8765}));
}

TEST_F(Scale, TakesOutputsThatLieOnInputs) {
  out[0].data = x.data(); // Y over X, while Z still needs X
  ASSERT_EQ(run(), TW_OK) << error();
  EXPECT_EQ(x, (std::vector<float>{1, 20, 300, 4000, 5, 60, 700, 8000}));
  EXPECT_EQ(z, (std::vector<float>{4321, 8765}));
}

TEST_F(Scale, RefusesWhatDoesNotFit) {
  const auto good_in = in, good_out = out;
  const auto again = [&] { in = good_in, out = good_out; };
  in[0].dtype = TW_F64, expect_refused("X"), again();
  in[0].dtype = 99, expect_refused("dtype 99"), again();
  in[0].ndim = 9, expect_refused("9 dims"), again();
  in[0].ndim = -1, expect_refused("-1 dims"), again();
  in[0].ndim = 1, expect_refused("X"), again();
  in[0].shape[1] = 5, expect_refused("X"), again();
  in[0].shape[0] = -2, expect_refused("dim 0 is -2"), again();
  in[0].shape[0] = INT64_MAX, expect_refused("E0"), again();
  in[0].stride[0] = INT64_MAX, expect_refused("E0"), again();
  in[0].stride[0] = INT64_MIN, expect_refused("stride 0"), again();
  in[0].data = nullptr, expect_refused("no data"), again();
  in[0].device = 2, expect_refused("device 2"), again();
  in[0].device = TW_CUDA, expect_refused("on the CPU"), again();
  in[0].capacity = 31, expect_refused("31 bytes, 32 are needed"), again();
  in[0].name = "nobody", expect_refused("it has X, s"), again();
  in[1].name = "X", expect_refused("given twice"), again();
  in.pop_back(), expect_refused("missing"), again();
  in.push_back(in[0]), in[0].name = in[1].name = in[2].name = nullptr, expect_refused("3 inputs"), again();
  out[0].stride[0] = 0, expect_refused("output is 0"), again();
  out[0].shape[0] = 3, expect_refused("Y"), again();
  out[0].name = "X", expect_refused("output"), again();
  EXPECT_EQ(tw_run(open.s, nullptr, 2, out.data(), 2, nullptr), TW_USAGE);
  EXPECT_EQ(tw_run(nullptr, in.data(), 2, out.data(), 2, nullptr), TW_USAGE);
  EXPECT_EQ(tw_run(open.s, in.data(), 2, out.data(), 2, &in), TW_USAGE);
  EXPECT_EQ(run(), TW_OK) << "the session is unharmed: " << error();
}

// The shapes of results that depend on values: the most that there can be, and after a run what there is.
TEST(Counted, OutputsTellTheirShapesAfterARun) {
  Opened open("program p(r=3, n)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m + 0\nY[r n] = 2 * X[r n]\n"
              "output Y[r found]\n");
  ASSERT_EQ(open.status, TW_OK) << error();
  std::vector<float> x(12), y(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  int64_t m = 0;
  const std::vector<tw_tensor> in{tensor("X", {3, 4}, x.data()), tensor("m", {}, &m, TW_I64)};
  for (m = 0; m <= 4; ++m) {
    tw_tensor out{};
    ASSERT_EQ(tw_shape(open.s, in.data(), in.size(), &out, 1), TW_OK) << error();
    EXPECT_EQ(out.shape[0], 3);
    EXPECT_EQ(out.shape[1], 4);
    out.data = y.data();
    ASSERT_EQ(tw_run(open.s, in.data(), in.size(), &out, 1, nullptr), TW_OK) << error();
    EXPECT_EQ(out.shape[0], 3);
    EXPECT_EQ(out.shape[1], m);
    EXPECT_EQ(out.stride[0], 4);
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < m; ++i) EXPECT_EQ(y[static_cast<size_t>(r * out.stride[0] + i)], 2 * x[static_cast<size_t>(r * 4 + i)]);
    if (m == 4) continue;
    EXPECT_EQ(tw_run(open.s, in.data(), in.size(), &out, 1, nullptr), TW_USAGE); // the shape must be put back
  }
  tw_tensor out{};
  ASSERT_EQ(tw_shape(open.s, in.data(), in.size(), &out, 1), TW_OK);
  out.data = y.data();
  m = 5;
  EXPECT_EQ(tw_run(open.s, in.data(), in.size(), &out, 1, nullptr), TW_USAGE);
  EXPECT_NE(error().find("found counts 5 of the 4 rows of dim 1"), std::string::npos) << error();
  char* json = nullptr;
  ASSERT_EQ(tw_describe(open.s, "outputs", &json), TW_OK);
  EXPECT_NE(std::string(json).find("\"counted\":[1]"), std::string::npos) << json;
  tw_free(json);
}

TEST_F(Scale, Describes) {
  char* json = nullptr;
  ASSERT_EQ(tw_describe(open.s, "inputs", &json), TW_OK) << error();
  EXPECT_STREQ(json, R"([{"name":"X","type":"f32","shape":["n","c"]},{"name":"s","type":"f32","shape":["c"]}])");
  tw_free(json);
  EXPECT_EQ(tw_describe(open.s, "plan", &json), TW_USAGE) << "n has no value yet";
  EXPECT_EQ(json, nullptr);
  EXPECT_NE(error().find("size.n"), std::string::npos) << error();
  ASSERT_EQ(run(), TW_OK);
  for (const char* what : {"outputs", "plan", "explain"}) {
    ASSERT_EQ(tw_describe(open.s, what, &json), TW_OK) << what << error();
    EXPECT_NE(std::string(json).find("Z"), std::string::npos);
    tw_free(json);
  }
  EXPECT_EQ(tw_describe(open.s, "colour", &json), TW_USAGE);
  EXPECT_NE(error().find("explain"), std::string::npos) << "lists what there is: " << error();
}

TEST_F(Scale, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 40; ++round) {
        const auto n = static_cast<int64_t>(1 + (t + static_cast<size_t>(round)) % 6); // more bindings than are kept
        std::vector<float> mine(static_cast<size_t>(4 * n), static_cast<float>(t)), sums(static_cast<size_t>(n));
        const tw_tensor given[] = {tensor("X", {n, 4}, mine.data()), tensor("s", {4}, s.data())};
        tw_tensor wanted = tensor("Z", {n}, sums.data());
        const bool fine = tw_run(open.s, given, 2, &wanted, 1, nullptr) == TW_OK;
        for (float sum : sums) wrong[t] += !fine || sum != 1111.0f * static_cast<float>(t);
        tw_tensor bad = tensor("nobody", {1}, sums.data());
        if (tw_run(open.s, given, 2, &bad, 1, nullptr) != TW_USAGE || error().find("nobody") == std::string::npos)
          ++wrong[t];
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

// Threads that open, describe, run and close sessions of their own; errors stay with the thread that made them.
TEST(Threads, HaveSessionsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 6; ++round) {
        const std::string workers = std::to_string(1 + (t + static_cast<size_t>(round)) % 3);
        const Opened mine(scale_text, {{"threads", workers.c_str()}});
        std::vector<float> x(12, static_cast<float>(t + 1)), s{1, 2, 3, 4}, z(3);
        const tw_tensor in[] = {tensor("X", {3, 4}, x.data()), tensor("s", {4}, s.data())};
        tw_tensor out = tensor("Z", {3}, z.data());
        char* json = nullptr;
        wrong[t] += mine.status != TW_OK || tw_run(mine.s, in, 2, &out, 1, nullptr) != TW_OK;
        wrong[t] += tw_describe(mine.s, "explain", &json) != TW_OK;
        tw_free(json);
        for (float v : z) wrong[t] += v != 10 * static_cast<float>(t + 1);
        const std::string name = "size.q" + std::to_string(t);
        const Opened refused(scale_text, {{name.c_str(), "1"}});
        wrong[t] += refused.status != TW_USAGE || error().find("q" + std::to_string(t)) == std::string::npos;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Open, TellsWhatIsWrong) {
  const auto refused = [](const std::string& text, const std::vector<tw_option>& options, const std::string& part) {
    Opened o(text, options);
    EXPECT_EQ(o.status, TW_USAGE) << part;
    EXPECT_EQ(o.s, nullptr);
    EXPECT_NE(error().find(part), std::string::npos) << part << " in " << error();
  };
  refused("program p(n)\ninput X[n] : f32\nY[n] = X[m]\noutput Y\n", {}, "text:3:");
  refused("", {}, "is empty");
  refused(scale_text, {{"colour", "red"}}, "plan, program, size.NAME, sparse, sparse.NAME, strict, threads, without");
  refused(scale_text, {{"threads", "many"}}, "'many'");
  refused(scale_text, {{"threads", "-1"}}, "'-1'");
  refused(scale_text, {{"isa", "sse9"}}, "sse9");
  refused(scale_text, {{"size.q", "3"}}, "it has n, c");
  refused(scale_text, {{"size.n", "4x"}}, "'4x'");
  refused(scale_text, {{"program", "other"}}, "other");
  refused(scale_text, {{nullptr, "1"}}, "option key");
  refused(scale_text, {{"threads", nullptr}}, "threads");
  ::setenv("TILEWRIGHT_CUDA", "/nonexistent/libcuda.so", 1);
  Opened cuda(scale_text, {{"device", "cuda:0"}});
  EXPECT_EQ(cuda.status, TW_NO_DEVICE);
  tw_session* s = nullptr;
  EXPECT_EQ(tw_open("/nowhere/net.onnx", nullptr, 0, &s), TW_USAGE);
  EXPECT_NE(error().find("E0201"), std::string::npos) << error();
  EXPECT_EQ(tw_open(nullptr, nullptr, 0, &s), TW_USAGE);
  EXPECT_EQ(tw_open("x", nullptr, 1, &s), TW_USAGE);
  EXPECT_EQ(tw_open("x", nullptr, 0, nullptr), TW_USAGE);
  EXPECT_EQ(tw_open_memory(nullptr, 9, 0, nullptr, 0, &s), TW_USAGE);
  const std::string noise = "\x01\x02\x03 no model";
  EXPECT_EQ(tw_open_memory(noise.data(), noise.size(), -1, nullptr, 0, &s), TW_USAGE);
  EXPECT_EQ(s, nullptr);
}

TEST(Open, FixesSizesAndTakesConstants) {
  const std::string text = "program p(n, k, m=3)\ninput X[n k] : f32\nweight W[k m] : f32\n"
                           "Y[n m] = sum[k] X[n k] * W[k m]\noutput Y\n";
  std::vector<float> w{1, 2, 3, 4, 5, 6}, x{1, 1}, y(3);
  const tw_tensor constant = tensor("W", {2, 3}, w.data());
  const tw_option option{"size.n", "1"};
  tw_source source{nullptr, text.data(), text.size(), -1, &option, 1, &constant, 1};
  tw_session* s = nullptr;
  ASSERT_EQ(tw_open_source(&source, &s), TW_OK) << error();
  w.assign(6, 0); // was copied
  char* json = nullptr;
  ASSERT_EQ(tw_describe(s, "inputs", &json), TW_OK);
  EXPECT_EQ(std::string(json).find("W"), std::string::npos) << json;
  tw_free(json);
  const tw_tensor in = tensor("X", {1, 2}, x.data());
  tw_tensor out = tensor("Y", {1, 3}, y.data());
  ASSERT_EQ(tw_run(s, &in, 1, &out, 1, nullptr), TW_OK) << error();
  EXPECT_EQ(y, (std::vector<float>{5, 7, 9}));
  const tw_tensor two = tensor("X", {2, 2}, x.data());
  EXPECT_EQ(tw_run(s, &two, 1, &out, 1, nullptr), TW_USAGE) << "n is fixed";
  tw_close(s);
  tw_tensor wrong = tensor("W", {6}, w.data());
  source.constants = &wrong;
  EXPECT_EQ(tw_open_source(&source, &s), TW_USAGE);
  EXPECT_NE(error().find("[6]"), std::string::npos) << error();
  wrong = tensor("V", {2, 3}, w.data());
  EXPECT_EQ(tw_open_source(&source, &s), TW_USAGE);
  EXPECT_NE(error().find("V"), std::string::npos);
}

TEST(Open, ReadsFiles) {
  tw_session* s = nullptr;
  const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/examples/mlp.tw";
  ASSERT_EQ(tw_open(path.c_str(), nullptr, 0, &s), TW_OK) << error();
  char* json = nullptr;
  ASSERT_EQ(tw_describe(s, "plan", &json), TW_OK) << error();
  EXPECT_NE(std::string(json).find("\"kernels\""), std::string::npos);
  tw_free(json);
  tw_close(s);
  EXPECT_EQ(tw_open(TILEWRIGHT_SOURCE_DIR, nullptr, 0, &s), TW_USAGE) << "a folder";
}

TEST(Plain, SmallThings) {
  EXPECT_STREQ(tw_version(), "0.1.0");
  tw_close(nullptr);
  tw_free(nullptr);
  EXPECT_EQ(tw_bytes(nullptr), 0u);
  tw_tensor t = tensor("x", {3, 5}, nullptr, TW_I64);
  EXPECT_EQ(tw_bytes(&t), 120u);
  t.shape[0] = INT64_MAX;
  EXPECT_EQ(tw_bytes(&t), 0u);
}

} // namespace
