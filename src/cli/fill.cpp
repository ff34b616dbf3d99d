#include "cli/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "cli/image.h"
#include "runtime/session.h"

namespace tilewright {

namespace {

using Random = std::mt19937_64;

double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Box and Muller: the library's normal distribution may differ from one system to the next.
double normal(Random& random) {
  const double u = 1 - uniform(random), v = uniform(random);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
}

std::vector<std::string> fields_of(const std::string& spec) {
  std::vector<std::string> fields{""};
  for (char c : spec) {
    if (c == ':')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

template <class T> T number(const std::string& spec, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Code::option, "--input", fmt::format("is '{}', must be random[:SEED[:LOW:HIGH]]", spec));
  return value;
}

// Where a picture's axes lie in a tensor of rank 2 to 4, and how many channels it has.
struct Placement {
  int y, x, channel; // -1: none
  std::int64_t channels;
};

Placement place_of(const Tensor& t, const std::vector<std::int64_t>& dims, const std::string& layout) {
  const auto colours = [&](std::size_t d) { return dims[d] == 1 || dims[d] == 3 || dims[d] == 4; };
  const int rank = static_cast<int>(dims.size());
  if (rank == 2) return {0, 1, -1, 1};
  const auto n = static_cast<std::size_t>(rank);
  if (rank == 3 || rank == 4) {
    if (layout != "nhwc" && colours(n - 3)) return {rank - 2, rank - 1, rank - 3, dims[n - 3]};
    if (layout != "nchw" && colours(n - 1)) return {rank - 3, rank - 2, rank - 1, dims[n - 1]};
  }
  throw Error(
      Code::input, t.name,
      fmt::format("a picture does not fit into [{}]{}", fmt::join(dims, ", "), layout.empty() ? "" : " as " + layout),
      "it needs a height, a width, and 1, 3 or 4 channels");
}

double channel_value(const std::vector<double>& list, std::int64_t channel, double otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(channel)];
}

void check_channels(const std::vector<double>& list, std::int64_t channels, const char* option) {
  if (list.size() > 1 && static_cast<std::int64_t>(list.size()) != channels)
    throw Error(Code::option, option, fmt::format("has {} values, the input has {} channels", list.size(), channels));
}

} // namespace

bool is_random(const std::string& spec) { return spec == "random" || spec.starts_with("random:"); }

RandomSpec random_spec(const std::string& spec) {
  const std::vector<std::string> fields = fields_of(spec);
  RandomSpec r;
  if (fields.size() > 1) r.seed = number<std::uint64_t>(spec, fields[1]);
  if (fields.size() == 4) {
    r.bounded = true;
    r.low = number<double>(spec, fields[2]), r.high = number<double>(spec, fields[3]);
  }
  if (fields.size() == 3 || fields.size() > 4 || !(r.low <= r.high) || !std::isfinite(r.high - r.low))
    throw Error(Code::option, "--input", fmt::format("is '{}', must be random[:SEED[:LOW:HIGH]]", spec));
  return r;
}

void set_element(const Array& a, std::int64_t i, double v) {
  std::byte* at = a.data + static_cast<std::size_t>(i) * bytes_of(a.dtype);
  const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (a.dtype) {
  case DType::f64: return put(v);
  case DType::f32: return put(static_cast<float>(v));
  case DType::f16: return put(f32_to_f16(static_cast<float>(v)));
  case DType::bf16: return put(f32_to_bf16(static_cast<float>(v)));
  case DType::f8e4m3:
  case DType::f8e5m2: return put(f32_to_f8(static_cast<float>(v), a.dtype));
  case DType::i8: return put(static_cast<std::int8_t>(std::clamp(v, -128.0, 127.0)));
  case DType::u8: return put(static_cast<std::uint8_t>(std::clamp(v, 0.0, 255.0)));
  case DType::i32: return put(static_cast<std::int32_t>(std::clamp(v, -0x1p31, 0x1p31 - 1)));
  case DType::i64: return put(static_cast<std::int64_t>(std::clamp(v, -0x1p62, 0x1p62)));
  case DType::boolean: return put(static_cast<std::uint8_t>(v != 0));
  }
}

Array random_array(const Tensor& t, const RandomSpec& spec, std::size_t index) {
  Random random(spec.seed * 1000003 + index);
  Array a = Array::make(t.dtype, dims_of(t));
  double low = spec.low, high = spec.high;
  if (t.index_of && !spec.bounded) low = 0, high = std::max(0.0, static_cast<double>(t.index_of->constant()) - 1);
  const std::int64_t n = a.count();
  for (std::int64_t i = 0; i < n; ++i) {
    if (is_float(t.dtype))
      set_element(a, i, spec.bounded ? low + (high - low) * uniform(random) : normal(random));
    else
      set_element(a, i, std::min(high, low + std::floor((high - low + 1) * uniform(random))));
  }
  return a;
}

Array random_weight(const Tensor& t, std::size_t index) {
  Random random(7919 * index + 1);
  Array a = Array::make(t.dtype, dims_of(t));
  const std::int64_t n = a.count();
  std::int64_t longest = 1;
  for (std::int64_t d : a.dims) longest = std::max(longest, d);
  const double scale =
      1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, longest))));
  for (std::int64_t i = 0; i < n; ++i)
    set_element(a, i, is_float(t.dtype) ? scale * normal(random) : std::floor(2 * uniform(random)));
  return a;
}

Array picture(const Tensor& t, const std::string& path, const PictureOptions& options) {
  const std::vector<std::int64_t> dims = dims_of(t);
  const Placement at = place_of(t, dims, options.layout);
  check_channels(options.mean, at.channels, "--mean");
  check_channels(options.deviation, at.channels, "--std");
  for (double d : options.deviation)
    if (!(std::abs(d) > 0)) throw Error(Code::option, "--std", "must not be 0");
  const std::int64_t height = dims[static_cast<std::size_t>(at.y)], width = dims[static_cast<std::size_t>(at.x)];
  Array a = Array::make(t.dtype, dims);
  if (a.count() == 0) return a;
  const Image image = resized(read_png(path, static_cast<int>(at.channels)), height, width);
  const std::int64_t pixels = height * width * at.channels;
  const bool raw =
      !is_float(t.dtype) && options.mean.empty() && options.deviation.empty(); // integers: pixels as they are
  const std::int64_t first_channel = at.channel >= 0 && at.channel < at.y;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const std::int64_t p = i % pixels; // every element of a batch is the same picture
    const std::int64_t channel = first_channel ? p / (height * width) : p % at.channels;
    const std::int64_t pixel = first_channel ? p % (height * width) : p / at.channels;
    const double value = static_cast<double>(image.pixels[static_cast<std::size_t>(pixel * at.channels + channel)]);
    set_element(a, i,
                raw ? std::round(value)
                    : (value / 255 - channel_value(options.mean, channel, 0)) /
                          channel_value(options.deviation, channel, 1));
  }
  return a;
}

} // namespace tilewright
