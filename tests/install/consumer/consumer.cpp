// The C++ interface, and that the C header is good for C++ too.
#include <cstdio>
#include <utility>

#include <tilewright/tilewright.hpp>

int main() {
  const char* text = "program total(n)\ninput X[n] : f32\ny = sum[n] X[n]\nb[n] = X[q]\noutput b\n";
  try {
    tw::Session::from_memory(text);
    return 1;
  } catch (const tw::Error& e) {
    if (e.status() != TW_USAGE || e.code().empty() || e.where().find("text:4") != 0) return 2;
  }
  text = "program total(n)\ninput X[n] : f32\ny = sum[n] X[n]\nz[n] = 2 * X[n]\noutput y, z\n";
  tw::Session first = tw::Session::from_memory(text, {{"threads", "1"}});
  tw::Session session = std::move(first);
  const float numbers[3] = {1, 2, 3};
  const auto out = session.run({tw::view("X", numbers, {3})});
  if (out.size() != 2 || out[1].size() != 3 || out[1].data<float>()[2] != 6 || !out[0].shape().empty()) return 3;
  float twice[3] = {};
  session.run({tw::view("", numbers, {3})}, {tw::view("z", twice, {3})});
  if (twice[0] != 2 || session.plan_json().find("\"kernels\"") == std::string::npos) return 4;
  try {
    session.run({tw::view("nobody", numbers, {3})});
    return 5;
  } catch (const tw::Error& e) {
    if (std::string(e.what()).find("nobody") == std::string::npos || e.code() != "E0301") return 6;
  }
  try {
    out[0].data<double>();
    return 7;
  } catch (const std::invalid_argument&) {
  }
  tw::Session kept = tw::Session::from_memory("program kept(r=2, n=3)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m + 0\n"
                                              "Y[r n] = 2 * X[r n]\noutput Y[r found]\n");
  const float table[6] = {1, 2, 3, 4, 5, 6};
  for (std::int64_t m : {0, 2, 3}) {
    const auto rows = kept.run({tw::view("X", table, {2, 3}), tw::view("m", &m, {})});
    if (rows[0].shape() != std::vector<std::int64_t>{2, m} || rows[0].size() != 2 * static_cast<std::size_t>(m)) return 8;
    if (m == 2 && (rows[0].data<float>()[1] != 4 || rows[0].data<float>()[2] != 8)) return 9;
  }
  std::printf("%s: %g\n", tw_version(), static_cast<double>(out[0].data<float>()[0]));
}
