"""Writes the graphs with which users of other engines got wrong answers or none, as folders that run_node_tests reads.

    threads.py OUT      ->   OUT/t06_groups_constant/{model.onnx, tolerance.txt, kernels.txt, test_data_set_*/...}

Numbers are those of spec fcm 6, and d1 to d7 the defects of 1.9; threads about time or size alone are in tests/check/threads_test.cpp. The outputs are ONNX Runtime's
without its optimisations, in f32 where it has no kernel for the type. kernels.txt, where there is one, says how many kernels a plan
with neighbours joined may have at most: what was not folded or was cut into groups shows there. (The groups of a convolution are one
kernel, and what stands behind them another.)
"""

import pathlib
import sys

import numpy as np
import onnxruntime
from extents import model_of, node, random
from onnx import numpy_helper
from quantised import byte, scales

F, U8, I8 = np.float32, np.uint8, np.int8
GRAPHS = []


def graph(thread, name, nodes, feeds, fixed=None, outputs="y", free="", opset=17, kernels=0, like=None, tolerance=(1e-5, 1e-5)):
    """thread: a number, or what else names the case. feeds: a dict of inputs, or one a data set. like: nodes whose results are wanted instead, or a type to compute them in."""
    feeds = feeds if isinstance(feeds, list) else [feeds]
    nodes = [node(n) if isinstance(n, str) else n for n in nodes]
    number = thread if isinstance(thread, str) else f"t{thread:02}"
    GRAPHS.append((f"{number}_{name}", nodes, outputs.split(), feeds, fixed or {}, {f[0]: f[1:] or "0123" for f in free.split()},
                   opset, kernels, like, tolerance))


def conv(x, w, y, bias=None, **attributes):
    return node(f"Conv {x} {w} {bias or ''} -> {y}", **attributes)


def weights(f, c, k, seed=1):
    shape = (f, c, *(k if isinstance(k, tuple) else (k, k)))
    return (random(*shape, seed=seed) / np.sqrt(np.prod(shape[1:]))).astype(F)


def depthwise(c, k, seed=2):
    return weights(c, 1, k, seed)


# --- padding, strides, dilation -------------------------------------------------------------------------------------------

def padding():
    x = random(1, 1, 7, 5)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        for k in (2, 3, 5):
            graph(1, f"conv_{pad.lower()}_{k}", [conv("x", "w", "y", auto_pad=pad, strides=[2, 2])], dict(x=x), dict(w=weights(2, 1, k)))
        for op in ("MaxPool", "AveragePool"):
            graph(1, f"{op.lower()}_{pad.lower()}", [node(f"{op} x -> y", auto_pad=pad, strides=[2, 2], kernel_shape=[3, 3])], dict(x=x))
    graph(1, "valid", [conv("x", "w", "y", auto_pad="VALID", strides=[2, 2])], dict(x=x), dict(w=weights(2, 1, 3)), opset=7)
    for i, pads in enumerate(([0, 0, 1, 1], [1, 0, 0, 2], [2, 1, 0, 0])):
        x = random(2, 6, 9, 8, seed=i)
        graph(2, f"dense_{i}", [conv("x", "w", "y", "b", pads=pads)], dict(x=x), dict(w=weights(7, 6, 3), b=random(7)))
        graph(2, f"depthwise_{i}", [conv("x", "w", "a", pads=pads, group=6, strides=[2, 1]), conv("a", "v", "y")], dict(x=x),
              dict(w=depthwise(6, 3), v=weights(5, 6, 1)))
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        graph(2, f"free_{pad.lower()}", [conv("x", "w", "y", auto_pad=pad, strides=[2, 2])],
              [dict(x=random(1, 3, *s)) for s in ((7, 5), (8, 8), (9, 12))], dict(w=weights(4, 3, 3)), free="x23")
    bn = dict(s=np.abs(random(8, seed=3)) + F(0.5), t=random(8, seed=4), m=random(8, seed=5), v=np.abs(random(8, seed=6)) + F(0.5))
    for name, pads in (("lower", [1, 1, 0, 0]), ("upper", [0, 0, 1, 1])):
        graph(3, f"darknet_{name}", [conv("x", "w", "a", pads=pads, strides=[2, 2]), "BatchNormalization a s t m v -> b", node("LeakyRelu b -> y", alpha=0.1)],
              dict(x=random(1, 4, 26, 26)), dict(w=weights(8, 4, 3), **bn), kernels=1)
    x = random(1, 3, 11, 9)
    for i, a in enumerate((dict(pads=[0, 0, 1, 2]), dict(pads=[2, 1, 0, 0], count_include_pad=1), dict(auto_pad="SAME_UPPER"),
                           dict(auto_pad="SAME_LOWER"), dict(ceil_mode=1), dict(ceil_mode=1, pads=[1, 1, 1, 1]), dict(dilations=[2, 2]),
                           dict(dilations=[2, 1], pads=[1, 0, 2, 1]))):
        graph(5, f"average_{i}", [node("AveragePool x -> y", kernel_shape=[3, 3], strides=[2, 2], **a)], dict(x=x), opset=19)
    graph(37, "first", [conv("x", "w", "a", "b", pads=[0, 0, 1, 1], strides=[2, 2]), node("Clip a lo hi -> y")], dict(x=random(1, 3, 32, 32)),
          dict(w=weights(32, 3, 3), b=random(32), lo=F(0), hi=F(6)), kernels=1)
    graph(37, "first_and_depthwise", [conv("x", "w", "a", pads=[0, 0, 1, 1], strides=[2, 2]), "Relu a -> b", conv("b", "v", "c", pads=[1, 1, 1, 1], group=32),
                                      "Relu c -> d", conv("d", "u", "y")],
          dict(x=random(2, 3, 23, 31)), dict(w=weights(32, 3, 3), v=depthwise(32, 3), u=weights(16, 32, 1)))
    for pads in ([4, 4, 4, 4], [5, 0, 0, 5], [0, 3, 6, 0]):
        graph(47, "beyond_" + "".join(map(str, pads)), [conv("x", "w", "a", "b", pads=pads, group=5), conv("a", "v", "y", pads=[2, 2, 2, 2])],
              dict(x=random(1, 5, 4, 3)), dict(w=depthwise(5, 3), b=random(5), v=weights(3, 5, 3)))
    for h, w in ((18, 17), (18, 18), (22, 20)):
        x = random(1, 8, h, w)
        graph(48, f"depthwise_{h}x{w}", [conv("x", "w", "y", pads=[1] * 4, strides=[2, 2], group=8)], dict(x=x), dict(w=depthwise(8, 3)))
        graph(48, f"dense_{h}x{w}", [conv("x", "w", "y", pads=[1] * 4, strides=[2, 2])], dict(x=x), dict(w=weights(8, 8, 3)))


def dilations():
    for d in (2, 3):
        graph(27, f"depthwise_{d}", [conv("x", "w", "y", dilations=[d, d], pads=[d] * 4, group=16)], dict(x=random(1, 16, 12, 11)), dict(w=depthwise(16, 3)))
    graph(27, "five_and_dilated_three", [conv("x", "w", "a", pads=[2] * 4, group=8), conv("x", "v", "b", pads=[2] * 4, dilations=[2, 2], group=8), "Add a b -> y"],
          dict(x=random(1, 8, 10, 10)), dict(w=depthwise(8, 5), v=depthwise(8, 3)))
    graph(27, "between_pointwise", [conv("x", "u", "a"), "Relu a -> b", conv("b", "w", "c", pads=[4, 2, 4, 2], dilations=[4, 2], group=24), "Relu c -> d", conv("d", "v", "y")],
          dict(x=random(2, 6, 9, 9)), dict(u=weights(24, 6, 1), w=depthwise(24, 3), v=weights(6, 24, 1)))
    graph(42, "wide", [conv("x", "w", "y", pads=[4] * 4, dilations=[2, 2], group=384)], dict(x=random(1, 384, 28, 28)), dict(w=depthwise(384, 5)), kernels=1)
    for bias in (False, True):
        graph(45, f"bias{bias:d}", [conv("x", "w", "y", "b" if bias else None, dilations=[2, 2], pads=[2] * 4, group=4)], dict(x=random(1, 4, 5, 5)),
              dict(w=depthwise(4, 3), **(dict(b=random(4)) if bias else {})))
    for name, a in (("two_three", dict(strides=[2, 2], dilations=[3, 3])), ("unequal", dict(strides=[1, 3])), ("unequal_both", dict(strides=[3, 2], dilations=[1, 2]))):
        graph(51, name, [conv("x", "w", "y", pads=[2, 1, 1, 2], **a)], dict(x=random(1, 4, 15, 14)), dict(w=weights(6, 4, 3)))
        graph(51, name + "_depthwise", [conv("x", "w", "a", pads=[2, 1, 1, 2], group=4, **a), conv("a", "v", "y")], dict(x=random(1, 4, 15, 14)),
              dict(w=depthwise(4, 3), v=weights(6, 4, 1)))
    for k in (13, 21, 31):
        graph(20, f"kernel_{k}", [conv("x", "w", "y", pads=[k // 2] * 4, group=6)], dict(x=random(1, 6, 33, 32)), dict(w=depthwise(6, k)), kernels=1)


# --- groups, channels, shapes ---------------------------------------------------------------------------------------------

def groups():
    for name, c, m, k in (("two_by_two", 4, 2, 2), ("triple", 7, 3, 3), ("one_channel", 1, 5, 3)):
        graph(28, name, [conv("x", "w", "a", "b", group=c, pads=[1, 0, 0, 1]), "Relu a -> r", conv("r", "v", "y")], dict(x=random(1, c, 6, 6)),
              dict(w=weights(c * m, 1, k), b=random(c * m), v=weights(3, c * m, 1)))
    for name, c, f, g in (("more_out", 6, 12, 6), ("halves", 8, 8, 4), ("fewer_out", 8, 4, 4), ("one_each", 5, 5, 5)):
        graph(29, name, [conv("x", "w", "y", group=g, pads=[1] * 4)], dict(x=random(2, c, 5, 6)), dict(w=weights(f, c // g, 3)))
    for name, n, c in (("batch", 4, 10), ("batch_is_channels", 4, 4)):
        graph(30, name, [conv("x", "w", "y", group=c, pads=[1] * 4)], dict(x=random(n, c, 6, 5)), dict(w=depthwise(c, 3)))
    to, back = dict(perm=[0, 3, 1, 2]), dict(perm=[0, 2, 3, 1])
    graph(30, "last_channels", [node("Transpose x -> t", **to), conv("t", "w", "a", group=4, pads=[1] * 4), node("Transpose a -> y", **back)],
          dict(x=random(4, 6, 5, 4)), dict(w=depthwise(4, 3)), kernels=1)
    batches = [dict(x=random(n, 1, 156, 26)) for n in (1, 3)]
    graph(31, "one_channel", [conv("x", "w", "y", pads=[1] * 4, strides=[2, 2])], batches, dict(w=weights(8, 1, 3)), free="x0")
    graph(31, "then_groups", [conv("x", "w", "a", pads=[1] * 4, strides=[2, 2]), "Relu a -> b", conv("b", "v", "y", group=4)], batches,
          dict(w=weights(8, 1, 3), v=weights(12, 2, 1)), free="x0")
    for c, f in ((8, 64), (8, 16)):
        graph(33, f"{c}_{f}", [conv("x", "w", "y", "b", group=8, strides=[2, 2], pads=[1] * 4)], dict(x=random(1, c, 9, 10)), dict(w=weights(f, 1, 3), b=random(f)))
    for name, x, f in (("no_image", (3, 8, 1, 1), 6), ("one_channel", (2, 1, 5, 7), 6), ("one_filter", (2, 9, 5, 7), 1), ("one_of_all", (1, 1, 1, 1), 1),
                       ("column", (1, 8, 9, 1), 8), ("row", (1, 8, 1, 9), 8)):
        graph(21, name, [conv("x", "w", "a"), "Relu a -> b", conv("b", "v", "y")], dict(x=random(*x)), dict(w=weights(f, x[1], 1), v=weights(4, f, 1)))
    graph(17, "channels", [conv("x", "w", "y", pads=[1] * 4)], dict(x=random(1, 514, 5, 4)), dict(w=weights(6, 514, 3)))
    graph(17, "depthwise_channels", [conv("x", "w", "y", pads=[1] * 4, group=514)], dict(x=random(1, 514, 5, 4)), dict(w=depthwise(514, 3)))


# --- what stands behind a convolution -------------------------------------------------------------------------------------

def behind():
    c, x = 136, random(1, 136, 28, 28)
    for name, add in (("constant", random(1, c, 28, 28)), ("channels", random(c, 1, 1))):
        graph(6, f"groups_{name}", [conv("x", "w", "a", group=4), "Add a k -> y"], dict(x=x), dict(w=weights(c, 34, 1), k=add), kernels=2)
    graph(6, "groups_relu", [conv("x", "w", "a", group=4), "Add a k -> b", "Relu b -> y"], dict(x=x), dict(w=weights(c, 34, 1), k=random(1, c, 28, 28)), kernels=2)
    for shape in ((1, 6, 1, 1), (6, 1, 1), (5, 7), (1,), (2, 1, 5, 7), (1, 1, 1, 7), (2, 6, 5, 1)):
        graph(7, "residual_" + "x".join(map(str, shape)), [conv("x", "w", "a"), "Add a r -> b", "Relu b -> y"], dict(x=random(2, 4, 5, 7), r=random(*shape)),
              dict(w=weights(6, 4, 1)), kernels=1)
    graph(7, "wider_than_the_sum", [conv("x", "w", "a"), "Add a r -> b", "Relu b -> y"], dict(x=random(1, 4, 1, 7), r=random(3, 6, 5, 7)), dict(w=weights(6, 4, 1)))
    slope = dict(p=np.abs(random(6, 1, 1)))
    for op in ("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Softplus", "Softsign", "PRelu", "Mish", "Gelu", "Swish"):
        nodes = ["Sigmoid a -> s", "Mul a s -> b"] if op == "Swish" else [f"{op} a {'p' if op == 'PRelu' else ''} -> b"]
        graph(8, op.lower(), [conv("x", "w", "a", pads=[1] * 4, group=6), *nodes, conv("b", "v", "y")], dict(x=random(1, 6, 7, 6)),
              dict(w=depthwise(6, 3), v=weights(5, 6, 1), **(slope if op == "PRelu" else {})), opset=20)
    for kind, tolerance in ((np.float16, (2e-3, 4e-3)), (np.float64, (1e-5, 1e-5))):
        name = np.dtype(kind).name
        x, r = random(1, 6, 7, 5).astype(kind), random(1, 8, 7, 5).astype(kind)
        fixed = dict(w=weights(8, 6, 3).astype(kind), b=random(8).astype(kind))
        graph(9, name, [conv("x", "w", "a", "b", pads=[1] * 4), "Add a r -> c", "Relu c -> y"], dict(x=x, r=r), fixed, like=F, tolerance=tolerance, kernels=1)
        graph(9, name + "_pair", [conv("x", "w", "a", "b", pads=[1] * 4), "Relu a -> c", conv("c", "v", "y", group=8, pads=[1] * 4)], dict(x=x),
              dict(v=depthwise(8, 3).astype(kind), **fixed), like=F, tolerance=tolerance)
    bn = dict(s=np.abs(random(8, seed=3)) + F(0.5), t=random(8, seed=4), m=random(8, seed=5), v=np.abs(random(8, seed=6)) + F(0.5))
    graph(22, "conv", [conv("x", "w", "a", pads=[1] * 4), "BatchNormalization a s t m v -> y"], dict(x=random(1, 4, 6, 6)), dict(w=weights(8, 4, 3), **bn), kernels=1)
    graph(22, "depthwise", [conv("x", "w", "a", pads=[1] * 4, group=8), "BatchNormalization a s t m v -> b", node("Clip b lo hi -> y")], dict(x=random(1, 8, 6, 6)),
          dict(w=depthwise(8, 3), lo=F(0), hi=F(6), **bn), kernels=1)
    graph(22, "before", ["BatchNormalization x s t m v -> a", conv("a", "w", "y")], dict(x=random(1, 8, 6, 6)), dict(w=weights(4, 8, 1), **bn), kernels=1)
    graph(22, "by_hand", [conv("x", "w", "a"), "Sub a m -> b", "Mul b s -> c", "Add c t -> y"], dict(x=random(1, 8, 6, 6)),
          dict(w=weights(8, 8, 1), **{k: bn[k].reshape(8, 1, 1) for k in "mst"}), kernels=1)
    x, w, v = random(1, 6, 8, 8), weights(6, 6, 3), weights(6, 6, 1)
    for name, start, end in (("first", 0, 6), ("second", 6, 12), ("across", 3, 9)):
        graph(24, f"slice_{name}", [conv("x", "w", "a", pads=[1] * 4), "Relu a -> b", node("Concat x b -> k", axis=1), "Slice k from to axes -> r",
                                    conv("b", "v", "c"), "Relu c -> d", "Add d r -> y"], dict(x=x),
              dict(w=w, v=v, **{"from": np.int64([start]), "to": np.int64([end]), "axes": np.int64([1])}), outputs="y k")
    graph(24, "later_concat", [conv("x", "w", "a", pads=[1] * 4), "Relu a -> b", conv("b", "v", "c"), "Add c b -> d", node("Concat d b -> y", axis=1)], dict(x=x), dict(w=w, v=v))
    graph(25, "conv_and_relu", [conv("x", "w", "a", pads=[1] * 4), "Relu x -> b", "Add a b -> y"], dict(x=x), dict(w=w), kernels=1)
    graph(25, "relu_of_both", [conv("x", "w", "a", pads=[1] * 4), "Relu a -> b", "Relu x -> c", "Add b c -> d", "Relu d -> y"], dict(x=x), dict(w=w), kernels=1)
    graph(25, "relu_read_twice", ["Relu x -> r", conv("r", "w", "a", pads=[1] * 4), "Add a r -> b", conv("b", "v", "c"), "Add c r -> y"], dict(x=x), dict(w=w, v=v))
    graph(40, "relu_depthwise_sqrt", [conv("x", "w", "a", pads=[1] * 4, strides=[3, 2]), "Relu a -> b", conv("b", "d", "c", pads=[1] * 4, group=8), "Sqrt c -> y"],
          dict(x=random(1, 5, 13, 12)), dict(w=weights(8, 5, 3), d=np.abs(depthwise(8, 3))))
    graph(40, "sum_relu", [conv("x", "w", "a", pads=[1] * 4), "Add a x -> b", "Relu b -> y"], dict(x=x), dict(w=w), kernels=1)
    p, q = np.abs(random(8, 1, 1)), np.abs(random(8, 1, 1, seed=9))
    for name, nodes in (("between", ["PRelu a p -> b", conv("b", "d", "y", pads=[1] * 4, group=8)]), ("after", [conv("a", "d", "b", pads=[1] * 4, group=8), "PRelu b p -> y"]),
                        ("both", ["PRelu a p -> b", conv("b", "d", "c", pads=[1] * 4, group=8), "PRelu c q -> y"])):
        graph(43, name, [conv("x", "w", "a"), *nodes], dict(x=random(1, 5, 9, 9)), dict(w=weights(8, 5, 1), d=depthwise(8, 3), p=p, **(dict(q=q) if name == "both" else {})))
    graph(55, "two", [conv("x", "w", "a", "b", pads=[1] * 4), conv("a", "v", "y")], dict(x=x), dict(w=w, b=random(6), v=v))
    graph(55, "two_padded", [conv("x", "w", "a", "b", pads=[1] * 4), conv("a", "v", "y", pads=[1] * 4)], dict(x=x), dict(w=w, b=random(6), v=weights(5, 6, 3)))
    graph(55, "bottleneck", [conv("x", "u", "a", "b"), "Relu a -> c", conv("c", "w", "d", pads=[1] * 4), "Relu d -> e", conv("e", "v", "f"), conv("x", "v", "g"), "Add f g -> h", "Relu h -> y"],
          dict(x=x), dict(u=weights(6, 6, 1, seed=7), b=random(6), w=w, v=weights(12, 6, 1)))


def squeeze():
    batches = [dict(x=random(n, 8, 6, 5)) for n in (1, 3)]
    fixed = dict(u=weights(4, 8, 1), v=weights(8, 4, 1), a=random(4), b=random(8), w=weights(6, 8, 1))
    gate = [conv("m", "u", "p", "a"), "Relu p -> q", conv("q", "v", "r", "b"), "HardSigmoid r -> s", "Mul x s -> t", conv("t", "w", "y")]
    graph(36, "pooled", ["GlobalAveragePool x -> m", *gate], batches, fixed, free="x0")
    graph(36, "mean", [node("ReduceMean x -> m", axes=[2, 3], keepdims=1), *gate], batches, fixed, free="x0")
    for k, pads in ((5, [1, 1, 2, 2]), (3, [0, 0, 1, 1])):
        graph(35, f"block_{k}", [conv("x", "e", "a"), "HardSwish a -> b", conv("b", "d", "c", pads=pads, strides=[2, 2], group=24), "GlobalAveragePool c -> m",
                                 conv("m", "u", "p"), "Relu p -> q", conv("q", "v", "r"), "HardSigmoid r -> s", "Mul c s -> t", "HardSwish t -> h", conv("h", "w", "y")],
              dict(x=random(1, 8, 14, 13)), dict(e=weights(24, 8, 1), d=depthwise(24, k), u=weights(6, 24, 1), v=weights(24, 6, 1), w=weights(10, 24, 1)))


# --- eight bits -----------------------------------------------------------------------------------------------------------

def qconv(thread, name, x, w, sx=F(0.02), xz=U8(128), sw=F(0.01), wz=I8(0), sy=F(0.5), yz=U8(100), bias=None, nodes=None, like=None, **attributes):
    fixed = dict(sx=sx, xz=xz, w=w, sw=sw, wz=wz, sy=sy, yz=yz, **({} if bias is None else dict(b=bias)))
    conv_of = lambda zero: node(f"QLinearConv x sx xz w sw {zero} sy yz {'' if bias is None else 'b'} -> y", **attributes)
    graph(thread, name, [conv_of("wz")] if nodes is None else [*nodes, conv_of("z")], dict(x=x), fixed, like=[conv_of("wz")] if nodes else None,
          kernels=2 if 1 < attributes.get("group", 1) < x.shape[1] else 1)


def eight_bits():
    ones = np.full((1, 256, 14, 14), 255, U8)
    qconv(11, "all_at_the_end", ones, np.full((8, 256, 1, 1), 127, I8), xz=U8(0), sy=F(8000))
    qconv(11, "random_ends", byte(1, 256, 14, 14, ends=0.9), byte(8, 256, 1, 1, dtype=I8, ends=0.9), xz=U8(0), sy=F(30))
    qconv(11, "window", ones[:, :64], np.full((4, 64, 3, 3), -128, I8), xz=U8(3), yz=U8(255), sy=F(9000), pads=[1, 1, 1, 1])
    half = byte(1, 4, 6, 6)
    qconv(12, "ties", half, byte(6, 4, 1, 1, dtype=I8), sx=F(0.5), sw=F(0.25), sy=F(16))
    qconv(12, "padding_is_the_zero_point", half, byte(6, 4, 3, 3, dtype=I8), xz=U8(200), pads=[1, 1, 1, 1], bias=np.arange(6, dtype=np.int32) * 1000)
    qconv(12, "negative_ties", half, np.full((2, 4, 1, 1), -1, I8), sx=F(0.5), sw=F(1), sy=F(1), yz=U8(128))
    for name, nodes in (("constant", [node("Constant -> z", value=numpy_helper.from_array(I8(3)))]), ("identity", ["Identity wz -> z"]),
                        ("cast", [node("Constant -> i", value=numpy_helper.from_array(np.int32(3))), node("Cast i -> z", to=3)])):
        qconv(13, f"zero_point_by_{name}", half, byte(6, 4, 3, 3, dtype=I8), wz=I8(3), nodes=nodes)
    for zero in (127, 128):
        qconv(14, f"input_{zero}", half, byte(6, 4, 3, 3, dtype=I8), xz=U8(zero), pads=[1, 1, 0, 0])
        qconv(14, f"weights_{zero}", half, byte(6, 4, 3, 3), wz=U8(zero))
    for g in (2, 4, 8):
        qconv(23, f"groups_{g}", byte(1, 16, 7, 7), byte(24, 16 // g, 3, 3, dtype=I8), sw=scales(24), wz=np.zeros(24, I8), group=g, pads=[1] * 4)
    for c in (3, 16, 17, 33):
        qconv(34, f"channels_{c}", byte(1, c, 8, 9), byte(c, 1, 3, 3, dtype=I8), sw=scales(c), wz=np.zeros(c, I8), group=c, pads=[1] * 4)
    qconv(37, "int8_first", byte(1, 3, 32, 32), byte(32, 3, 3, 3, dtype=I8), pads=[0, 0, 1, 1], strides=[2, 2], bias=np.arange(32, dtype=np.int32))
    qconv(38, "asymmetric", byte(1, 5, 9, 9), byte(7, 5, 3, 3, dtype=I8), xz=U8(30), pads=[0, 2, 1, 0], strides=[2, 1])
    qconv(38, "one_zero_point_for_all", byte(1, 5, 9, 9), byte(7, 5, 3, 3), sw=scales(7), wz=np.full(7, 9, U8), pads=[1, 1, 1, 1])
    qconv(38, "scalar_zero_point", byte(1, 5, 9, 9), byte(7, 5, 3, 3), wz=U8(9), pads=[0, 0, 2, 2])
    qconv(53, "scratch", byte(1, 32, 49, 20), byte(32, 1, 3, 3, dtype=I8), group=32, strides=[2, 2], pads=[0, 0, 1, 1])
    qconv(53, "scratch_dense", byte(1, 32, 49, 20), byte(8, 32, 3, 3, dtype=I8), strides=[2, 2], pads=[1, 0, 0, 1])
    graph(53, "float", [conv("x", "w", "a", group=32, strides=[2, 2], pads=[0, 0, 1, 1]), conv("a", "v", "y")], dict(x=random(1, 32, 49, 20)),
          dict(w=depthwise(32, 3), v=weights(8, 32, 1)))
    # The gate of a squeeze-and-excite: a product of two roundings with zero points of their own. Scales are powers of two, so
    # that no product is a near-tie.
    for name, xz, gz in (("zeros", U8(0), U8(0)), ("both", U8(117), U8(9)), ("middle", U8(128), U8(128))):
        graph(56, f"gate_{name}", ["DequantizeLinear x sx xz -> a", "DequantizeLinear g sg gz -> b", "Mul a b -> c", "QuantizeLinear c sy yz -> y"],
              dict(x=byte(2, 6, 5, 5), g=byte(2, 6, 1, 1)), dict(sx=F(2**-4), xz=xz, sg=F(2**-7), gz=gz, sy=F(2**-3), yz=U8(77)), kernels=1)


# --- defects of the kernels that this planner grew out of ------------------------------------------------------------------

def defects():
    relu = lambda a, b: node(f"Relu {a} -> {b}")

    def pair(name, x, f, k=3, **window):
        """Pointwise, then depthwise."""
        graph(name, "x".join(map(str, x)), [conv("x", "w", "a", "b"), relu("a", "r"), conv("r", "d", "y", group=f, **window)], dict(x=random(*x)),
              dict(w=weights(f, x[1], 1), b=random(f), d=depthwise(f, k)))

    same, behind = dict(pads=[1] * 4), dict(pads=[0, 0, 1, 1], strides=[2, 2])
    block = [conv("x", "w", "a", "b"), "Add a s -> p", conv("p", "e", "c"), relu("c", "r"), conv("r", "d", "q", group=24, **same), conv("q", "v", "z"), "Add z p -> y"]
    graph("d1", "sum_between", block, dict(x=random(1, 16, 14, 14), s=random(1, 4, 14, 14)),
          dict(w=weights(4, 16, 1), b=random(4), e=weights(24, 4, 1), d=depthwise(24, 3), v=weights(4, 24, 1)))
    graph("d1", "read_twice", block[:1] + ["Identity a -> p"] + block[2:], dict(x=random(1, 16, 14, 14)),
          dict(w=weights(4, 16, 1), b=random(4), e=weights(24, 4, 1), d=depthwise(24, 3), v=weights(4, 24, 1)))
    pair("d2", (1, 32, 28, 28), 40, **same)
    for side in (55, 109, 14):
        pair("d3", (1, 5, side, side), 9, **same)
    pair("d3", (1, 5, 113, 113), 9, **behind)
    for c, f, side in ((1024, 1536, 7), (728, 64, 14)):
        nodes = ["QLinearConv x sx xz w sw wz sm mz -> m", node("QLinearConv m sm mz d sd wz sy yz -> y", group=f, **same)]
        graph("d4", f"int8_{c}", nodes, dict(x=byte(1, c, side, side)),
              dict(sx=F(0.02), xz=U8(120), w=byte(f, c, 1, 1, dtype=I8), sw=scales(f), wz=np.zeros(f, I8), sm=F(8), mz=U8(128), d=byte(f, 1, 3, 3, dtype=I8),
                   sd=scales(f, 1), sy=F(6), yz=U8(3)))
    pair("d5", (1, 3, 5, 31), 7, **same)
    pair("d5", (1, 165, 17, 4), 46, **same)
    pair("d6", (3, 6, 12, 10), 10, 5, pads=[3, 0, 2, 4], dilations=[2, 1], strides=[1, 2])
    pair("d7", (1, 6, 109, 109), 8, **behind)
    graph("d7", "strided_pointwise", [conv("x", "w", "y", strides=[2, 2])], dict(x=random(1, 12, 109, 109)), dict(w=weights(20, 12, 1)))


# --- writing --------------------------------------------------------------------------------------------------------------

def results(nodes, outputs, feed, fixed, opset):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = model_of(nodes, outputs, feed, fixed, {}, opset)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def cast(arrays, kind):
    return {k: v.astype(kind) if v.dtype.kind == "f" else v for k, v in arrays.items()}


def write(out, name, nodes, outputs, feeds, fixed, free, opset, kernels, like, tolerance):
    folder = out / name
    for k, feed in enumerate(feeds):
        data = folder / f"test_data_set_{k}"
        data.mkdir(parents=True, exist_ok=True)
        if like is F:
            kind = next(iter(feed.values())).dtype
            wanted = [v.astype(kind) for v in results(nodes, outputs, cast(feed, F), cast(fixed, F), opset)]
        else:
            wanted = results(like or nodes, outputs, feed, fixed, opset)
        for i, (key, value) in enumerate(feed.items()):
            (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value, key).SerializeToString())
        for i, value in enumerate(wanted):
            (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(value, outputs[i]).SerializeToString())
    (folder / "model.onnx").write_bytes(model_of(nodes, outputs, feeds[0], fixed, free, opset).SerializeToString())
    (folder / "tolerance.txt").write_text("{} {}\n".format(*tolerance))
    if kernels:
        (folder / "kernels.txt").write_text(f"{kernels}\n")


def main():
    out = pathlib.Path(sys.argv[1])
    for family in (padding, dilations, groups, behind, squeeze, eight_bits, defects):
        family()
    for g in GRAPHS:
        try:
            write(out, *g)
        except Exception as e:
            sys.exit(f"{g[0]}: {e}")
    print(f"onnxruntime {onnxruntime.__version__}: {len(GRAPHS)} graphs of {len({g[0].split('_')[0] for g in GRAPHS})} threads in {out}")


if __name__ == "__main__":
    main()
