// In what pieces the threads of a GPU's block bring a box into scratch.
//
//   X[c h w], f16, w in [2*w_0 - 1, 2*w_0 + 32), tiles of 16     33 elements that begin one before a piece of 16 bytes:
//   lead 7: pieces of 8 from 2*w_0 - 8 on, five in a row where 33 single elements would be brought
#pragma once
#include "schedule/schedule.h"

namespace tilewright {

// Elements along the innermost dim that one copy of 16, 8 or 4 bytes takes, where the tensor lies as the scratch does; else 1.
// `extent`: of a full box.
std::int64_t piece_width(const Program&, const Schedule&, const ValueAt&, const std::vector<Span>& box, const std::vector<std::int64_t>& extent);
// Elements of a row that pieces of that width bring.
std::int64_t brought_by_pieces(const ValueAt&, std::int64_t extent, std::int64_t width);
// Gives a value the lead and the pad with which pieces of 16 bytes can bring it, where that takes fewer than single elements.
void align_to_pieces(const Program&, const Schedule&, ValueAt&, const std::vector<Span>& box, const std::vector<std::int64_t>& extent);

}  // namespace tilewright
