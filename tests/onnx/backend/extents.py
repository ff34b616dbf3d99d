"""Writes graphs whose extents are known only at run time, as folders that run_node_tests reads; outputs are ONNX Runtime's.

    extents.py OUT      ->   OUT/tail_some/{model.onnx, tolerance.txt, test_data_set_*/{input_0.pb, output_0.pb}}

Each operator that selects as many elements as its inputs say, and what may follow it; inputs that select none and all. And
resizing from and to free sizes.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

CASES = []


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def boxes(samples, count, seed=0, centred=False):
    rng = np.random.default_rng(seed)
    corner, extent = rng.random((samples, count, 2)) * 10, rng.random((samples, count, 2)) * 5 + 0.5
    second = extent if centred else corner + extent
    both = np.concatenate([corner, second], -1).astype(np.float32)
    if not centred:
        both[:, ::3] = both[:, ::3, [2, 1, 0, 3]]  # any two opposite corners
    return both


def scores(samples, classes, count, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 40, (samples, classes, count)) / 40).astype(np.float32)  # with equal ones


def node(text, **attributes):
    """Op a b -> y z"""
    left, right = text.split("->")
    op, *inputs = left.split()
    names = lambda words: ["" if w == "-" else w for w in words]
    return helper.make_node(op, names(inputs), names(right.split()), **attributes)


def graph(name, nodes, outputs, *feeds, fixed=None, free="", opset=17):
    """Feeds: one dict of inputs a data set. free: dims that are free, each its own size: "x" all of x, "x01" the first two."""
    CASES.append((name, nodes, outputs.split(), feeds, fixed or {}, {f[0]: f[1:] or "0123" for f in free.split()}, opset))


def ints(*values):
    return np.array(values, np.int64)


def suppression():
    nms = "NonMaxSuppression b s n o t -> y"
    for centred in (0, 1):
        feeds = [dict(b=boxes(2, 12, 5, centred), s=scores(2, 3, 12), n=ints(n), o=np.float32(o), t=np.float32(t))
                 for n, o, t in ((3, 0.5, 0.3), (100, 0.2, 0.0), (0, 0.5, 0.3), (5, 0.5, 2.0), (12, 1.0, -1.0))]
        for feed in feeds:
            feed["o"], feed["t"] = feed["o"].reshape(1), feed["t"].reshape(1)
        graph(f"nms_centred{centred}", [node(nms, center_point_box=centred)], "y", *feeds)
        graph(f"nms_free{centred}", [node(nms, center_point_box=centred)], "y", *feeds, free="b01 s")
    some = dict(b=boxes(1, 20), s=scores(1, 2, 20))
    for n in (0, 1, 4, 2**40, -3):
        graph(f"nms_at_most{n}", [node("NonMaxSuppression b s n -> y")], "y", some, fixed=dict(n=ints(n)))
    graph("nms_one", [node("NonMaxSuppression b s n -> y"), node("Cast y -> z", to=6), node("Shape y -> l"), node("Size y -> k")],
          "z l k", dict(b=boxes(1, 6), s=scores(1, 1, 6)), fixed=dict(n=ints(1)))
    graph("nms_default", [node("NonMaxSuppression b s -> y")], "y", some)
    graph("nms_opset10", [node("NonMaxSuppression b s n - t -> y")], "y", some, fixed=dict(n=ints(9), t=np.float32([0.5])), opset=10)


def detector():
    """Boxes -> suppression -> a gather of columns -> gathers of boxes, labels and scores."""
    tail = [node("NonMaxSuppression b s n o t -> y"),
            node("Gather y two -> at", axis=1), node("Squeeze at one -> rows"),
            node("Gather y ones -> labels", axis=1),
            node("Squeeze b zero -> plain"), node("Gather plain rows -> kept", axis=0),
            node("GatherND s y -> p"), node("Unsqueeze p one -> column"),
            node("Cast labels -> real", to=1),
            node("Concat kept column real -> found", axis=1),
            node("Mul kept scale -> pixels"), node("Cast pixels -> whole", to=6),
            node("Sub y y -> none")]
    fixed = dict(two=ints(2), ones=ints(1), one=ints(1), zero=ints(0), scale=np.float32([640, 480, 640, 480]))
    feeds = {}
    for name, o, t in (("some", 0.4, 0.5), ("none", 0.4, 1.0), ("all", 1.0, -1.0)):
        feeds[name] = dict(b=boxes(1, 15), s=scores(1, 4, 15), o=np.float32([o]), t=np.float32([t]))
    for name, feed in feeds.items():
        graph(f"tail_{name}", tail, "found rows labels whole p none", feed, fixed=dict(fixed, n=ints(10)))
    graph("tail_sets", tail, "found whole", *feeds.values(), fixed=dict(fixed, n=ints(10)))
    graph("tail_free", tail, "found whole y", *feeds.values(), fixed=dict(fixed, n=ints(10)), free="b1 s12")
    graph("tail_nothing", tail, "found rows", feeds["all"], fixed=dict(fixed, n=ints(0)))


def nonzero():
    x = random(4, 5) * (random(4, 5, seed=3) > 0)
    none, every = np.zeros_like(x), np.ones_like(x)
    sets = [dict(x=v) for v in (x, none, every)]
    graph("nonzero", [node("NonZero x -> y")], "y", *sets)
    graph("nonzero_free", [node("NonZero x -> y")], "y", *sets, free="x")
    graph("nonzero_values", [node("NonZero x -> y"), node("Transpose y -> t", perm=[1, 0]), node("GatherND x t -> v"),
                             node("Relu v -> r"), node("Shape t -> l")], "t v r l", *sets)
    graph("nonzero_rows", [node("NonZero x -> y"), node("Split y -> a b", axis=0), node("Squeeze b zero -> c"),
                           node("Gather x c -> v", axis=1), node("Softmax v -> w", axis=0), node("ArgMax v -> m", axis=0)],
          "a w m", *sets, fixed=dict(zero=ints(0)))
    for kind in (np.bool_, np.int64, np.float16, np.int32):
        graph(f"nonzero_{kind.__name__}", [node("NonZero x -> y")], "y", dict(x=np.array([0, 1, 0, 3, 0]).astype(kind)))
    graph("nonzero_of_constant", [node("ConstantOfShape n -> c", value=numpy_helper.from_array(ints(1))), node("NonZero c -> y"),
                                  node("Squeeze y zero -> r"), node("Add r x -> z")], "z", dict(x=ints(5, 6, 7)),
          fixed=dict(n=ints(3), zero=ints(0)))
    # Rows past the count would divide by zero, or read out of range: they must not be computed.
    graph("nonzero_far", [node("NonZero x -> y"), node("Squeeze y zero -> r"), node("Sub r five -> s"), node("Gather table s -> g"),
                          node("Div hundred r -> q")], "g q",
          dict(x=np.float32([0, 0, 0, 0, 0, 1, 0, 1])), dict(x=np.zeros(8, np.float32)),
          fixed=dict(zero=ints(0), five=ints(5), table=random(3, 2), hundred=ints(100)))


def compress():
    x = random(4, 5, 3)
    for axis in (None, 0, 1, 2, -1):
        attributes = {} if axis is None else dict(axis=axis)
        n = 60 if axis is None else (4, 5, 3)[axis]
        masks = [np.arange(n) % 3 == 1, np.zeros(n, bool), np.ones(n, bool), np.arange(n - 1) % 2 == 0]
        for i, mask in enumerate(masks):
            graph(f"compress_{axis}_{i}", [node("Compress x c -> y", **attributes)], "y", dict(x=x, c=mask))
    for i, mask in enumerate(([1, 0, 1, 1], [0, 0, 0])):
        graph(f"compress_known_{i}", [node("Compress x c -> y", axis=0), node("Concat y x -> z", axis=0)], "z", dict(x=x), fixed=dict(c=np.array(mask, bool)))
    chain = [node("Compress x c -> y", axis=0), node("MatMul y w -> m"), node("Softmax m -> p", axis=-1), node("ArgMax m -> a", axis=-1, keepdims=0),
             node("ReduceSum p last -> s", keepdims=1), node("Concat m s -> j", axis=-1), node("Transpose j -> t", perm=[2, 0, 1]),
             node("Reshape y flat -> f"), node("Pad f pads -> g"), node("TopK m k -> v i", axis=-1), node("LayerNormalization m u -> o")]
    fixed = dict(w=random(3, 6, seed=8), last=ints(-1), flat=ints(-1, 15), pads=ints(0, 1, 0, 2), k=ints(2), u=random(6, seed=9))
    masks = [np.array(m) for m in ([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1])]
    graph("compress_chain", chain, "p a t g v i o", *[dict(x=x, c=m.astype(bool)) for m in masks], fixed=fixed)
    images = [node("Compress x c -> y", axis=0), node("Conv y w -> z", pads=[1, 1, 1, 1]), node("MaxPool z -> p", kernel_shape=[2, 2], strides=[2, 2]),
              node("GlobalAveragePool p -> g"), node("Flatten g -> f")]
    graph("compress_images", images, "p f", *[dict(x=random(4, 2, 6, 6), c=m.astype(bool)) for m in masks], fixed=dict(w=random(3, 2, 3, 3)))


def unique():
    x = np.float32([2, 1, 1, 3, 4, 3, -0.5, 2])
    for ordered in (0, 1):
        graph(f"unique_{ordered}", [node("Unique x -> y i r c", sorted=ordered)], "y i r c", dict(x=x), dict(x=np.ones(8, np.float32)))
        rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 9, 9]], np.int64)
        for axis in (0, 1, -1):
            graph(f"unique_{ordered}_axis{axis}", [node("Unique x -> y i r c", sorted=ordered, axis=axis)], "y i r c", dict(x=rows))
    graph("unique_values", [node("Unique x -> y"), node("Mul y y -> z")], "z", dict(x=x), free="x")
    graph("unique_inverse", [node("Unique x -> y - r"), node("Cast r -> f", to=1), node("ReduceSum f -> s", keepdims=0)], "s", dict(x=x))


def top():
    sets = [dict(x=random(3, 7), k=ints(k)) for k in (0, 1, 4, 7)]
    for largest in (0, 1):
        graph(f"top_{largest}", [node("TopK x k -> v i", axis=1, largest=largest), node("Neg v -> n")], "n i", *sets)
    graph("top_rows", [node("TopK x k -> v i", axis=0), node("Relu v -> r")], "r i", *[dict(x=random(7, 3), k=ints(k)) for k in (0, 1, 5)],
          free="x")


def resize():
    sets = [dict(x=random(1, 2, h, w)) for h, w in ((5, 7), (1, 2), (8, 3), (10, 30))]
    modes = [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
             ("half_pixel_symmetric", "round_prefer_floor"), ("align_corners", "floor")]
    for coordinate, nearest in modes:
        for i, scales in enumerate(([1, 1, 2, 2], [1, 1, 3, 4], [1, 1, 1.5, 2.5], [1, 1, 0.5, 0.75])):
            if (i > 1 and coordinate in ("align_corners", "half_pixel_symmetric")) or (i == 3 and coordinate != "asymmetric"):
                continue
            feeds = [f for f in sets if min(f["x"].shape[2:]) * min(scales[2:]) >= 1]
            graph(f"resize_{coordinate}_{nearest}_{i}", [node("Resize x - s -> y", coordinate_transformation_mode=coordinate, nearest_mode=nearest)],
                  "y", *feeds, fixed=dict(s=np.float32(scales)), free="x")
        # To the sizes of another input, as a pyramid's levels are.
        pairs = [dict(f, z=random(1, 3, *s)) for f, s in zip(sets, ((9, 15), (4, 4), (3, 2), (25, 31)))]
        to = [node("Shape x -> a"), node("Shape z -> b"), node("Slice a zero two -> c"), node("Slice b two four -> d"),
              node("Concat c d -> e", axis=0),
              node("Resize x - - e -> y", coordinate_transformation_mode=coordinate, nearest_mode=nearest), node("Concat y z -> k", axis=1)]
        if coordinate != "align_corners":
            graph(f"resize_to_{coordinate}_{nearest}", to, "k", *pairs, fixed=dict(zero=ints(0), two=ints(2), four=ints(4)), free="x23 z23")
    for coordinate in ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"):
        graph(f"linear_{coordinate}", [node("Resize x - s -> y", coordinate_transformation_mode=coordinate, mode="linear")], "y", *sets,
              fixed=dict(s=np.float32([1, 1, 2, 3])), free="x")
        if coordinate != "align_corners":
            pairs = [dict(f, z=random(1, 3, *s)) for f, s in zip(sets, ((9, 15), (4, 4), (3, 2), (25, 31)))]
            graph(f"linear_to_{coordinate}", to[:5] + [node("Resize x - - e -> y", coordinate_transformation_mode=coordinate, mode="linear")], "y",
                  *pairs, fixed=dict(zero=ints(0), two=ints(2), four=ints(4)), free="x z")
    graph("upsample", [node("Upsample x s -> y", mode="nearest")], "y", *sets, fixed=dict(s=np.float32([1, 1, 2, 3])), free="x", opset=9)


def model_of(nodes, outputs, feed, fixed, free, opset):
    infos = []
    for name, v in feed.items():
        dims = [f"{name}{d}" if str(d) in free.get(name, "") else extent for d, extent in enumerate(np.shape(v))]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), dims))
    initializers = [numpy_helper.from_array(np.asarray(v), name) for name, v in fixed.items()]
    g = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs], initializers)
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(out, name, nodes, outputs, feeds, fixed, free, opset):
    model = model_of(nodes, outputs, feeds[0], fixed, free, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for k, feed in enumerate(feeds):
        data = out / name / f"test_data_set_{k}"
        data.mkdir(parents=True, exist_ok=True)
        for i, (key, value) in enumerate(feed.items()):
            (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value), key).SerializeToString())
        for i, value in enumerate(session.run(None, feed)):
            (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value), outputs[i]).SerializeToString())
    (out / name / "model.onnx").write_bytes(model.SerializeToString())
    # ONNX Runtime's shares of a linear resize come from coordinates in f32.
    (out / name / "tolerance.txt").write_text("1e-5 1e-5\n" if name.startswith("linear") else "1e-5 1e-6\n")


def main():
    out = pathlib.Path(sys.argv[1])
    for family in (suppression, detector, nonzero, compress, unique, top, resize):
        family()
    for c in CASES:
        try:
            write(out, *c)
        except Exception as e:
            sys.exit(f"{c[0]}: {e}")
    print(f"onnxruntime {onnxruntime.__version__}: {len(CASES)} graphs in {out}")


if __name__ == "__main__":
    main()
