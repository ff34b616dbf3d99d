// What the two passes over scales share: linear bodies, known weights, and weights scaled.
#pragma once
#include "normal/passes.h"

namespace tilewright {

// scale * value + shift, where neither holds the value; null: 1 or 0.
struct Linear { ScalarRef scale, shift; };
std::optional<Linear> linear(const ScalarRef& body, TensorId);              // in its one read of the tensor; nothing if it is not

const Access* only_read(const ScalarRef& body, TensorId);                   // null where it is read never or more than once

// The known weights of floats in a sum of products that reads them once, or null.
const Access* known_weights(const Program&, const Statement&);

// Whether each axis of the map that the scale has runs along the whole of a dim of the weights: dims[a].
bool scales_dims(const Program&, const Statement& map, const ScalarRef& scale, const Access& weights, const std::vector<std::optional<int>>& dims);
// A new weight, the weights times a scale whose axis a runs along dims[a] of them; nothing where a product is not finite.
std::optional<TensorId> scaled_weights(Program&, const Access& weights, const ScalarRef& scale, const std::vector<std::optional<int>>& dims);
ScalarRef with_tensor(const ScalarRef&, TensorId old, TensorId made);       // its accesses read `made` instead

}  // namespace tilewright
