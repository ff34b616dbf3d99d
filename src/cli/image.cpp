#include "cli/image.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "support/error.h"
#include "support/file.h"

namespace tilewright {

namespace {

// Which source pixels make one target pixel, and how much of each.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

// A triangle over each target pixel's centre: one source pixel wide where the picture grows, as wide as a target pixel
// where it shrinks.
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto high = std::min<std::int64_t>(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    Taps& t = all[i];
    t.first = low;
    double sum = 0;
    std::vector<double> weights;
    for (std::int64_t x = low; x < high; ++x) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(x) + 0.5 - centre) / reach));
      sum += weights.back();
    }
    for (double w : weights) t.weights.push_back(static_cast<float>(w / sum));
  }
  return all;
}

// One axis of an array [outer, from, inner].
std::vector<float> resample(const std::vector<float>& in, std::int64_t outer, std::int64_t from, std::int64_t to,
                            std::int64_t inner) {
  const std::vector<Taps> taps = taps_of(from, to);
  std::vector<float> out(static_cast<std::size_t>(outer * to * inner), 0.0f);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t y = 0; y < to; ++y) {
      const Taps& t = taps[static_cast<std::size_t>(y)];
      float* row = out.data() + (o * to + y) * inner;
      for (std::size_t k = 0; k < t.weights.size(); ++k) {
        const float* source = in.data() + (o * from + t.first + static_cast<std::int64_t>(k)) * inner;
        for (std::int64_t i = 0; i < inner; ++i) row[i] += t.weights[k] * source[i];
      }
    }
  return out;
}

struct Decoder {
  png_image image{};
  ~Decoder() { png_image_free(&image); }
};

} // namespace

Image read_png(const std::string& path, int channels) {
  constexpr std::int64_t most_pixels = std::int64_t{1} << 28;
  const Mapping file = map_file(path);
  Decoder decoder;
  png_image& png = decoder.image;
  png.version = PNG_IMAGE_VERSION;
  if (file.bytes.empty() || !png_image_begin_read_from_memory(&png, file.bytes.data(), file.bytes.size()))
    throw Error(Code::file, path,
                fmt::format("is no PNG picture: {}", file.bytes.empty() ? "it is empty" : png.message));
  if (static_cast<std::int64_t>(png.width) * png.height > most_pixels)
    throw Error(Code::file, path, fmt::format("has {} x {} pixels, too many", png.width, png.height));
  png.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  std::vector<png_byte> bytes(PNG_IMAGE_SIZE(png));
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, bytes.data(), 0, nullptr))
    throw Error(Code::file, path, fmt::format("is a damaged PNG picture: {}", png.message));
  Image out{png.height, png.width, channels, {}};
  out.pixels.assign(bytes.begin(), bytes.end());
  return out;
}

Image resized(const Image& in, std::int64_t height, std::int64_t width) {
  if (in.height == height && in.width == width) return in;
  Image out{height, width, in.channels, resample(in.pixels, in.height, in.width, width, in.channels)};
  out.pixels = resample(out.pixels, 1, in.height, height, width * in.channels);
  return out;
}

} // namespace tilewright
