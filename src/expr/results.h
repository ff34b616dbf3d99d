// Outputs of which only the first rows are results, because how many there are is known only when the program has run.
//
//   opaque I[r n] : i64, found : i64 = NonZero(X)      I has room for every element of X
//   output I[r found]                                  I.counted_by = {-1, found}: the caller gets I[0..r, 0..found]
#pragma once
#include "expr/program.h"

namespace tilewright {

// `dims` of an output, cut to its counts. Error(bounds) where a count is below 0 or beyond its dim.
std::vector<std::int64_t> result_dims(const Program&, TensorId output, std::vector<std::int64_t> dims,
                                      const std::function<std::int64_t(TensorId count)>&);
Array first_rows(const Array&,
                 const std::vector<std::int64_t>& dims); // a dense copy; the array itself where nothing is cut

} // namespace tilewright
