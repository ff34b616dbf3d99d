// Text for people: aligned tables, and numbers with units.
//
//   table({{"kernel", "bytes"}, {"conv1", "12 KiB"}}, "lr")      ->   kernel   bytes
//                                                                     conv1   12 KiB
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "expr/program.h"

namespace tilewright {

// align: 'l' or 'r' a column. Columns are two blanks apart; no blanks at the end of a line. Widths count code points.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& align,
                  const std::string& indent = {});

std::string bytes_text(std::int64_t bytes);                        // "512 B", "1.2 MiB"
std::string time_text(double seconds);                             // "12.3 us", "4.21 ms"
std::string count_text(std::int64_t count);                        // "1,269,760"
std::string shape_text(const Tensor&);                             // "f32 [1, 3, 224, 224]"
std::string shortened(const std::string& name, std::size_t width); // its end is kept: "...block.3/Conv"

} // namespace tilewright
