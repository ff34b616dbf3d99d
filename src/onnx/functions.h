// Replaces every call of a function that the model defines by the nodes of that function.
//
//   function my.Scale<alpha>(a) -> b { t = Constant<value_float = @alpha>(); b = Mul(a, t) }
//   node 'act': y = my.Scale<alpha = 2>(x)
//     ->
//   node 'act/Constant': act/t = Constant<value_float = 2>();   node 'act/Mul': y = Mul(x, act/t)
//
// References to attributes become the call's attributes, or the function's defaults, or are left out where there is
// neither. Names made in a function are prefixed with the call's name and made unique; calls in functions and in
// subgraphs are replaced too. Functions that call themselves, and models that would grow beyond all measure, are
// Error(model). Nodes keep the operator-set version that their function imports (Node::opset).
#pragma once
#include "onnx/model.h"

namespace tilewright::onnx {

Model inline_functions(Model);

} // namespace tilewright::onnx
