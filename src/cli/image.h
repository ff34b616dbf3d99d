// Pictures as network inputs.
//
//   Image cat = read_png("cat.png", 3);                 // 8 bits a channel, whatever the file holds
//   Image fit = resized(cat, 224, 224);                 // bilinear; averages where it shrinks, as Pillow does
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<float> pixels; // 0 to 255, [height, width, channels]
};

// channels: 1 grey, 3 RGB, 4 RGBA; transparent pixels are put on white for 1 and 3. Error(file) for what is no PNG.
Image read_png(const std::string& path, int channels);
Image resized(const Image&, std::int64_t height, std::int64_t width);

} // namespace tilewright
