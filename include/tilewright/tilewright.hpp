// tilewright's C++ interface: the C one (tilewright.h) with owners, exceptions and types. Header only, C++17, nothing else needed.
//
//   tw::Session net("net.onnx", {{"threads", "2"}});
//   std::vector<float> pixels(784);
//   std::vector<tw::Array> y = net.run({tw::view("x", pixels.data(), {1, 784})});
//   float first = y[0].data<float>()[0];
//
// A view is the caller's memory, used during the call only; an array owns its elements. What fails throws tw::Error. Threads: as in
// tilewright.h; a session may be moved, not copied.
#ifndef TILEWRIGHT_TILEWRIGHT_HPP
#define TILEWRIGHT_TILEWRIGHT_HPP

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tilewright/tilewright.h"

namespace tw {

using Options = std::vector<std::pair<std::string, std::string>>; // "threads", "size.batch", ... (tilewright.h)

namespace detail {

// A text member of the flat JSON object of tw_last_error; escapes of control characters are left as they are.
inline std::string member(std::string_view json, std::string_view key) {
  std::string text;
  std::size_t at = json.find("\"" + std::string(key) + "\":\"");
  if (at == std::string_view::npos) return text;
  for (at += key.size() + 4; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\' && at + 1 < json.size() && (json[at + 1] == '"' || json[at + 1] == '\\')) ++at;
    text += json[at];
  }
  return text;
}

template <class T> constexpr int dtype() {
  if constexpr (std::is_same_v<T, double>) return TW_F64;
  else if constexpr (std::is_same_v<T, float>) return TW_F32;
  else if constexpr (std::is_same_v<T, std::int8_t>) return TW_I8;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return TW_U8;
  else if constexpr (std::is_same_v<T, std::int32_t>) return TW_I32;
  else if constexpr (std::is_same_v<T, std::int64_t>) return TW_I64;
  else if constexpr (std::is_same_v<T, bool>) return TW_BOOL;
  else static_assert(!sizeof(T), "no tensor has elements of this type; f16, bf16 and f8 are given as bits: tw::view(name, TW_F16, ...)");
}

} // namespace detail

class Error : public std::runtime_error {
public:
  explicit Error(tw_status status, const std::string& json = tw_last_error())
      : std::runtime_error(text(json)), status_(status), json_(json) {}
  tw_status status() const { return status_; }
  std::string code() const { return detail::member(json_, "code"); } // "E0301", docs/errors.md
  std::string where() const { return detail::member(json_, "where"); }
  std::string hint() const { return detail::member(json_, "hint"); }

private:
  static std::string text(const std::string& json) {
    const std::string where = detail::member(json, "where"), hint = detail::member(json, "hint");
    return detail::member(json, "code") + (where.empty() ? "" : " " + where) + ": " + detail::member(json, "message") +
           (hint.empty() ? "" : " (" + hint + ")");
  }
  tw_status status_;
  std::string json_;
};

// The caller's memory: dense, row-major. An input's elements are only read.
struct View {
  std::string name; // empty: the input or output at this position
  tw_tensor tensor{};
};

inline View view(std::string name, tw_dtype dtype, const void* data, const std::vector<std::int64_t>& shape) {
  if (shape.size() > TW_MAX_DIMS) throw std::invalid_argument("a tensor has at most 8 dims");
  View v{std::move(name), {}};
  v.tensor.dtype = dtype, v.tensor.ndim = static_cast<std::int32_t>(shape.size()), v.tensor.data = const_cast<void*>(data);
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0; step *= shape[d]) v.tensor.shape[d] = shape[d], v.tensor.stride[d] = step;
  return v;
}

template <class T> View view(std::string name, const T* data, const std::vector<std::int64_t>& shape) {
  return view(std::move(name), static_cast<tw_dtype>(detail::dtype<T>()), data, shape);
}

// A result, which owns its elements.
class Array {
public:
  explicit Array(const tw_tensor& dense) : tensor_(dense), bytes_(tw_bytes(&dense) / sizeof(std::uint64_t) + 1) {}
  tw_dtype dtype() const { return static_cast<tw_dtype>(tensor_.dtype); }
  std::vector<std::int64_t> shape() const { return {tensor_.shape, tensor_.shape + tensor_.ndim}; }
  std::size_t size() const { // elements
    std::size_t n = 1;
    for (int i = 0; i < tensor_.ndim; ++i) n *= static_cast<std::size_t>(tensor_.shape[i]);
    return n;
  }
  const void* data() const { return bytes_.data(); }
  void* data() { return bytes_.data(); }
  template <class T> const T* data() const {
    if (detail::dtype<T>() != tensor_.dtype) throw std::invalid_argument("the array has elements of another type");
    return static_cast<const T*>(data());
  }

  // Keeps the first rows of each dim, as many as shape says.
  void cut(const std::int64_t* shape) {
    const std::size_t width = size() ? tw_bytes(&tensor_) / size() : 0;
    char* to = static_cast<char*>(data());
    for (std::size_t from = 0, n = size(); from < n; ++from) {
      std::size_t rest = from;
      bool kept = true;
      for (int d = tensor_.ndim; d-- > 0; rest /= static_cast<std::size_t>(tensor_.shape[d]))
        kept &= rest % static_cast<std::size_t>(tensor_.shape[d]) < static_cast<std::size_t>(shape[d]);
      if (!kept) continue;
      std::memmove(to, static_cast<char*>(data()) + from * width, width);
      to += width;
    }
    std::int64_t step = 1;
    for (int d = tensor_.ndim; d-- > 0; step *= shape[d]) tensor_.shape[d] = shape[d], tensor_.stride[d] = step;
  }

private:
  tw_tensor tensor_;
  std::vector<std::uint64_t> bytes_; // of words, so that any element is aligned
};

class Session {
public:
  explicit Session(const std::string& path, const Options& options = {}) {
    tw_source source{};
    source.path = path.c_str();
    open(source, options);
  }
  // An ONNX model or a text program; what it is is told by the bytes.
  static Session from_memory(std::string_view bytes, const Options& options = {}) {
    tw_source source{};
    source.bytes = bytes.data(), source.size = bytes.size(), source.is_text = -1;
    Session s;
    s.open(source, options);
    return s;
  }
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~Session() { tw_close(session_); }

  // All outputs, in the model's order, in memory of their own.
  std::vector<Array> run(const std::vector<View>& inputs) {
    const std::vector<tw_tensor> in = tensors(inputs);
    std::vector<tw_tensor> out(outputs());
    check(tw_shape(session_, in.data(), in.size(), out.data(), out.size()));
    std::vector<Array> arrays;
    for (tw_tensor& t : out) {
      t.name = nullptr;
      arrays.emplace_back(t);
      t.data = arrays.back().data();
    }
    check(tw_run(session_, in.data(), in.size(), out.data(), out.size(), nullptr));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!std::equal(out[i].shape, out[i].shape + out[i].ndim, arrays[i].shape().begin())) arrays[i].cut(out[i].shape);
    return arrays;
  }

  // Into memory of the caller; outputs may be left out. For results whose extents depend on values there must be room for
  // the most (tw_shape); how many there are only the other form tells.
  void run(const std::vector<View>& inputs, const std::vector<View>& outputs) {
    const std::vector<tw_tensor> in = tensors(inputs);
    std::vector<tw_tensor> out = tensors(outputs);
    check(tw_run(session_, in.data(), in.size(), out.data(), out.size(), nullptr));
  }

  std::string inputs_json() const { return describe("inputs"); }
  std::string outputs_json() const { return describe("outputs"); }
  std::string plan_json() const { return describe("plan"); }
  std::string explain_json() const { return describe("explain"); }

private:
  Session() = default;

  static void check(tw_status status) {
    if (status != TW_OK) throw Error(status);
  }

  void open(tw_source& source, const Options& options) {
    std::vector<tw_option> list;
    for (const auto& [key, value] : options) list.push_back({key.c_str(), value.c_str()});
    source.options = list.data(), source.option_count = list.size();
    check(tw_open_source(&source, &session_));
  }

  static std::vector<tw_tensor> tensors(const std::vector<View>& views) {
    std::vector<tw_tensor> list;
    for (const View& v : views) {
      list.push_back(v.tensor);
      list.back().name = v.name.empty() ? nullptr : v.name.c_str();
    }
    return list;
  }

  std::string describe(const char* what) const {
    char* json = nullptr;
    check(tw_describe(session_, what, &json));
    std::string text = json;
    tw_free(json);
    return text;
  }

  // How many outputs there are: objects of the list that describes them.
  std::size_t outputs() const {
    std::size_t count = 0;
    bool quoted = false;
    const std::string json = outputs_json();
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (quoted && json[i] == '\\') ++i;
      else if (json[i] == '"') quoted = !quoted;
      else count += !quoted && json[i] == '{';
    }
    return count;
  }

  tw_session* session_ = nullptr;
};

} // namespace tw

#endif
