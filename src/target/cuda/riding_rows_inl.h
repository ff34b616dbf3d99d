// Reductions of rows that ride along with a contraction: while instructions of four warps read a turn's boxes from scratch, each thread
// adds up parts of the rows that its sums have. Four threads share a row; they add up what they have behind the loop.
//
//   contract Y[n f] = sum[c] X[n c] * W[c f]      sums of rows 16 w + l / 4 and 8 further, w of a warp, l of a thread
//   window   S[n] = sum[c] X[n c] * X[n c]        acc_S[2]: of the same rows
#pragma once
#include "target/cuda/vector_leaf_inl.h"

namespace tilewright::cuda {

struct RidingRows : VectorLeaf {
  static constexpr std::int64_t own_rows = 2;          // of a thread

  bool rides(StatementId id) const {
    return std::any_of(s.leaves.begin(), s.leaves.end(), [&](const LeafAt& l) { return l.statement == id && l.group && !l.tensor; });
  }

  // A row's pieces of 16 bytes: neighbouring rows take turns at its halves, so that eight threads meet in no bank.
  void ride(const Access& a, std::int64_t rows) {
    for (const auto& [id, points] : streamed) {
      if (!rides(id)) continue;
      const Statement& st = statement(id);
      const std::string sum = "acc_" + tensor(st.out);
      line(fmt::format("// {}", print(p, st)));
      line("#pragma unroll");
      line(fmt::format("for (int u = 0; u < {}; ++u)", own_rows));
      line("#pragma unroll");
      line("for (int half = 0; half < 2; ++half) {");
      ++depth;
      line("const int quarter = threadIdx.x % 4, of_eight = threadIdx.x % 32 / 4, row = group_m * 64 + threadIdx.x / 32 % 4 * 16 + u * 8 + of_eight;");
      line("float x[8];");
      line(fmt::format("fetch<8>(x, &{}[swizzled<64, {}>(row, (quarter + (of_eight + half) % 2 * 4) * 8)]);", where.at(a.tensor).pointer, rows));
      line("#pragma unroll");
      line("for (int e = 0; e < 8; ++e) {");
      ++depth;
      ScalarSource source(p, points, where, axes(points), pad());
      source.know(a.tensor, "x[e]");
      const std::string v = source.value(st.body, id);
      out.text += source.lines;
      line(fmt::format("{0}[u] = {1};", sum, combined(st.reducer, sum + "[u]", v)));
      close(2);
      line("__syncwarp();");               // one lane hands the stage back for all of them
      beside_rows[st.out] = sum + "[m]";
    }
  }
  void add_up_rows(StatementId id) {
    const Statement& st = statement(id);
    const std::string sum = "acc_" + tensor(st.out);
    line("#pragma unroll");
    line(fmt::format("for (int u = 0; u < {}; ++u) {{", own_rows));
    ++depth;
    for (int lanes : {1, 2}) line(fmt::format("{0}[u] = {1};", sum, combined(st.reducer, sum + "[u]", fmt::format("__shfl_xor_sync(0xffffffffu, {}[u], {})", sum, lanes))));
    close(1);
  }
};

}  // namespace tilewright::cuda
