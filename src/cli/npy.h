// NumPy's .npy files, versions 1 to 3.
//
//   Array a = read_npy("x.npy");                 // row-major, native byte order, whatever the file's
//   std::string bytes = npy_bytes(a);            // np.load gives it back
//
// bf16 and f8 have no letter in NumPy: they are written as bytes of their width (V2, V1), as ml_dtypes does, and read
// as `narrow` says. What is no array of a type that we compute with is Error(input) or Error(file), with the reason.
#pragma once
#include <optional>
#include <string>

#include "expr/program.h"

namespace tilewright {

// narrow: the type that V2 or V1 stand for, if the reader knows.
Array read_npy(const std::string& path, std::optional<DType> narrow = {});
std::string npy_bytes(const Array&);

} // namespace tilewright
