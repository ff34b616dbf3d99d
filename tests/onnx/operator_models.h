// Small models of one node for every operator of the table, written as one line each.
//
//   Conv@11 f32[1,2,5,5] f32[3,2,3,3]! f32[3]! | strides=[2,2] pads=[1,1,1,1]
//
// An input: dtype and dims (a name is a free size); `!` makes it an initializer of small numbers, `=1,2` one with these
// values, `-` leaves it out. Attributes are integers, floats (with a point), 'texts' or lists of numbers. `>2` asks for
// two outputs.
#pragma once
#include <deque>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "onnx/arrays.h"
#include "onnx/model.h"

namespace tilewright::onnx {

inline const std::vector<std::string>& operator_lines() {
  static const std::vector<std::string> lines = {
      // elementwise
      "Abs@13 f32[2,3]",
      "Acos@7 f32[4]",
      "Acosh@9 f64[4]",
      "Add@7 f32[2,3] f32[3]!",
      "Add@14 i64[n,3] i64[1]=2",
      "And@7 bool[2,3] bool[3]",
      "Asin@7 f32[4]",
      "Asinh@9 f32[4]",
      "Atan@7 f32[4]",
      "Atanh@9 f32[4]",
      "BitShift@11 u8[4] u8[1]=3 | direction='LEFT'",
      "BitShift@28 i32[4] i32[4]! | direction='RIGHT'",
      "BitwiseAnd@18 i32[4] i32[4]",
      "BitwiseNot@18 i64[4]",
      "BitwiseOr@18 u8[4] u8[1]",
      "BitwiseXor@18 i8[4] i8[4]",
      "Cast@9 f32[2,3] | to=7",
      "Cast@19 f32[2,3] | to=17 saturate=1",
      "CastLike@19 f32[4] f16[1]",
      "Ceil@13 f16[4]",
      "Clip@7 f32[4] | min=0.0 max=6.0",
      "Clip@13 f32[2,3] f32[]=0 f32[]=6",
      "Cos@7 f32[4]",
      "Cosh@9 f32[4]",
      "Div@14 i32[4] i32[4]=1,2,3,-1",
      "Div@7 f32[2,3] f32[2,1]",
      "Dropout@7 f32[2,3] >2 | ratio=0.5",
      "Dropout@13 f32[2,3] f32[]=0.5 bool[]=0 >2",
      "Equal@13 bool[2,3] bool[3]",
      "Erf@13 bf16[4]",
      "Exp@13 f32[4]",
      "Floor@13 f32[4]",
      "Greater@9 f32[2,3] f32[3]",
      "GreaterOrEqual@12 i32[4] i32[4]",
      "Identity@19 f32[2,3]",
      "IsInf@10 f32[4] | detect_positive=1 detect_negative=0",
      "IsNaN@13 f16[4]",
      "Less@13 f32[4] f32[1]",
      "LessOrEqual@16 f32[4] f32[4]",
      "Log@13 f32[4]",
      "Max@13 f32[2,3] f32[3] f32[1]",
      "Mean@13 f32[2,3] f32[3]",
      "Min@12 i32[4] i32[1]",
      "Mod@13 i32[4] i32[4]=1,2,3,-1",
      "Mod@10 f32[4] f32[4]! | fmod=1",
      "Mul@14 f16[2,3] f16[3]!",
      "Neg@13 i8[4]",
      "Not@7 bool[4]",
      "Or@7 bool[4] bool[1]",
      "Pow@15 f32[4] f32[]=2",
      "Pow@13 i32[4] f32[4]",
      "Reciprocal@13 f32[4]",
      "Round@11 f32[4]",
      "Sign@13 i32[4]",
      "Sin@7 f32[4]",
      "Sinh@9 f32[4]",
      "Sqrt@13 f32[4]",
      "Sub@14 f32[2,3] f32[3]",
      "Sum@13 f32[2,3] f32[3] f32[1]",
      "Tan@7 f32[4]",
      "Tanh@13 f32[4]",
      "Where@16 bool[2,1] f32[2,3] f32[3]!",
      "Xor@7 bool[4] bool[4]",
      // activations
      "Celu@12 f32[4] | alpha=2.0",
      "Elu@7 f32[4] | alpha=2.0",
      "Gelu@20 f32[4] | approximate='tanh'",
      "HardSigmoid@7 f32[4] | alpha=0.2 beta=0.5",
      "HardSwish@14 f32[4]",
      "LeakyRelu@16 f16[4] | alpha=0.1",
      "Mish@18 f32[4]",
      "PRelu@16 f32[1,2,3,3] f32[2,1,1]!",
      "Relu@14 f32[n,3]",
      "Selu@7 f32[4] | alpha=1.5 gamma=1.0",
      "Shrink@9 f32[4] | bias=0.5 lambd=0.5",
      "Sigmoid@13 f32[4]",
      "Softplus@7 f32[4]",
      "Softsign@7 f32[4]",
      "SwiGLU@28 f32[2,3] f32[2,3] | alpha=1.5",
      "Swish@24 f32[4] | alpha=0.5",
      "ThresholdedRelu@10 f32[4] | alpha=1.0",
      // shapes and views
      "Constant@13 | value_ints=[1,2,3]",
      "Constant@13 | value_float=1.5",
      "ConstantOfShape@9 i64[2]=2,3",
      "DepthToSpace@13 f32[1,8,2,3] | blocksize=2 mode='CRD'",
      "Expand@13 f32[3,1] i64[3]=2,3,4",
      "EyeLike@9 f32[3,4] | k=1 dtype=7",
      "Flatten@13 f32[2,3,4] | axis=2",
      "Range@11 i64[]=1 i64[]=9 i64[]=3",
      "Range@11 f32[]=1 f32[]=9 f32[]=3",
      "Reshape@14 f32[2,3,4] i64[2]=0,-1 | allowzero=0",
      "Reshape@13 f32[n,6] i64[3]=0,2,3",
      "Shape@15 f32[n,3] | start=0 end=1",
      "Size@13 f32[2,3]",
      "SpaceToDepth@13 f32[1,2,4,6] | blocksize=2",
      "Squeeze@11 f32[1,3,1] | axes=[0,2]",
      "Squeeze@13 f32[1,3,1] i64[1]=0",
      "Tile@13 f32[2,3] i64[2]=2,1",
      "Transpose@13 f32[2,3,4] | perm=[2,0,1]",
      "Unsqueeze@11 f32[3] | axes=[0,2]",
      "Unsqueeze@13 f32[3] i64[1]=1",
      // parts
      "CenterCropPad@18 f32[5,4] i64[2]=3,6 | axes=[0,1]",
      "Concat@13 f32[2,3] f32[2,4]! f32[2,1] | axis=1",
      "CumProd@26 f32[2,3] i64[]=1",
      "CumSum@14 f32[2,3] i64[]=1 | exclusive=1 reverse=1",
      "Pad@7 f32[2,3] | pads=[0,1,0,2] mode='edge'",
      "Pad@13 f32[2,3] i64[4]=0,1,0,2 f32[]=1.5 | mode='constant'",
      "Pad@19 f32[3,4] i64[4]=0,1,0,2 - i64[2]=0,1 | mode='wrap'",
      "ReverseSequence@10 f32[4,3] i64[3]=1,2,4 | time_axis=0 batch_axis=1",
      "Slice@9 f32[4,5] | starts=[0,1] ends=[3,9] axes=[0,1]",
      "Slice@13 f32[4,n] i64[1]=0 i64[1]=9 i64[1]=0 i64[1]=2",
      "Slice@13 f32[4,5] i64[1]=-1 i64[1]=-9 i64[1]=1 i64[1]=-2",
      "Split@11 f32[4,6] >2 | axis=1 split=[2,4]",
      "Split@13 f32[4,6] i64[2]=3,3 >2 | axis=1",
      "Split@18 f32[4,7] >3 | axis=1 num_outputs=3",
      "Trilu@14 f32[3,4] i64[]=1 | upper=0",
      // gathers and scatters
      "Gather@13 f32[4,3] i64[2]=1,-1 | axis=0",
      "Gather@13 f32[4,3] i64[2] | axis=1",
      "GatherElements@13 f32[3,3] i64[2,3]! | axis=0",
      "GatherND@13 f32[2,3,4] i64[2,1]! | batch_dims=1",
      "OneHot@11 i64[3] i64[]=5 f32[2]=0,1 | axis=1",
      "Scatter@9 f32[3,3] i64[2,3]! f32[2,3] | axis=0",
      "ScatterElements@18 f32[3,3] i64[2,3]! f32[2,3] | axis=0 reduction='add'",
      "ScatterND@18 f32[4,3] i64[2,1]! f32[2,3] | reduction='max'",
      "TensorScatter@24 f32[2,4,3] f32[2,2,3] i64[2]! | mode='circular'",
      // reductions
      "ArgMax@13 f32[2,3,4] | axis=1 keepdims=0 select_last_index=1",
      "ArgMin@13 i32[2,3] | axis=-1",
      "Hardmax@11 f32[2,3,4] | axis=1",
      "Hardmax@13 f32[2,3] | axis=-1",
      "LogSoftmax@11 f32[2,3,4] | axis=1",
      "LogSoftmax@13 f32[2,3]",
      "ReduceL1@13 f32[2,3,4] | axes=[1] keepdims=0",
      "ReduceL2@18 f32[2,3] i64[1]=1",
      "ReduceLogSum@13 f32[2,3] | axes=[1]",
      "ReduceLogSumExp@18 f32[2,3] i64[1]=0 | keepdims=0",
      "ReduceMax@18 bool[2,3] i64[1]=1",
      "ReduceMean@18 f32[n,3] i64[1]=0 | noop_with_empty_axes=1",
      "ReduceMin@13 i8[2,3] | axes=[0]",
      "ReduceProd@13 f32[2,3]",
      "ReduceSum@13 f32[2,3] i64[2]=0,1 | keepdims=0",
      "ReduceSumSquare@18 f32[2,3]",
      "Softmax@11 f32[2,3,4] | axis=1",
      "Softmax@13 f16[2,3] | axis=0",
      "Compress@9 f32[2,5] bool[5] | axis=1",
      "Compress@11 i64[2,5] bool[7]",
      "NonMaxSuppression@10 f32[1,6,4] f32[1,2,6] i64[1]=3 f32[1]=0.5",
      "NonMaxSuppression@11 f32[s,6,4] f32[s,2,6] i64[1] f32[1]=0.5 f32[1]=0.5 | center_point_box=1",
      "NonZero@13 f32[2,n]",
      "TopK@11 f32[2,12] i64[1] >2",
      "Unique@11 f32[2,5] >4 | axis=0",
      "Unique@11 i64[n] | sorted=0",
      "TopK@9 f32[2,5] >2 | k=3",
      "TopK@11 f32[2,12] i64[1]=10 >2 | largest=0",
      "TopK@11 f32[2,5] i64[1]=2 >2 | axis=0",
      // contractions
      "Einsum@12 f32[2,3] f32[3,4] | equation='ij,jk->ik'",
      "Einsum@12 f32[2,3,4] f32[2,4,1] | equation='...ij,...jk'",
      "Gemm@13 f32[2,3] f32[4,3]! f32[4]! | transB=1 alpha=0.5 beta=2.0",
      "Gemm@11 i32[3,2] i32[3,4] | transA=1",
      "MatMul@13 f32[2,1,3,4] f32[5,4,2]!",
      "MatMul@13 f32[n,4] f32[4]",
      // numbers in eight bits
      "ConvInteger@10 u8[1,2,5,5] i8[3,2,3,3]! u8[]=3 i8[3]! | pads=[1,1,1,1]",
      "DequantizeLinear@10 u8[2,3] f32[]=0.5 u8[]=2",
      "DequantizeLinear@13 i8[2,3] f32[3]! i8[3]! | axis=1",
      "DequantizeLinear@23 i8[2,6] f32[2,3]! i8[2,3]! | axis=1 block_size=2 output_dtype=1",
      "DynamicQuantizeLinear@11 f32[2,3] >3",
      "MatMulInteger@10 u8[2,3] i8[3,4]! u8[]=3 i8[4]!",
      "QLinearConv@10 u8[1,2,5,5] f32[]=0.5 u8[]=3 i8[4,1,3,3]! f32[4]! i8[4]! f32[]=0.25 u8[]=7 i32[4]! | group=2",
      "QLinearMatMul@10 u8[2,3] f32[]=0.5 u8[]=3 i8[3,4]! f32[4]! i8[4]! f32[]=0.25 u8[]=7",
      "QLinearMatMul@21 u8[n,3] f16[]=0.5 u8[]=3 i8[3,4]! f16[4]! i8[4]! f16[]=0.25 u8[]=7",
      "QuantizeLinear@10 f32[2,3] f32[]=0.5 u8[]=3",
      "QuantizeLinear@19 f32[2,3] f32[]=0.5 f8e4m3[]=0 | saturate=1",
      "QuantizeLinear@23 f32[2,3] f32[3]=0.5,1,2 i8[3]! | axis=1 precision=1",
      // windows
      "Conv@11 f32[1,2,5,5] f32[3,2,3,3]! f32[3]! | strides=[2,2] pads=[1,1,1,1] dilations=[1,1]",
      "Conv@11 f16[1,4,7] f16[4,1,3]! | group=4 auto_pad='SAME_UPPER' kernel_shape=[3]",
      "ConvTranspose@11 f32[1,2,3,3] f32[2,3,3,3]! f32[3]! | strides=[2,2] output_padding=[1,1] pads=[1,1,1,1]",
      "ConvTranspose@11 f32[1,2,3] f32[2,2,3]! | strides=[3] output_shape=[9] group=1",
      "AveragePool@19 f32[1,2,5,5] | kernel_shape=[3,3] strides=[2,2] ceil_mode=1 count_include_pad=1 pads=[1,1,1,1]",
      "AveragePool@7 f32[1,2,5] | kernel_shape=[2] auto_pad='SAME_LOWER'",
      "MaxPool@12 f32[1,2,5,5] >2 | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] storage_order=1 ceil_mode=1",
      "MaxPool@12 u8[1,2,6] | kernel_shape=[2] dilations=[2]",
      "LpPool@18 f32[1,2,5] | kernel_shape=[3] p=3",
      "GlobalAveragePool@7 f32[1,2,3,3]",
      "GlobalMaxPool@7 f32[1,2,3]",
      "GlobalLpPool@7 f32[1,2,3] | p=2",
      "Resize@10 f32[1,1,3,3] f32[4]=1,1,2,2 | mode='linear'",
      "Resize@13 f32[1,1,3,4] - - i64[4]=1,1,5,3 | mode='cubic' coordinate_transformation_mode='align_corners' "
      "exclude_outside=1",
      "Resize@19 f32[1,1,4,4] - f32[2]=0.6,0.6 | mode='linear' antialias=1 axes=[2,3]",
      "Resize@18 f32[1,1,4,4] f32[4]=0.1,0.2,0.8,0.9 - i64[2]=3,3 | axes=[2,3] "
      "coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=2.0",
      "Upsample@7 f32[1,1,2,2] | scales=[1.0,1.0,2.0,3.0]",
      "Upsample@9 f32[1,1,2,2] f32[4]=1,1,2,3 | mode='linear'",
      "BlackmanWindow@17 i64[]=8",
      "HammingWindow@17 i32[]=8 | periodic=0 output_datatype=11",
      "HannWindow@17 i64[]=8",
      // norms and attention
      "BatchNormalization@9 f32[2,3,4,4] f32[3]! f32[3]! f32[3]! f32[3]! | epsilon=0.001 momentum=0.9",
      "BatchNormalization@15 f16[2,3] f32[3]! f32[3]! f32[3]! f32[3]!",
      "GroupNormalization@21 f32[2,4,3,3] f32[4]! f32[4]! | num_groups=2",
      "GroupNormalization@18 f32[2,4,3] f32[2]! f32[2]! | num_groups=2",
      "InstanceNormalization@7 f32[2,3,4] f32[3]! f32[3]! | epsilon=0.01",
      "LRN@13 f32[1,5,2,2] | size=3 alpha=0.5 beta=0.75 bias=1.0",
      "LayerNormalization@17 f32[2,3,4] f32[3,4]! f32[3,4]! >3 | axis=1 epsilon=0.01 stash_type=1",
      "LpNormalization@7 f32[2,3] | axis=1 p=1",
      "MeanVarianceNormalization@13 f32[2,3,2,2] | axes=[0,2,3]",
      "RMSNormalization@23 f32[2,3,4] f32[4]! | axis=-1",
      "Attention@23 f32[1,2,3,4] f32[1,2,5,4] f32[1,2,5,4] f32[3,5] >4 | is_causal=1 scale=0.5 softcap=2.0 "
      "qk_matmul_output_mode=1",
      "Attention@23 f32[1,3,8] f32[1,2,4] f32[1,2,4] - f32[1,1,2,4] f32[1,1,2,4] >3 | q_num_heads=2 kv_num_heads=1",
      "Attention@24 f32[1,2,3,4] f32[1,2,5,4] f32[1,2,5,4] bool[3,5] - - i64[1]=4",
      "RotaryEmbedding@23 f32[1,2,3,4] f32[8,2]! f32[8,2]! i64[1,3]! | interleaved=1",
      "RotaryEmbedding@23 f32[1,3,8] f32[1,3,1]! f32[1,3,1]! | num_heads=2 rotary_embedding_dim=2",
  };
  return lines;
}

// A model and the texts that it refers to.
struct OperatorModel {
  Model model;
  std::deque<std::string> texts;
  std::string_view text(std::string s) { return texts.emplace_back(std::move(s)); }
};

inline std::vector<std::string> split_text(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

inline void set_values(Tensor& t, const std::vector<double>& values) {
  t.count = 1;
  for (std::int64_t d : t.dims) t.count *= d;
  Array a = Array::make(*t.dtype, t.dims);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    double v = values.empty() ? static_cast<double>(i % 3) : values[static_cast<std::size_t>(i) % values.size()];
    is_float(a.dtype) ? put_real(a, i, v) : put_integer(a, i, static_cast<std::int64_t>(v));
  }
  t.bytes = {a.data, a.bytes()};
  t.owner = a.owner;
}

// "f32[2,n]!" and so on, as input `name` of the node.
inline void add_input(OperatorModel& m, Node& node, const std::string& word) {
  if (word == "-") {
    node.inputs.push_back("");
    return;
  }
  std::string_view name = m.text("i" + std::to_string(node.inputs.size()));
  node.inputs.push_back(name);
  auto open = word.find('['), close = word.find(']');
  int element = element_of_dtype(dtype_named(word.substr(0, open)).value());
  std::vector<Dim> dims;
  for (const std::string& d : split_text(word.substr(open + 1, close - open - 1), ',')) {
    bool number = std::isdigit(static_cast<unsigned char>(d[0]));
    dims.push_back(number ? Dim{std::stoll(d), {}} : Dim{-1, m.text(d)});
  }
  if (close + 1 == word.size()) {
    m.model.graph.inputs.push_back({name, Type{element, true, dims, {}}});
    return;
  }
  Tensor t;
  t.name = name, t.element = element, t.dtype = dtype_of_element(element);
  for (const Dim& d : dims) t.dims.push_back(d.value);
  std::vector<double> values;
  if (word[close + 1] == '=')
    for (const std::string& v : split_text(word.substr(close + 2), ',')) values.push_back(std::stod(v));
  set_values(t, values);
  m.model.graph.initializers.push_back(std::move(t));
}

inline Attribute attribute_of(OperatorModel& m, const std::string& word) {
  using Kind = Attribute::Kind;
  auto equals = word.find('=');
  std::string value = word.substr(equals + 1);
  bool real = value.find('.') != std::string::npos && value[0] != '\'';
  Attribute a;
  a.name = m.text(word.substr(0, equals));
  if (value[0] == '\'') {
    a.kind = Kind::string, a.value = m.text(value.substr(1, value.size() - 2));
  } else if (value[0] == '[') {
    std::vector<std::int64_t> whole;
    std::vector<float> reals;
    for (const std::string& v : split_text(value.substr(1, value.size() - 2), ','))
      whole.push_back(static_cast<std::int64_t>(std::stod(v))), reals.push_back(std::stof(v));
    a.kind = real ? Kind::reals : Kind::integers;
    real ? a.value = reals : a.value = whole;
  } else {
    a.kind = real ? Kind::real : Kind::integer;
    real ? a.value = std::stof(value) : a.value = static_cast<std::int64_t>(std::stoll(value));
  }
  return a;
}

inline OperatorModel operator_model(const std::string& line) {
  OperatorModel m;
  Node node;
  int outputs = 1;
  bool attributes = false;
  for (const std::string& word : split_text(line, ' ')) {
    if (auto version = word.find('@'); node.op_type.empty()) {
      node.op_type = m.text(word.substr(0, version));
      node.opset = std::stoll(word.substr(version + 1));
    } else if (word == "|") {
      attributes = true;
    } else if (word[0] == '>') {
      outputs = std::stoi(word.substr(1));
    } else if (attributes) {
      node.attributes.push_back(attribute_of(m, word));
    } else {
      add_input(m, node, word);
    }
  }
  node.name = "node";
  for (int k = 0; k < outputs; ++k) {
    node.outputs.push_back(m.text("y" + std::to_string(k)));
    m.model.graph.outputs.push_back({node.outputs.back(), Type{}});
  }
  m.model.file = line, m.model.ir_version = 10;
  m.model.opsets = {{"", node.opset}};
  m.model.graph.name = "g";
  m.model.graph.nodes = {std::move(node)};
  return m;
}

} // namespace tilewright::onnx
