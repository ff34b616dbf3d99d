"""What the tests of the tool share: to run it in a folder of their own, and models for it."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_TOOL", str(ROOT / "build" / "tilewright"))
ATTENTION = str(ROOT / "examples" / "attention.tw")
MLP = str(ROOT / "examples" / "mlp.tw")
SCALE = """program scale(n=2, c=3)
input X[n c] : f32
input k[c] : f32
Y[n c] = X[n c] * k[c]
first[n] : index(c) = argmax[c] Y[n c]
output Y, first
"""
SLOW = """program slow(n=40000, m=2000, k=64)
input X[n k], W[m k] : f32
Y[n] = max[m k] tanh(sin(X[n k] + W[m k]))
output Y
"""


def run(*arguments, timeout=60, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([TOOL, *map(str, arguments)], stderr=subprocess.PIPE, timeout=timeout, text=True, errors="replace",
                          **options)


def write_model(path):
    """A small ONNX model with a free batch; its bytes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    w = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["batch", 8])],
                              [info("y", TensorProto.FLOAT, ["batch", 5])], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model.SerializeToString()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def npy(self, name, array):
        np.save(self.folder / name, array)
        return str(self.folder / name)

    def expect(self, code, *arguments, message="", **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout} {done.stderr}")
        for part in [message] if isinstance(message, str) else message:
            self.assertIn(part, done.stderr)
        if code not in (0, 1, 130):
            self.assertRegex(done.stderr, r"(?m)^error E\d{4}\b")
        return done


def as_nobody():
    """Tests may run as root, to whom no file is forbidden."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    from onnx import helper
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
