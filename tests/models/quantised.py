"""Quantised models against ONNX Runtime and, through run_quantised, against the evaluator: see README.md.

    python tests/models/quantised.py RUN_QUANTISED

Zoo networks quantised by zoo.quantise at 96 x 96, and a trained MobileNetV2 in int8 where its TensorFlow Lite file is found: the
path in TILEWRIGHT_INT8_MODEL, else shared/data beside the checkout. Outputs are compared in steps of their scale.

ONNX Runtime rounds some exact ties of an Add the other way (it multiplies by quotients of scales), and a network with made-up
weights turns one step into hundreds. So zoo networks are compared rounding by rounding, each on ONNX Runtime's own values of the
roundings before it; the trained network also as a whole.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from cases import ROOT
from compare import tilewright_side
from onnx import numpy_helper

sys.path.insert(0, str(ROOT / "bench"))
import onnxruntime as ort  # noqa: E402
from zoo import quantise, tflite  # noqa: E402
from zoo.builder import images  # noqa: E402

CACHE = ROOT / ".cache" / "zoo"
TRAINED = pathlib.Path(os.environ.get("TILEWRIGHT_INT8_MODEL", ROOT.parent / "shared" / "data" / "mobilenet_v2_int8.tflite"))
RUNS = 16


def models():
    CACHE.mkdir(parents=True, exist_ok=True)
    for name, signed in (("mobilenet_v2", False), ("mobilenet_v2", True), ("mobilenet_v3_large", False)):
        path = CACHE / f"{name}_96_q{'i8' if signed else 'u8'}.onnx"
        if not path.exists():
            onnx.save(quantise.quantise(name, 96, 1, signed), path)
        yield path
    for unsigned in (True, False):
        if TRAINED.exists():
            path = CACHE / f"{TRAINED.stem}_{'u8' if unsigned else 'i8'}.onnx"
            if not path.exists():
                onnx.save(tflite.convert(TRAINED, unsigned=unsigned), path)
            yield path
        else:
            print(f"{TRAINED.name}: not here, left out")


def feeds(model, seed):
    value = model.graph.input[0]
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    rng = np.random.default_rng(100 + seed)
    if value.type.tensor_type.elem_type == onnx.TensorProto.UINT8:
        image = images(rng, 2, dims[1])[seed % 2].transpose(1, 2, 0)[None]
        return {value.name: np.clip(128 + 50 * image, 0, 255).astype(np.uint8)}
    return {value.name: images(rng, 2, dims[2])[seed % 2][None]}


def step_of(model):
    """Of the output: 1, or the scale by which it is dequantised."""
    last = next(n for n in model.graph.node if model.graph.output[0].name in n.output)
    weights = {w.name: w for w in model.graph.initializer}
    return float(numpy_helper.to_array(weights[last.input[1]])) if last.op_type == "DequantizeLinear" else 1.0


def peer(model):
    """ONNX Runtime as it computes such models: in integers, of int8 activations too."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def whole(path):
    """Steps apart, over all outputs and inputs, and how many answers are equal."""
    model = onnx.load(path)
    step, feed = step_of(model), [feeds(model, i) for i in range(RUNS)]
    ours, theirs = tilewright_side(str(path), {}, 2), peer(str(path))
    steps, answers = [], 0
    for f in feed:
        a, b = ours(f)[0].astype(np.float64), theirs(f)[0].astype(np.float64)
        steps.append(np.abs(a - b).ravel() / step)
        answers += int(a.argmax() == b.argmax())
    return np.rint(np.concatenate(steps)), answers


def sources(makers, name):
    """The rounded tensors, or inputs of the graph, that a rounding reads through what lies between."""
    found, open_names = [], list(makers[name].input)
    while open_names:
        at = open_names.pop()
        if at in makers and makers[at].op_type != "QuantizeLinear":
            open_names += makers[at].input
        elif at and at not in found:
            found.append(at)
    return found


def by_rounding(path):
    """Steps apart at every rounding, given their values of those before it."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    makers = {o: n for n in model.graph.node for o in n.output}
    names = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    constants = {w.name for w in model.graph.initializer}
    extractor, inputs = onnx.utils.Extractor(model), [i.name for i in model.graph.input]
    feed = feeds(model, 0)
    values = dict(zip(names, peer(extractor.extract_model(inputs, names).SerializeToString())(feed))) | feed
    steps = []
    for name in names:
        given = [s for s in sources(makers, name) if s not in constants]
        part = extractor.extract_model(given, [name]).SerializeToString()
        have = {g: values[g] for g in given}
        a, b = tilewright_side(part, {}, 1)(have)[0], peer(part)(have)[0]
        steps.append(np.abs(a.astype(int) - b.astype(int)).ravel())
    return np.concatenate(steps), len(names)


def main():
    failed, paths = 0, list(models())
    for path in paths:
        made_up = path.stem.count("_96_") > 0
        steps, count = by_rounding(path) if made_up else whole(path)
        equal, near = np.mean(steps == 0), np.mean(steps <= 1)
        good = near == 1 and equal >= 0.999 if made_up else near >= 0.999 and count == RUNS
        print(f"{path.stem:28s} {steps.size} values: {equal:9.4%} equal, {near:9.4%} within one step, "
              + (f"{count} roundings" if made_up else f"{count} of {RUNS} answers equal") + ("" if good else "  FAILED"), flush=True)
        failed += not good
    failed += subprocess.run([sys.argv[1], *map(str, paths)], check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
