// The operator tables, one a file ops_*.cpp; import.cpp concatenates them.
#pragma once
#include "onnx/context.h"
#include "onnx/import.h"

namespace tilewright::onnx {

std::vector<Operator> elementwise_operators(); // ops_elementwise.cpp
std::vector<Operator> activation_operators();  // ops_activation.cpp
std::vector<Operator> shape_operators();       // ops_shape.cpp
std::vector<Operator> slice_operators();       // ops_slice.cpp
std::vector<Operator> gather_operators();      // ops_gather.cpp
std::vector<Operator> scatter_operators();     // ops_scatter.cpp
std::vector<Operator> reduce_operators();      // ops_reduce.cpp
std::vector<Operator> matmul_operators();      // ops_matmul.cpp
std::vector<Operator> conv_operators();        // ops_conv.cpp
std::vector<Operator> pool_operators();        // ops_pool.cpp
std::vector<Operator> norm_operators();        // ops_norm.cpp
std::vector<Operator> attention_operators();   // ops_attention.cpp
std::vector<Operator> resize_operators();      // ops_resize.cpp
std::vector<Operator> select_operators();      // ops_select.cpp: TopK
std::vector<Operator> counted_operators();     // ops_counted.cpp
std::vector<Operator> box_operators();         // ops_boxes.cpp
std::vector<Operator> window_operators();      // ops_window.cpp
std::vector<Operator> quantised_operators();   // ops_quantised.cpp

} // namespace tilewright::onnx
