"""Writes cases of the operators over numbers in eight bits, as folders that run_node_tests reads; the outputs are ONNX Runtime's.

    quantised.py OUT      ->   OUT/qlinearconv_10_depthwise/{model.onnx, tolerance.txt, test_data_set_0/...}

Results in eight bits must be equal. Among the cases are what other engines got wrong: sums of products at both ends of the range
(a pair of them does not fit into 16 bits), a depthwise convolution of one filter a group, asymmetric padding with a zero point,
zero points of 127 and 128, one zero point for all filters, and zero points that are no initializers.
"""

import sys

import numpy as np
import old_opsets
from old_opsets import case, real


def byte(*shape, seed=0, dtype=np.uint8, ends=0.2):
    rng = np.random.default_rng(seed + sum(shape))
    info = np.iinfo(dtype)
    data = rng.integers(info.min, info.max + 1, shape)
    return np.where(rng.random(shape) < ends, rng.choice([info.min, info.max], shape), data).astype(dtype)


def scales(count, seed=0, least=0.002, most=0.05):
    return np.random.default_rng(seed + count).uniform(least, most, count).astype(np.float32)


F = np.float32


def linear():
    x = np.concatenate([np.arange(-20, 20, dtype=F) / 4, np.array([1e9, -1e9, 0.49999997, 126.5, 127.5, 254.5, 255.5], F)])
    for opset in (10, 13, 19, 21, 23):
        for dtype, zero in ((np.uint8, 128), (np.uint8, 127), (np.int8, -5), (np.int8, 0)):
            case(f"{np.dtype(dtype).name}_{zero}".replace("-", "m"), "QuantizeLinear", opset, [x, F(0.5), dtype(zero)])
            case(f"{np.dtype(dtype).name}_{zero}".replace("-", "m"), "DequantizeLinear", opset, [byte(40, dtype=dtype), F(0.3), dtype(zero)])
        case("no_zero", "QuantizeLinear", opset, [x, F(1)])
        case("int32", "DequantizeLinear", opset, [np.array([-100000, 5, 2**20], np.int32), F(0.01)])
    y = real(2, 3, 4, scale=3)
    for opset in (13, 19, 21):
        for axis, count in ((0, 2), (1, 3), (-1, 4)):
            zeros = byte(count, seed=3)
            case(f"axis{axis}".replace("-", "m"), "QuantizeLinear", opset, [y, scales(count), zeros], axis=axis)
            case(f"axis{axis}".replace("-", "m"), "DequantizeLinear", opset, [byte(2, 3, 4), scales(count), zeros], axis=axis)
    case("blocks", "DequantizeLinear", 21, [byte(4, 6), scales(12).reshape(4, 3), byte(4, 3)], axis=1, block_size=2)
    case("ragged_blocks", "DequantizeLinear", 21, [byte(5, 3), scales(9).reshape(3, 3), byte(3, 3)], axis=0, block_size=2)
    case("blocks", "QuantizeLinear", 21, [real(4, 6), scales(12).reshape(4, 3), byte(4, 3)], axis=1, block_size=2)
    for i, x in enumerate([real(3, 4, scale=2), np.abs(real(5)), -np.abs(real(5)), np.zeros(4, F), F([1e-30, 0])]):
        case(f"range{i}", "DynamicQuantizeLinear", 11, [x], outputs=3)


def qlinear_conv(name, x, w, xz, wz, sw, bias=True, yz=np.uint8(100), sx=F(0.02), sy=F(0.7), **attributes):
    inputs = [x, sx, xz, w, sw, wz, sy, yz]
    if bias:
        inputs.append(np.random.default_rng(1).integers(-9000, 9000, w.shape[0]).astype(np.int32))
    case(name, "QLinearConv", 10, inputs, fixed=(1, 2, 3, 4, 5, 6, 7, 8), **attributes)


def convolutions():
    u8, i8 = np.uint8, np.int8
    for x_type, w_type in ((u8, u8), (u8, i8), (i8, i8)):
        x, w, name = byte(1, 5, 7, 6, dtype=x_type), byte(9, 5, 3, 3, dtype=w_type, seed=1), f"{np.dtype(x_type).name}_{np.dtype(w_type).name}"
        yz = x_type(3)
        qlinear_conv(name, x, w, x_type(17), w_type(9), F(0.003), yz=yz, pads=[1, 0, 2, 1], strides=[2, 1])
        qlinear_conv(name + "_bare", x, w, x_type(0), w_type(0), F(0.003), bias=False, yz=yz)
        qlinear_conv(name + "_filters", x, w, x_type(17), np.zeros(9, w_type) + w_type(3), scales(9), yz=yz, pads=[2, 2, 0, 0], dilations=[2, 1])
    depthwise = byte(12, 1, 3, 3, dtype=i8, seed=2)
    qlinear_conv("depthwise", byte(2, 12, 6, 7), depthwise, u8(128), i8(0), F(0.01), group=12, pads=[0, 0, 1, 1], strides=[2, 2])
    qlinear_conv("depthwise_filters", byte(2, 12, 6, 7), depthwise, u8(127), np.zeros(12, i8), scales(12), group=12, auto_pad="SAME_UPPER", strides=[2, 1])
    qlinear_conv("multiplier", byte(1, 6, 5, 5), byte(12, 1, 3, 2, dtype=i8), u8(77), i8(-3), F(0.01), group=6, pads=[1, 1, 1, 1])
    qlinear_conv("groups", byte(1, 8, 5, 5), byte(6, 4, 3, 3, dtype=i8), u8(77), i8(2), F(0.01), group=2)
    ends = np.full((1, 64, 6, 6), 255, u8), np.full((4, 64, 3, 3), 127, i8)
    qlinear_conv("both_ends", ends[0], ends[1], u8(0), i8(0), F(0.001), sy=F(8.0))
    qlinear_conv("other_end", ends[0], np.full_like(ends[1], -128), u8(0), i8(0), F(0.001), yz=u8(255), sy=F(8.0), pads=[1, 1, 1, 1])
    qlinear_conv("one_row", byte(1, 3, 9), byte(4, 3, 3, dtype=i8), u8(9), i8(0), F(0.02), pads=[1, 1])
    for name, zeros in (("plain", []), ("zero", [u8(7)]), ("zeros", [u8(7), u8(99)])):
        case(name, "ConvInteger", 10, [byte(1, 3, 6, 5), byte(4, 3, 3, 3, seed=4)] + zeros, pads=[1, 0, 1, 2])
    case("groups", "ConvInteger", 10, [byte(1, 4, 6, 5), byte(4, 2, 2, 2, seed=4), u8(200)], group=2, strides=[2, 2])


def products():
    u8, i8 = np.uint8, np.int8
    for a_type, b_type in ((u8, u8), (u8, i8), (i8, i8)):
        name, a, b = f"{np.dtype(a_type).name}_{np.dtype(b_type).name}", byte(5, 37, dtype=a_type), byte(37, 19, dtype=b_type, seed=5)
        for opset in (10, 21):
            case(name, "QLinearMatMul", opset, [a, F(0.02), a_type(11), b, F(0.01), b_type(5), F(0.3), a_type(4)])
            case(name + "_columns", "QLinearMatMul", opset, [a, F(0.02), a_type(11), b, scales(19), byte(19, dtype=b_type), F(0.3), a_type(4)], fixed=(3, 4, 5))
        case(name, "MatMulInteger", 10, [a, b, a_type(11), b_type(5)])
        case(name + "_columns", "MatMulInteger", 10, [a, b, a_type(11), byte(19, dtype=b_type)])
    case("batch", "QLinearMatMul", 10, [byte(2, 3, 5, 7), F(0.02), u8(128), byte(3, 7, 4), F(0.01), u8(127), F(0.2), u8(9)])
    case("batch", "MatMulInteger", 10, [byte(2, 3, 5, 7), byte(3, 7, 4), u8(128), u8(127)])
    case("ends", "MatMulInteger", 10, [np.full((3, 600), 255, u8), np.full((600, 5), -128, i8)])


if __name__ == "__main__":
    for family in (linear, convolutions, products):
        family()
    old_opsets.write_all(sys.argv[1])
