"""Quantised models against ONNX Runtime and, through run_quantised, against the evaluator: see README.md.

    python tests/models/quantised.py RUN_QUANTISED

Zoo networks quantised by zoo.quantise at 96 x 96, and a trained MobileNetV2 in int8 where its TensorFlow Lite file is found: the
path in TILEWRIGHT_INT8_MODEL, else shared/data beside the checkout. Outputs are compared in steps of their scale.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from cases import ROOT
from compare import onnxruntime_side, tilewright_side
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


def compare(path):
    """Steps apart, over all outputs and inputs; whether integers meet integers: with int8 activations ONNX Runtime computes in floats."""
    model = onnx.load(path)
    step, feed = step_of(model), [feeds(model, i) for i in range(RUNS)]
    ours = tilewright_side(str(path), {}, 2)
    theirs = onnxruntime_side(str(path), ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    steps, answers = [], 0
    for f in feed:
        a, b = ours(f)[0].astype(np.float64), theirs(f)[0].astype(np.float64)
        steps.append(np.abs(a - b).ravel() / step)
        answers += int(a.argmax() == b.argmax())
    return np.rint(np.concatenate(steps)), answers


def main():
    failed, paths = 0, list(models())
    for path in paths:
        steps, answers = compare(path)
        near = float(np.mean(steps <= 1))
        good = near >= 0.999 or path.stem.endswith("i8") and near >= 0.99
        print(f"{path.stem:28s} {steps.size} outputs: {np.mean(steps == 0):8.3%} equal, {near:8.3%} within one step, {answers} of {RUNS} answers equal"
              + ("" if good else "  FAILED"), flush=True)
        failed += not good
    failed += subprocess.run([sys.argv[1], *map(str, paths)], check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
