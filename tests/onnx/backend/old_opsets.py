"""Writes cases of operators whose meaning or form changed with the operator set, as folders that run_node_tests reads.

    old_opsets.py OUT      ->   OUT/softmax_11_axis1/{model.onnx, tolerance.txt, test_data_set_0/{input_0.pb, output_0.pb}}

One node each, of the oldest sets on; the outputs are ONNX Runtime's. Inputs in `fixed` (by position) are initializers.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = []


def real(*shape, scale=1.0, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * scale).astype(dtype)


def ints(*values, dtype=np.int64):
    return np.array(values, dtype=dtype)


def case(name, op, opset, inputs, outputs=1, fixed=(), rtol=1e-5, atol=1e-6, **attributes):
    CASES.append((f"{op.lower()}_{opset}_{name}", op, opset, inputs, outputs, set(fixed), rtol, atol, attributes))


def softmax():
    x = real(2, 3, 4)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 11, 12):
            case("default", op, opset, [x])
            case("axis0", op, opset, [x], axis=0)
        case("axis2", op, 11, [x], axis=2)
        case("last", op, 11, [x], axis=-1)
        case("default", op, 13, [x])
        case("axis0", op, 13, [x], axis=0)


def norms():
    x, one = real(2, 3, 4, 5), real(3, seed=1)
    var = np.abs(real(3, seed=2)) + 0.5
    for opset in (7, 9, 14, 15):
        case("inference", "BatchNormalization", opset, [x, one, real(3, seed=3), real(3, seed=4), var], epsilon=1e-3)
    case("rank2", "BatchNormalization", 9, [real(4, 3), one, real(3, seed=3), real(3, seed=4), var], momentum=0.8)
    for size in (1, 3, 5):
        case(f"size{size}", "LRN", 7, [real(2, 7, 3, 3)], size=size, alpha=0.3, beta=0.6, bias=1.5)
    case("plain", "LRN", 13, [real(1, 5, 2, 2)], size=3)
    case("rank3", "InstanceNormalization", 7, [real(2, 3, 6), one, real(3, seed=3)], epsilon=1e-2)
    case("rank4", "InstanceNormalization", 7, [x, one, real(3, seed=3)])
    for axis in (-1, 1):
        shape = (4, 5) if axis == -1 else (3, 4, 5)
        shape = shape if axis == 1 else (5,)
        case(f"axis{axis}", "LayerNormalization", 17, [x, real(*shape, seed=5), real(*shape, seed=6)], axis=axis, epsilon=1e-3)
    case("statistics", "LayerNormalization", 17, [x, real(5, seed=5)], outputs=3)
    case("groups", "GroupNormalization", 18, [real(2, 6, 3, 3), real(2, seed=7), real(2, seed=8)], num_groups=2)
    case("channels", "GroupNormalization", 21, [real(2, 6, 3, 3), real(6, seed=7), real(6, seed=8)], num_groups=3)
    for p in (1, 2):
        case(f"p{p}", "LpNormalization", 7, [x], axis=1, p=p)
    case("axes", "MeanVarianceNormalization", 9, [x], axes=[0, 2, 3])


def dropout():
    x = real(2, 3)
    for opset in (7, 10):
        case("inference", "Dropout", opset, [x], ratio=0.3)
    case("inference", "Dropout", 12, [x], outputs=2)
    case("ratio", "Dropout", 13, [x, np.float32(0.4), np.bool_(False)], outputs=2, fixed=(1, 2))


def resizing():
    x = real(1, 2, 3, 4)
    for mode in ("nearest", "linear"):
        case(mode, "Upsample", 7, [x], mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        case(mode, "Upsample", 9, [x, ints(1, 1, 2, 3, dtype=np.float32)], fixed=(1,), mode=mode)
        case(mode, "Resize", 10, [x, ints(1, 1, 2, 2, dtype=np.float32)], fixed=(1,), mode=mode)
        case(f"{mode}_down", "Resize", 10, [real(1, 1, 6, 8), np.array([1, 1, 0.5, 0.5], np.float32)], fixed=(1,), mode=mode)
        case(f"{mode}_odd", "Resize", 10, [x, np.array([1, 1, 1.7, 2.6], np.float32)], fixed=(1,), mode=mode)
    none = np.zeros(0, np.float32)
    scales, whole = np.array([1, 1, 1.7, 0.8], np.float32), np.array([1, 1, 2, 0.5], np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for coordinate in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            # Of corners that are aligned ONNX Runtime takes the whole length, the package's tests scale * length.
            chosen = whole if coordinate == "align_corners" else scales
            case(f"{mode}_{coordinate}", "Resize", 11, [x, none, chosen], fixed=(1, 2), mode=mode,
                 coordinate_transformation_mode=coordinate)
    for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        case(nearest, "Resize", 13, [x, none, none, ints(1, 2, 5, 7)], fixed=(1, 2, 3), mode="nearest", nearest_mode=nearest)
    case("crop", "Resize", 11, [x, np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 0.8], np.float32), none, ints(1, 2, 4, 5)], fixed=(1, 2, 3),
         mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)
    case("outside", "Resize", 13, [x, none, scales], fixed=(1, 2), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    case("axes", "Resize", 18, [x, None, None, ints(6, 6)], fixed=(3,), mode="linear", axes=[2, 3])
    for policy in ("not_larger", "not_smaller"):
        case(policy, "Resize", 18, [x, None, None, ints(7, 8)], fixed=(3,), mode="nearest", axes=[2, 3], keep_aspect_ratio_policy=policy)
    for mode in ("linear", "cubic"):
        case(f"antialias_{mode}", "Resize", 18, [real(1, 1, 7, 9), None, np.array([1, 1, 0.5, 0.6], np.float32)], fixed=(2,), mode=mode, antialias=1)


def views():
    x = real(4, 5, 6)
    case("attributes", "Slice", 7, [x], starts=[1, -4], ends=[3, 100], axes=[0, 2])
    case("no_axes", "Slice", 9, [x], starts=[1, 1], ends=[-1, 3])
    for opset in (10, 11, 13):
        case("inputs", "Slice", opset, [x, ints(0, 1), ints(3, 100), ints(0, 2)], fixed=(1, 2, 3))
    case("steps", "Slice", 10, [x, ints(-1, 5), ints(-100, 0), ints(0, 2), ints(-1, -2)], fixed=(1, 2, 3, 4))
    case("negative_axes", "Slice", 11, [x, ints(1), ints(4), ints(-1), ints(2)], fixed=(1, 2, 3, 4))
    case("int32", "Slice", 13, [x, ints(1, dtype=np.int32), ints(4, dtype=np.int32), ints(1, dtype=np.int32)], fixed=(1, 2, 3))
    y = real(1, 3, 1, 5)
    case("axes", "Squeeze", 7, [y], axes=[0])
    case("all", "Squeeze", 7, [y])
    case("negative", "Squeeze", 11, [y], axes=[-2])
    case("input", "Squeeze", 13, [y, ints(0, -2)], fixed=(1,))
    case("axes", "Unsqueeze", 7, [real(3, 4)], axes=[0, 2])
    case("negative", "Unsqueeze", 11, [real(3, 4)], axes=[-1, 0])
    case("input", "Unsqueeze", 13, [real(3, 4), ints(-1, 1)], fixed=(1,))
    case("zero", "Reshape", 7, [x, ints(0, -1)], fixed=(1,))
    case("zero", "Reshape", 13, [x, ints(2, 2, 0, -1)], fixed=(1,))
    case("allowzero", "Reshape", 14, [np.zeros((0, 3, 4), np.float32), ints(3, 4, 0)], fixed=(1,), allowzero=1)
    for axis in (0, 1, 3):
        case(f"axis{axis}", "Flatten", 9, [x], axis=axis)
    case("negative", "Flatten", 11, [x], axis=-2)
    case("default", "Flatten", 7, [x])
    for opset in (8, 13):
        case("both", "Expand", opset, [real(3, 1), ints(2, 1, 6)], fixed=(1,))
        case("smaller", "Expand", opset, [real(3, 4), ints(1, 1)], fixed=(1,))
    case("value", "ConstantOfShape", 9, [ints(2, 3)], fixed=(0,), value=numpy_helper.from_array(np.array([7], np.int32)))
    case("default", "ConstantOfShape", 9, [ints(2, 3)], fixed=(0,))
    case("scalar", "ConstantOfShape", 9, [np.zeros(0, np.int64)], fixed=(0,))
    z = real(1, 8, 2, 3)
    case("default", "DepthToSpace", 7, [z], blocksize=2)
    for mode in ("DCR", "CRD"):
        case(mode, "DepthToSpace", 11, [z], blocksize=2, mode=mode)
    case("plain", "SpaceToDepth", 7, [real(1, 2, 4, 6)], blocksize=2)
    case("repeats", "Tile", 7, [real(2, 3), ints(2, 3)], fixed=(1,))


def pieces():
    x = real(4, 6)
    case("equal", "Split", 7, [x], outputs=3, axis=1)
    case("parts", "Split", 11, [x], outputs=2, axis=-1, split=[2, 4])
    case("parts", "Split", 13, [x, ints(1, 3)], outputs=2, fixed=(1,), axis=0)
    case("equal", "Split", 13, [x], outputs=2)
    case("uneven", "Split", 18, [real(4, 7)], outputs=3, axis=1, num_outputs=3)
    case("parts", "Split", 18, [x, ints(5, 1)], outputs=2, fixed=(1,), axis=1)
    for mode in ("constant", "reflect", "edge"):
        case(mode, "Pad", 7, [x], mode=mode, pads=[1, 2, 0, 1], **({"value": 2.5} if mode == "constant" else {}))
        for opset in (11, 13):
            case(mode, "Pad", opset, [x, ints(1, 2, 0, 1)] + ([np.float32(2.5)] if mode == "constant" else []), fixed=(1, 2), mode=mode)
    case("negative", "Pad", 7, [x], pads=[-1, 2, 1, -2])
    case("negative", "Pad", 11, [x, ints(-1, 2, 1, -2)], fixed=(1,))
    case("axes", "Pad", 18, [x, ints(1, 2), np.float32(1), ints(-1)], fixed=(1, 2, 3))
    case("wrap", "Pad", 19, [x, ints(1, 2, 3, 1)], fixed=(1,), mode="wrap")
    for axis in (0, 1, -1):
        case(f"axis{axis}", "Concat", 11, [x, x + 1], axis=axis)


def elementwise():
    x = real(3, 4, scale=3)
    case("attributes", "Clip", 7, [x], min=-1.0, max=2.0)
    case("one", "Clip", 7, [x], max=0.5)
    case("none", "Clip", 7, [x])
    case("inputs", "Clip", 11, [x, np.float32(-1), np.float32(2)])
    case("max", "Clip", 11, [x, None, np.float32(0)])
    case("integers", "Clip", 12, [ints(-5, 0, 9), np.int64(-2), np.int64(3)])
    case("int8", "Clip", 12, [ints(-5, 0, 9, dtype=np.int8), np.int8(-2), np.int8(3)])
    case("crossed", "Clip", 13, [x, np.float32(2), np.float32(-1)])
    for opset in (7, 9, 13):
        for to, kind in ((TensorProto.INT32, "int32"), (TensorProto.FLOAT16, "float16"), (TensorProto.BOOL, "bool"), (TensorProto.DOUBLE, "double")):
            case(kind, "Cast", opset, [x], to=to)
    case("uint8", "Cast", 9, [np.array([0.0, 1.9, 254.9, 17.2], np.float32)], to=TensorProto.UINT8)
    case("narrow", "Cast", 13, [ints(-1, 128, 300, 2**31 + 5)], to=TensorProto.INT8)
    case("unidirectional", "PRelu", 7, [real(2, 3, 4), real(3, 1, seed=2)])
    case("scalar", "PRelu", 9, [real(2, 3, 4), real(1, seed=2)])
    case("floats", "Mod", 10, [np.array([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0], np.float32), np.array([2.1, -3.4, 8.0, -2.1, 3.4, 5.0], np.float32)], fmod=1)
    for fmod in (0, 1):
        case(f"integers{fmod}", "Mod", 10, [ints(-4, 7, 5, 4, -7, 8), ints(2, -3, 8, -2, 3, 5)], fmod=fmod)
        case(f"int8{fmod}", "Mod", 13, [ints(-4, 7, 5, 4, -7, 8, dtype=np.int8), ints(2, -3, 8, -2, 3, 5, dtype=np.int8)], fmod=fmod)
    flags = real(3, 1) > 0
    case("broadcast", "Where", 9, [flags, x, real(4, seed=1)])
    case("integers", "Where", 16, [flags, ints(1, 2, 3, 4), ints(9)])
    case("floats", "Greater", 7, [x, x.round()])
    case("floats", "Less", 9, [x, x.round()])
    case("floats", "Equal", 11, [x, x.round()])
    case("integers", "Equal", 7, [ints(1, 2, 3), ints(1, 5, 3)])
    for opset in (7, 12):
        case("same", "Pow", opset, [np.abs(x), real(4, seed=2)])
    case("mixed", "Pow", 13, [x, np.int32(3)])
    case("integers", "Pow", 12, [ints(2, -3, 5), ints(3, 3, 2)])
    case("integers", "Div", 7, [ints(-7, 7, 9), ints(2, 2, -4)])
    case("some", "Sum", 8, [x, real(4, seed=1), real(1, seed=2)])
    case("some", "Max", 8, [x, real(4, seed=1)])
    case("integers", "Max", 12, [ints(1, 5, -2), ints(3, 3, 3)])
    case("some", "Mean", 8, [x, real(4, seed=1), real(3, 1, seed=2)])
    case("left", "BitShift", 11, [ints(1, 2, 255, dtype=np.uint8), ints(1, 9, 3, dtype=np.uint8)], direction="LEFT")


def reductions():
    x = real(2, 3, 4)
    positive = np.abs(x) + 0.1
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        value = positive if op == "LogSum" else x
        case("axes", f"Reduce{op}", 7, [value], axes=[1], keepdims=0)
        case("all", f"Reduce{op}", 11, [value])
        case("negative", f"Reduce{op}", 11, [value], axes=[-1, 0])
        case("input", f"Reduce{op}", 18, [value, ints(0, -1)], fixed=(1,), keepdims=0)
        case("noop", f"Reduce{op}", 18, [value, np.zeros(0, np.int64)], fixed=(1,), noop_with_empty_axes=1)
    case("input", "ReduceSum", 13, [x, ints(1)], fixed=(1,))
    case("int32", "ReduceSum", 7, [ints(1, 2, 3, dtype=np.int32)], axes=[0])
    case("int8", "ReduceMax", 12, [ints(1, -2, 3, dtype=np.int8)], axes=[0])
    tied = np.array([[2, 2, 1], [0, 3, 3]], np.float32)
    for op in ("ArgMax", "ArgMin"):
        case("first", op, 7, [tied], axis=1)
        case("negative", op, 11, [tied], axis=-1, keepdims=0)
        for last in (0, 1):
            case(f"last{last}", op, 12, [tied], axis=1, select_last_index=last)
    case("axis0", "TopK", 7, [x], outputs=2, k=2, axis=0)
    case("attribute", "TopK", 9, [x], outputs=2, k=3)
    case("input", "TopK", 10, [x, ints(2)], outputs=2, fixed=(1,))
    for largest in (0, 1):
        case(f"largest{largest}", "TopK", 11, [x, ints(2)], outputs=2, fixed=(1,), largest=largest, sorted=1, axis=1)
        case(f"many{largest}", "TopK", 11, [real(2, 20), ints(12)], outputs=2, fixed=(1,), largest=largest)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            case(f"e{exclusive}r{reverse}", "CumSum", 11, [real(3, 5), np.array(1, np.int32)], fixed=(1,), exclusive=exclusive, reverse=reverse)
    case("negative", "CumSum", 14, [real(3, 5), np.array(-2, np.int64)], fixed=(1,))


def contractions():
    a, b = real(3, 4), real(4, 5)
    for opset in (7, 9, 11, 13):
        case("bias", "Gemm", opset, [a, b, real(5, seed=1)], alpha=0.5, beta=2.0)
        case("transposed", "Gemm", opset, [a.T.copy(), b.T.copy(), real(3, 1, seed=1)], transA=1, transB=1)
    case("no_bias", "Gemm", 11, [a, b], alpha=2.0)
    case("scalar", "Gemm", 7, [a, b, real(1, seed=2)])
    for name, left, right in (("batch", (2, 1, 3, 4), (5, 4, 2)), ("vector", (4,), (2, 4, 3)), ("column", (2, 3, 4), (4,)), ("inner", (4,), (4,)), ("stack", (2, 3, 4), (2, 4, 5))):
        case(name, "MatMul", 7, [real(*left), real(*right, seed=1)])
    case("batch", "MatMul", 9, [real(2, 3, 4), real(4, 2, seed=1)])
    for equation, shapes in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk", ((2, 3, 4), (2, 4, 5))), ("ii->i", ((3, 3),)), ("...ij->...ji", ((2, 3, 4),)), ("bhqd,bhkd->bhqk", ((1, 2, 3, 4), (1, 2, 5, 4)))):
        name = "".join(c if c.isalnum() else "_" for c in equation)
        case(name, "Einsum", 12, [real(*s, seed=i) for i, s in enumerate(shapes)], equation=equation)


def pools():
    x = real(1, 2, 7, 8)
    for opset in (7, 8, 10, 11, 12):
        case("padded", "MaxPool", opset, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("index", "MaxPool", 8, [x], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    case("column", "MaxPool", 8, [x], outputs=2, kernel_shape=[2, 3], strides=[2, 2], storage_order=1)
    for opset in (10, 11, 12):
        case("ceil", "MaxPool", opset, [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        case("dilated", "MaxPool", opset, [x], kernel_shape=[2, 2], dilations=[2, 3])
        case("ceil_index", "MaxPool", opset, [x], outputs=2, kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)
    for dtype in (np.int8, np.uint8):
        case(np.dtype(dtype).name, "MaxPool", 12, [(x * 40).astype(dtype)], kernel_shape=[3, 3])
    for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        case(pad.lower(), "MaxPool", 7, [x], kernel_shape=[3, 2], strides=[2, 3], auto_pad=pad)
        case(pad.lower(), "AveragePool", 7, [x], kernel_shape=[3, 2], strides=[2, 3], auto_pad=pad)
    for opset in (7, 10, 11):
        for include in (0, 1):
            case(f"include{include}", "AveragePool", opset, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1], count_include_pad=include)
    for opset in (10, 11, 19):
        for include in (0, 1):
            case(f"ceil_include{include}", "AveragePool", opset, [x], kernel_shape=[3, 3], strides=[3, 2], pads=[1, 0, 1, 1], ceil_mode=1, count_include_pad=include)
    case("dilated", "AveragePool", 19, [x], kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1])
    case("p3", "LpPool", 11, [x], kernel_shape=[2, 2], p=3)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        case("all", op, 7, [x])


def indices():
    x = real(3, 4)
    case("depth", "OneHot", 9, [ints(0, 2, 1), ints(4), np.array([2, 5], np.float32)], fixed=(1,))
    case("negative", "OneHot", 11, [ints(-1, 7, 1), ints(4), np.array([2, 5], np.float32)], fixed=(1,), axis=0)
    case("floats", "OneHot", 11, [np.array([0, 2], np.float32), np.array([3], np.float32), np.array([0, 1], np.float32)], fixed=(1,))
    case("plain", "Gather", 7, [x, ints(2, 0)])
    case("axis1", "Gather", 7, [x, ints(1, 3, dtype=np.int32)], axis=1)
    case("negative", "Gather", 11, [x, ints(-1, -3)], axis=-1)
    for axis in (0, 1):
        index = np.array([[0, 1, 2, -1], [2, 0, 1, 1]])
        case(f"axis{axis}", "GatherElements", 11, [real(4, 4), index], axis=axis)
        updates = real(2, 4, seed=3)
        case(f"axis{axis}", "ScatterElements", 11, [real(4, 4), np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), updates], axis=axis)
        case(f"axis{axis}", "Scatter", 9, [real(4, 4), np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), updates], axis=axis)
    for reduction in ("add", "mul"):
        case(reduction, "ScatterElements", 16, [real(4, 4), np.array([[1, 1, 2, 3]]), real(1, 4, seed=4)], reduction=reduction)
    case("max", "ScatterElements", 18, [real(4, 4), np.array([[1, 1, 2, 3]]), real(1, 4, seed=4)], reduction="max")
    case("batch", "GatherND", 12, [real(2, 3, 4), np.array([[1], [2]])], batch_dims=1)
    case("plain", "GatherND", 11, [real(2, 3, 4), np.array([[0, 1], [1, 2]])])
    case("plain", "ScatterND", 11, [real(4, 3), np.array([[1], [3]]), real(2, 3, seed=2)])
    case("batch0", "ReverseSequence", 10, [real(3, 4), ints(1, 4, 2)], batch_axis=0, time_axis=1)
    case("upper", "Trilu", 14, [real(3, 4), np.array(1)], fixed=(1,))


def convolutions():
    x, w = real(1, 4, 7, 6), real(6, 2, 3, 3, seed=1, scale=0.3)
    for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        case(pad.lower(), "Conv", 7, [x, w], group=2, strides=[2, 1], auto_pad=pad)
    case("dilated", "Conv", 11, [x, w, real(6, seed=2)], group=2, dilations=[2, 1], pads=[2, 1, 0, 3])
    t = real(4, 2, 3, 3, seed=3, scale=0.3)
    case("stride", "ConvTranspose", 7, [x, t], strides=[2, 3], group=2, output_padding=[1, 2])
    case("shape", "ConvTranspose", 11, [x, t, real(2, seed=4)], strides=[2, 2], output_shape=[14, 12])
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        case(pad.lower(), "ConvTranspose", 11, [x, t], strides=[2, 2], auto_pad=pad)


def model_of(op, opset, inputs, outputs, fixed, attributes):
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], **attributes)
    infos, initializers = [], []
    for i, v in enumerate(inputs):
        if v is None:
            continue
        v = np.asarray(v)
        if i in fixed:
            initializers.append(numpy_helper.from_array(v, names[i]))
        else:
            infos.append(helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(v.dtype), v.shape))
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=f"y{k}") for k in range(outputs)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(out, name, op, opset, inputs, outputs, fixed, rtol, atol, attributes):
    model = model_of(op, opset, inputs, outputs, fixed, attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {f"x{i}": np.asarray(v) for i, v in enumerate(inputs) if v is not None and i not in fixed}
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    data = out / name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (out / name / "model.onnx").write_bytes(model.SerializeToString())
    (out / name / "tolerance.txt").write_text(f"{rtol} {atol}\n")
    for i, value in enumerate(feeds.items()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value[1], value[0]).SerializeToString())
    for k, value in enumerate(results):
        (data / f"output_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(value), f"y{k}").SerializeToString())


def write_all(folder):
    out, refused = pathlib.Path(folder), []
    for c in CASES:
        try:
            write(out, *c)
        except Exception as e:  # ONNX Runtime has no kernel for it
            refused.append(f"{c[0]}: {str(e).splitlines()[0]}")
    for line in refused:
        print("ONNX Runtime:", line)
    print(f"onnxruntime {onnxruntime.__version__}: {len(CASES) - len(refused)} cases in {out}, {len(refused)} that it does not run")


def main():
    for family in (softmax, norms, dropout, resizing, views, pieces, elementwise, reductions, contractions, pools, indices, convolutions):
        family()
    write_all(sys.argv[1])


if __name__ == "__main__":
    main()
