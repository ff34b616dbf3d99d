"""The tool as a user meets it: results, exit codes, messages, bad files, full disks, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_TOOL", str(ROOT / "build" / "tilewright"))
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


class Results(Case):
    def test_run_prints_outputs_time_and_the_next_command(self):
        done = self.expect(0, "run", MLP, "--iterations", 2, message=["loaded in", "next: tilewright verify"])
        for part in ("output  P  f32 [16, 10]", "output  label", "argmax", "median of 2 runs"):
            self.assertIn(part, done.stdout)

    def test_run_computes_on_files_and_writes_files(self):
        x, k = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([1, 10, -1])
        model = self.file("scale.tw", SCALE)
        for order in ("C", "F"):
            inputs = ["--input", "X=" + self.npy(f"x{order}.npy", np.asarray(x, order=order)), "--input", "k=" + self.npy("k.npy", k)]
            self.expect(0, "run", model, *inputs, "--output", self.folder / "out")
            np.testing.assert_array_equal(np.load(self.folder / "out" / "Y.npy"), x * k)
            np.testing.assert_array_equal(np.load(self.folder / "out" / "first.npy"), [1, 1])

    def test_sizes_follow_files_and_options(self):
        model = self.file("scale.tw", SCALE.replace("n=2", "n"))
        done = self.expect(0, "run", model, "--input", "X=" + self.npy("x.npy", np.ones((5, 3), np.float32)))
        self.assertIn("[5, 3]", done.stdout)
        self.assertIn("[7, 3]", self.expect(0, "run", model, "--size", "n=7").stdout)
        self.assertIn("[1, 3]", self.expect(0, "run", model, message="size n is free: 1 is taken").stdout)

    def test_rows_that_are_counted(self):
        model = self.file("kept.tw", "program kept(r=3, n=5)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m + 0\n"
                          "Y[r n] = 2 * X[r n]\noutput Y[r found]\n")
        x = np.arange(15, dtype=np.float32).reshape(3, 5)
        for rows in (0, 2, 5):
            inputs = ["--input", "X=" + self.npy("x.npy", x), "--input", "m=" + self.npy("m.npy", np.int64(rows))]
            done = self.expect(0, "run", model, *inputs, "--output", self.folder / "out", "--json", "--iterations", 1)
            self.assertEqual(json.loads(done.stdout)["outputs"][0]["shape"], [3, rows])
            np.testing.assert_array_equal(np.load(self.folder / "out" / "Y.npy"), 2 * x[:, :rows])
            self.expect(0, "verify", model, *inputs, "--bisect")
        bad = ["--input", "m=" + self.npy("m.npy", np.int64(6))]
        self.expect(2, "run", model, *bad, message="found counts 6 of the 5 rows of dim 1")

    def test_types_travel(self):
        for kind, dtype in [("f64", np.float64), ("f16", np.float16), ("i8", np.int8), ("u8", np.uint8), ("i32", np.int32),
                            ("i64", np.int64), ("bool", np.bool_)]:
            model = self.file("copy.tw", f"program copy(n=4)\ninput X[n] : {kind}\nY[n] : {kind} = X[n]\noutput Y\n")
            x = np.array([0, 1, 1, 0]).astype(dtype) if kind == "bool" else np.array([-3, 0, 2, 7]).astype(dtype)
            for array in (x, x.astype(x.dtype.newbyteorder(">"))):
                self.expect(0, "run", model, "--input", "X=" + self.npy("x.npy", array), "--output", self.folder)
                got = np.load(self.folder / "Y.npy")
                self.assertEqual(got.dtype, dtype)
                np.testing.assert_array_equal(got, x)

    def test_pictures_are_resized_and_normalised(self):
        from PIL import Image
        pixels = np.random.default_rng(1).integers(0, 256, (40, 60, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(self.folder / "x.png")
        for layout, dims, axes in (("nchw", "n=1, c=3, h=10, w=20", "n c h w"), ("nhwc", "n=1, h=10, w=20, c=3", "n h w c")):
            model = self.file("copy.tw", f"program copy({dims})\ninput X[{axes}] : f32\nY[{axes}] = X[{axes}]\noutput Y\n")
            self.expect(0, "run", model, "--input", f"X={self.folder}/x.png", "--mean", "0.5,0.4,0.3", "--std", "0.25",
                        "--output", self.folder)
            want = np.asarray(Image.fromarray(pixels).resize((20, 10), Image.BILINEAR), np.float32) / 255
            want = (want - [0.5, 0.4, 0.3]) / 0.25
            got = np.load(self.folder / "Y.npy")[0]
            got = got.transpose(1, 2, 0) if layout == "nchw" else got
            self.assertLess(np.abs(got - want).max(), 0.02)  # Pillow rounds to integers

    def test_random_inputs_depend_on_the_seed_only(self):
        model = self.file("copy.tw", "program copy(n=1000)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n")
        made = []
        for spec in ("random:1", "random:1", "random:2", "random:1:2:3"):
            self.expect(0, "run", model, "--input", "X=" + spec, "--output", self.folder)
            made.append(np.load(self.folder / "Y.npy"))
        np.testing.assert_array_equal(made[0], made[1])
        self.assertFalse(np.array_equal(made[0], made[2]))
        self.assertLess(abs(made[0].mean()), 0.2)
        self.assertLess(abs(made[0].std() - 1), 0.1)
        self.assertTrue((made[3] >= 2).all() and (made[3] <= 3).all())

    def test_plan_by_bytes(self):
        program = self.folder / "two.tw"
        program.write_text("program two(c=8, f=16, y=32, x=32, i=3, j=3)\ninput X[c y x] : f32\nweight W[f c], V[f i j] : f32\n"
                           "Y[f y x] = sum[c] X[c y x] * W[f c]\n"
                           "Z[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]\noutput Z\n")
        def plan(*more):
            return json.loads(self.expect(0, "plan", program, "--threads", 2, "--json", "--objective", "bytes", *more).stdout)
        joined, apart = plan(), plan("--fuse", "off")
        self.assertEqual([k["groups"] for k in joined["kernels"]], [2])
        self.assertEqual(len(apart["kernels"]), 2)
        kernel, cost = joined["kernels"][0], joined["kernels"][0]["cost"]
        self.assertEqual(kernel["together"], cost["loaded"] + cost["stored"])
        self.assertEqual(kernel["apart"], sum(k["cost"]["loaded"] + k["cost"]["stored"] for k in apart["kernels"]))
        self.assertEqual(cost["percent_above_compulsory"],
                         round(100 * (cost["loaded"] + cost["stored"]) / cost["compulsory"] - 100, 1))
        self.assertTrue(joined["search"]["exact"])
        self.expect(0, "verify", program, "--objective", "bytes")
        self.assertIn("2 groups:", self.expect(0, "explain", program, "--objective", "bytes").stdout)
        self.expect(2, "plan", program, "--objective", "speed", message="--objective")

    def test_plan_and_explain(self):
        done = self.expect(0, "plan", MLP, "--fuse", "off", "-o", self.folder / "plan.json", message="next: tilewright explain")
        for part in ("kernels of", "compulsory", "bound", "A1"):
            self.assertIn(part, done.stdout)
        plan = json.loads((self.folder / "plan.json").read_text())
        self.assertEqual(len(plan["kernels"]), plan["totals"]["kernels"])
        self.assertIn("NVIDIA", self.expect(0, "plan", MLP, "--machine", "h200").stdout)
        done = self.expect(0, "explain", MLP, "--kernel", "0")
        for part in ("statements", "axes", "schedule", "loops", "leaves", "may not be", "reduced with sum"):
            self.assertIn(part, done.stdout)
        self.assertIn("passes:", self.expect(0, "explain", MLP).stdout)
        self.expect(2, "explain", MLP, "--kernel", "nothing", message="no kernel is called 'nothing'")
        self.expect(2, "plan", MLP, "--machine", "h2000", message="h200")

    def test_emit(self):
        text = self.expect(0, "emit", MLP).stdout
        for part in ('extern "C" __global__', "// launch:", "sm_90a", "TW_DEVICE"):
            self.assertIn(part, text)
        self.assertEqual(text.count('extern "C" __global__'), text.count("// launch:"))
        self.assertEqual(self.expect(0, "emit", MLP, "--kernel", "0").stdout.count('extern "C" __global__'), 1)
        self.assertIn("sm_80", self.expect(0, "emit", MLP, "--arch", "sm_80").stdout)
        self.expect(2, "emit", MLP, "--arch", "sm_10", message=["--arch", "sm_90a"])
        self.expect(2, "emit", MLP, "--machine", "generic-avx2", message="has no CUDA")
        self.expect(2, "emit", MLP, "--target", "metal", message="--target")
        self.expect(2, "emit", MLP, "--kernel", "nothing", message="no kernel is called 'nothing'")

    def test_verify(self):
        done = self.expect(0, "verify", MLP, message="next: tilewright bench")
        self.assertIn("verified", done.stdout)
        self.assertIn("every pass and every kernel agrees", self.expect(0, "verify", MLP, "--bisect").stdout)
        done = self.expect(1, "verify", MLP, "--tolerance", "1e-12", "--bisect")  # finer than f32: roundings differ
        self.assertRegex(done.stdout, r"bisect  kernel \d+ \(\w+\) stores")
        self.assertIn("NOT verified", self.expect(1, "verify", MLP, "--tolerance", "1e-30").stdout)

    def test_bench(self):
        done = self.expect(0, "bench", MLP, "--warmup", 1, "--iterations", 3)
        for part in ("median", "p99", "measured", "predicted"):
            self.assertIn(part, done.stdout)

    def test_json_is_all_there_is_on_standard_output(self):
        for command in (["run", "--iterations", 2], ["plan"], ["explain"], ["verify"], ["bench", "--iterations", 2]):
            done = self.expect(0, command[0], MLP, *command[1:], "--json")
            self.assertIsInstance(json.loads(done.stdout), dict, command)
            self.assertNotIn("next:", done.stderr)
        self.assertIn("machine", json.loads(self.expect(0, "device", "--json").stdout))
        failed = self.expect(2, "run", "nowhere.onnx", "--json")
        self.assertEqual(json.loads(failed.stdout)["error"]["code"], "E0201")

    def test_quiet_is_quiet(self):
        self.assertEqual(self.expect(0, "run", MLP, "--quiet").stderr, "")

    def test_help_and_version(self):
        self.assertRegex(self.expect(0, "--version").stdout, r"^tilewright \d+\.\d+\.\d+\n$")
        for command in ("run", "plan", "explain", "verify", "bench", "device"):
            self.assertIn("Exit codes", self.expect(0, command, "--help").stdout)


class Peer(Case):
    def setUp(self):
        super().setUp()
        self.model = str(self.folder / "net.onnx")
        self.bytes = write_model(self.model)

    def test_verify_and_bench_against_onnxruntime(self):
        peer = ["--python", sys.executable, "--size", "batch=3"]
        done = self.expect(0, "verify", self.model, "--against", "onnxruntime", *peer)
        self.assertIn("against onnxruntime", done.stdout)
        done = self.expect(0, "bench", self.model, "--vs", "onnxruntime", "--iterations", 5, "--json", *peer)
        self.assertIn("ours_over_peer", json.loads(done.stdout)["peer"])

    def test_bench_against_layer_by_layer(self):
        done = self.expect(0, "bench", MLP, "--vs", "layerwise", "--iterations", 3, "--json")
        peer = json.loads(done.stdout)["peer"]
        self.assertEqual(peer["name"], "layer by layer")
        self.assertEqual(peer["latency_seconds"]["runs"], 3)
        text = self.expect(0, "bench", MLP, "--vs", "layerwise", "--iterations", 2).stdout
        self.assertIn("layer by layer", text)
        self.assertIn("rank correlation", text)

    def test_a_python_that_is_not_there_is_a_missing_tool(self):
        self.expect(4, "verify", self.model, "--against", "onnxruntime", "--python", "/nowhere/python", message="--python")
        self.expect(4, "verify", self.model, "--against", "onnxruntime", "--python", "/bin/true", message="--python")
        self.expect(2, "verify", MLP, "--against", "onnxruntime", message="text programs")

    def test_damaged_models(self):
        for cut in range(0, len(self.bytes), 11):
            done = run("run", self.file("cut.onnx", self.bytes[:cut]), "--iterations", 1)
            self.assertIn(done.returncode, (0, 2, 3), f"{cut}: {done.stderr}")
        random = np.random.default_rng(3)
        for _ in range(20):
            damaged = bytearray(self.bytes)
            for at in random.integers(0, len(damaged), 3):
                damaged[at] = random.integers(0, 256)
            done = run("run", self.file("damaged.onnx", bytes(damaged)), "--iterations", 1, "--size", "batch=2")
            self.assertIn(done.returncode, (0, 2, 3), done.stderr)
        for _ in range(10):
            self.expect(2, "run", self.file("noise.onnx", random.integers(0, 256, 500).astype(np.uint8).tobytes()))

    def test_unsupported_operators_are_listed(self):
        import onnx
        from onnx import TensorProto, helper
        nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["h"], name="first", hidden_size=2),
                 helper.make_node("StringNormalizer", ["x"], ["s"], name="second")]
        info = helper.make_tensor_value_info
        inputs = [info("x", TensorProto.FLOAT, [1, 1, 2]), info("w", TensorProto.FLOAT, [1, 8, 2]), info("r", TensorProto.FLOAT, [1, 8, 2])]
        graph = helper.make_graph(nodes, "g", inputs, [info("h", TensorProto.FLOAT, None), info("s", TensorProto.FLOAT, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.expect(3, "plan", self.file("lstm.onnx", model.SerializeToString()), message=["first", "second", "LSTM"])


class BadInput(Case):
    def test_command_lines(self):
        for line, part in [([], "no command"), (["frobnicate"], "frobnicate"), (["run"], "MODEL"), (["run", MLP, "--frob"], "--frob"),
                           (["run", MLP, "--threads", "x"], "threads"), (["run", MLP, "--iterations", "0"], "iterations"),
                           (["run", MLP, "--size", "n"], "NAME=VALUE"), (["run", MLP, "--size", "n=-1"], "'-1'"),
                           (["run", MLP, "--size", "zz=1"], "zz"), (["run", MLP, "--size", "n=1", "--size", "n=2"], "twice"),
                           (["run", MLP, "--isa", "sse9"], "sse9"), (["run", MLP, "--device", "tpu"], "tpu"), (["run", MLP, "--device", "cuda:x"], "cuda:N"),
                           (["run", MLP, "--without", "magic"], "magic"), (["run", MLP, "--program", "zz"], "zz"),
                           (["run", MLP, "--layout", "hwc"], "layout"), (["run", MLP, "--input", "Q=random"], "Q"),
                           (["run", MLP, "--input", "X=random:a"], "random"), (["run", MLP, "--input", "X=random:1:5:2"], "random"),
                           (["bench", MLP, "--vs", "tensorflow"], "vs"), (["verify", MLP, "--tolerance", "-1"], "tolerance")]:
            self.expect(2, *line, message=part)
        self.expect(4, "run", MLP, "--device", "cuda", message="no CUDA driver", env={**os.environ, "TILEWRIGHT_CUDA": "/nonexistent/libcuda.so"})

    def test_files_that_are_no_models(self):
        self.expect(2, "run", "nowhere.onnx", message="nowhere.onnx")
        self.expect(2, "run", self.folder, message="folder")
        self.expect(2, "run", self.file("empty.onnx", b""), message="empty")
        self.expect(2, "run", self.file("empty.tw", b""))
        self.expect(2, "run", self.file("zeros.onnx", bytes(1000)))
        self.expect(2, "run", self.file("bad.tw", "program p(n)\ninput X[n] : f32\nY[n] = X[q]\noutput Y\n"), message="bad.tw:3:")
        self.expect(2, "run", "/dev/zero", message="device")
        self.expect(2, "run", "")

    def test_sizes_without_a_value(self):
        model = self.file("free.tw", "program p(n, m)\ninput X[n m] : f32\nY[n m] = X[n m]\noutput Y\n")
        self.expect(2, "run", model, message=["m", "--size m=N"])
        self.expect(2, "run", model, "--size", "n=2000000000", "--size", "m=2000000000")

    def test_arrays_that_do_not_fit(self):
        model = self.file("scale.tw", SCALE)
        good = np.ones((2, 3), np.float32)
        header = b"\x93NUMPY\x01\x00"
        whole = Path(self.npy("good.npy", good)).read_bytes()
        forged = lambda text: header + len(text).to_bytes(2, "little") + text
        for content, part in [
                (b"", "no .npy"), (b"\x93NUMPY", "no .npy"), (header + b"\xff\xff{}", "ends inside"), (whole[:-1], "holds 23 bytes"),
                (whole + b"x", "holds 25 bytes"), (whole[:40], "ends inside"), (header[:6] + b"\x09" + whole[7:], "version 9"),
                (forged(b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999999999,), }\n"), "too large"),
                (forged(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000, 4000000000), }\n"), "E0"),
                (forged(b"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,3), }\n"), "fortran_order"),
                (forged(b"{'descr': '<f4', 'shape': (2,3), }\n"), "missing"), (forged(b"__import__('os')"), "malformed"),
                (forged(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,3), }\n"), "records"),
                (forged(b"{'descr': '|O', 'fortran_order': False, 'shape': (2,3), }\n"), "'|O'")]:
            self.expect(2, "run", model, "--input", "X=" + self.file("bad.npy", content), message=part)
        for array, part in [(good.astype(np.float64), "f64"), (good.astype(np.complex64), "c8"), (np.ones((2, 3, 1), np.float32), "[2, 3, 1]"),
                            (np.ones(6, np.float32), "[6]"), (np.array(["a", "b"]), "U1")]:
            self.expect(2, "run", model, "--input", "X=" + self.npy("bad.npy", array), message=part)
        self.expect(2, "run", model, "--input", "X=" + str(self.folder / "none.npy"), message="none.npy")
        self.expect(2, "run", model, "--input", "X=" + str(self.folder), message="folder")
        self.expect(2, "run", model, "--input", "X=random", "--input", "X=random", message="twice")

    def test_pictures_that_do_not_fit(self):
        picture = (ROOT / "tests" / "images" / "word.png").read_bytes()
        model = self.file("copy.tw", "program copy(c=3, h=8, w=8)\ninput X[c h w] : f32\nY[c h w] = X[c h w]\noutput Y\n")
        good = self.file("good.png", picture)
        self.expect(0, "run", model, "--input", "X=" + good)
        self.expect(2, "run", model, "--input", "X=" + good, "--mean", "1,2", message="3 channels")
        self.expect(2, "run", model, "--input", "X=" + good, "--std", "0", message="--std")
        for content in (b"", b"\x89PNG\r\n\x1a\n", picture[:200], picture[:40] + b"\xff" * 60 + picture[100:]):
            self.expect(2, "run", model, "--input", "X=" + self.file("bad.png", content), message="PNG")
        flat = self.file("flat.tw", "program flat(n=7)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n")
        self.expect(2, "run", flat, "--input", "X=" + good, message="does not fit")

    def test_outputs_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            for command in (["run", MLP], ["plan", MLP], ["explain", MLP], ["device"], ["--version"], ["run", MLP, "--json"]):
                self.expect(2, *command, stdout=full, message="standard output")
        self.expect(2, "plan", MLP, "-o", "/dev/full", message="/dev/full")
        self.expect(2, "plan", MLP, "-o", self.folder / "none" / "plan.json")
        self.expect(2, "plan", MLP, "-o", self.folder)
        self.expect(2, "run", MLP, "--output", self.file("file", "x"), message="folder")
        self.expect(2, "run", MLP, "--output", "/proc/nowhere", message="/proc/nowhere")

    def test_a_reader_that_leaves_is_no_mistake(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.expect(0, "explain", MLP, stdout=writer)
        os.close(writer)

    @unittest.skipIf("TILEWRIGHT_SANITIZED" in os.environ, "sanitizers need much address space")
    def test_not_enough_memory_is_told(self):
        model = self.file("big.tw", "program p(n=1000000000)\ninput X[n] : f32\nY[n] = 2 * X[n]\noutput Y\n")
        limit = lambda: __import__("resource").setrlimit(9, (1 << 30, 1 << 30))  # RLIMIT_AS
        self.expect(4, "run", model, message="E0602", preexec_fn=limit)


def as_nobody():
    """Tests may run as root, to whom no file is forbidden."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    from onnx import helper
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class BadModels(Case):
    """Models whose bytes are fine and whose meaning is not."""

    def setUp(self):
        super().setUp()
        from onnx import TensorProto, helper, numpy_helper
        self.type, self.node, self.info, self.array = TensorProto, helper.make_node, helper.make_tensor_value_info, numpy_helper.from_array

    def refuse(self, code, model, message, *arguments):
        return self.expect(code, "run", self.file("bad.onnx", model.SerializeToString()), *arguments, message=message)

    def test_circles(self):
        nodes = [self.node("Add", ["x", "b"], ["a"], name="first"), self.node("Relu", ["a"], ["b"], name="second")]
        self.refuse(2, model_of(nodes, [self.info("x", 1, [2])], [self.info("b", 1, [2])]), ["E0107", "first"])
        nodes = [self.node("Relu", ["y"], ["y"], name="own")]
        self.refuse(2, model_of(nodes, [], [self.info("y", 1, [2])]), "E0")

    def test_names(self):
        nodes = [self.node("Relu", ["nowhere"], ["y"], name="lost")]
        self.refuse(2, model_of(nodes, [self.info("x", 1, [2])], [self.info("y", 1, [2])]), "nowhere")
        nodes = [self.node("Relu", ["x"], ["y"]), self.node("Neg", ["x"], ["y"])]
        self.refuse(2, model_of(nodes, [self.info("x", 1, [2])], [self.info("y", 1, [2])]), "y")
        self.refuse(2, model_of([self.node("Relu", ["x"], ["y"])], [self.info("x", 1, [2])], [self.info("z", 1, [2])]), "z")

    def test_shapes_and_types(self):
        x, y = self.info("x", 1, [2, 3]), self.info("y", 1, None)
        w = self.array(np.ones((4, 5), np.float32), "w")
        self.refuse(2, model_of([self.node("MatMul", ["x", "w"], ["y"], name="product")], [x], [y], [w]), ["product", "3", "4"])
        w = self.array(np.ones((7,), np.float32), "w")
        self.refuse(2, model_of([self.node("Add", ["x", "w"], ["y"], name="sum")], [x], [y], [w]), "sum")
        w = self.array(np.ones((3, 3), np.float64), "w")
        self.refuse(2, model_of([self.node("MatMul", ["x", "w"], ["y"], name="mixed")], [x], [y], [w]), ["mixed", "f64"])
        shape = self.array(np.int64([5, 5]), "s")
        self.refuse(2, model_of([self.node("Reshape", ["x", "s"], ["y"], name="turn")], [x], [y], [shape]), "turn")

    def test_sizes_that_are_zero_or_too_large(self):
        y = self.info("y", 1, None)
        model = model_of([self.node("Relu", ["x"], ["y"])], [self.info("x", 1, [0, 3])], [y])
        done = self.expect(0, "run", self.file("empty.onnx", model.SerializeToString()))
        self.assertIn("[0, 3]", done.stdout)
        w = self.array(np.ones((3, 0), np.float32), "w")
        model = model_of([self.node("MatMul", ["x", "w"], ["h"]), self.node("ReduceSum", ["h"], ["y"])], [self.info("x", 1, [2, 3])], [y], [w])
        self.assertIn("min 0  mean 0  max 0", self.expect(0, "run", self.file("empty.onnx", model.SerializeToString())).stdout)
        for dims in ([2 ** 62, 8], [2 ** 31, 2 ** 31, 2 ** 31], [2 ** 40, 2 ** 40]):
            self.refuse(2, model_of([self.node("Relu", ["x"], ["y"])], [self.info("x", 1, dims)], [y]), "E0")
        w = self.type(name="w", data_type=1, dims=[2 ** 62, 4], raw_data=b"1234")
        self.refuse(2, model_of([self.node("Add", ["x", "w"], ["y"])], [self.info("x", 1, [1])], [y], [w]), "w")
        w = self.type(name="w", data_type=1, dims=[-3], raw_data=b"1234")
        self.refuse(2, model_of([self.node("Add", ["x", "w"], ["y"])], [self.info("x", 1, [1])], [y], [w]), "-3")

    def external(self, **location):
        w = self.type(name="w", data_type=1, dims=[2, 3], data_location=self.type.EXTERNAL)
        for key, value in location.items():
            entry = w.external_data.add()
            entry.key, entry.value = key, str(value)
        return model_of([self.node("Add", ["x", "w"], ["y"])], [self.info("x", 1, [2, 3])], [self.info("y", 1, [2, 3])], [w])

    def test_data_beside_the_model(self):
        outside = tempfile.TemporaryDirectory()
        self.addCleanup(outside.cleanup)
        secret = Path(outside.name) / "secret.bin"
        secret.write_bytes(bytes(24))
        (self.folder / "sub").mkdir()
        for name in ("w.bin", "sub/w.bin"):
            (self.folder / name).write_bytes(np.arange(6, dtype=np.float32).tobytes())
        (self.folder / "link.bin").symlink_to(secret)
        (self.folder / "up").symlink_to(outside.name)
        self.expect(0, "run", self.file("good.onnx", self.external(location="w.bin").SerializeToString()))
        self.expect(0, "run", self.file("good.onnx", self.external(location="sub/w.bin", offset=0, length=24).SerializeToString()))
        for location, part in [({"location": "none.bin"}, "none.bin"), ({"location": "../" + Path(outside.name).name + "/secret.bin"}, "E0203"),
                               ({"location": str(secret)}, "E0203"), ({"location": "link.bin"}, "E0203"), ({"location": "up/secret.bin"}, "E0203"),
                               ({"location": "sub"}, "sub"), ({"location": ""}, "E0"), ({}, "E0"), ({"location": "/dev/zero"}, "E0203"),
                               ({"location": "w.bin", "offset": 4}, "w.bin"), ({"location": "w.bin", "offset": -4}, "E0"),
                               ({"location": "w.bin", "offset": 2 ** 63}, "E0"), ({"location": "w.bin", "length": 23}, "E0"),
                               ({"location": "w.bin", "offset": 2 ** 62, "length": 2 ** 62}, "E0")]:
            self.refuse(2, self.external(**location), part)


class Permission(Case):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.options = {"preexec_fn": as_nobody} if os.getuid() == 0 else {}

    def test_files_that_may_not_be_read_or_written(self):
        model = self.file("scale.tw", SCALE)
        x = self.npy("x.npy", np.ones((2, 3), np.float32))
        self.expect(0, "run", model, "--input", "X=" + x, **self.options)
        os.chmod(x, 0)
        self.expect(2, "run", model, "--input", "X=" + x, message=["x.npy", "Permission denied"], **self.options)
        os.chmod(model, 0)
        self.expect(2, "run", model, message=["E0201", "scale.tw", "Permission denied"], **self.options)
        os.chmod(model, 0o644)
        self.folder.chmod(0o555)
        self.expect(2, "plan", model, "-o", self.folder / "plan.json", message="Permission denied", **self.options)
        self.expect(2, "run", model, "--output", self.folder / "out", message="Permission denied", **self.options)
        self.folder.chmod(0)
        self.expect(2, "run", model, message="Permission denied", **self.options)
        self.folder.chmod(0o755)

    def test_data_beside_the_model_that_may_not_be_read(self):
        model = BadModels("test_circles")
        model.setUp()
        self.addCleanup(model.doCleanups)
        path = self.file("m.onnx", model.external(location="w.bin").SerializeToString())
        os.chmod(self.file("w.bin", bytes(24)), 0)
        self.expect(2, "run", path, message=["w.bin", "Permission denied"], **self.options)

    def test_a_machine_that_cannot_be_remembered(self):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.folder / "sub" / "none"), "HOME": "/nowhere"}
        (self.folder / "sub").mkdir(mode=0o555)
        self.expect(0, "device", "--quiet", env=environment, **self.options)
        self.expect(2, "device", "--calibrate", message=["machine.json", "Permission denied"], env=environment, **self.options)


class FullDisk(Case):
    def test_a_small_file_system(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", disk])
        model = self.file("large.tw", "program large(n=100000)\ninput X[n] : f32\nY[n] = 2 * X[n]\noutput Y\n")
        self.expect(2, "run", model, "--output", disk, message=["Y.npy", "No space left"])
        self.assertEqual(list(disk.iterdir()), [], "nothing half-written stays")
        (disk / "fill").write_bytes(bytes(60000))
        self.expect(2, "plan", MLP, "-o", disk / "plan.json", message="No space left")
        self.assertEqual([p.name for p in disk.iterdir()], ["fill"])


class PlanFile(Case):
    """A plan is written, edited and given back."""

    def setUp(self):
        super().setUp()
        self.path = str(self.folder / "plan.json")
        self.expect(0, "plan", MLP, "--fuse", "off", "-o", self.path)       # which layers a CPU joins depends on it
        self.plan = json.loads(Path(self.path).read_text())

    def edited(self, **changes):
        return self.file("edited.json", json.dumps({**self.plan, **changes}))

    def with_steps(self, *steps):
        first, *rest = self.plan["kernels"]
        return self.edited(kernels=[{**first, "schedule": [{"axis": a, "how": how, "size": size} for how, a, size in steps]}, *rest])

    def test_it_gives_the_same_answer_and_the_same_plan(self):
        outputs = []
        self.expect(0, "plan", MLP, "-o", self.path)
        self.plan = json.loads(Path(self.path).read_text())
        for options in ([], ["--plan", self.path]):
            self.expect(0, "run", MLP, *options, "--output", self.folder / "out", "--iterations", 1)
            outputs.append(np.load(self.folder / "out" / "P.npy"))
        np.testing.assert_array_equal(*outputs)
        again = json.loads(self.expect(0, "plan", MLP, "--plan", self.path, "--json").stdout)
        seconds = again.pop("seconds")
        self.assertEqual(again, self.plan)
        self.assertGreater(seconds["passes"]["views"], 0)
        self.assertLessEqual(sum(seconds["passes"].values()), seconds["normalise"])

    def test_edited_steps_are_honoured(self):
        for steps in ([], [("tile", "n", 3)], [("tile", "a", 5), ("tile", "n", 16)], [("tile", "n", 1), ("stream", "k", 100)]):
            path = self.with_steps(*steps)
            self.expect(0, "verify", MLP, "--plan", path)
            kernel = json.loads(self.expect(0, "plan", MLP, "--plan", path, "--json").stdout)["kernels"][0]
            self.assertEqual([(s["how"], s["axis"], s["size"]) for s in kernel["schedule"]], steps)
            tiles = 1
            for how, axis, size in steps:
                tiles *= -(-{"n": 16, "a": 256}[axis] // size) if how == "tile" else 1
            self.assertEqual(kernel["cost"]["tiles"], tiles)
            self.assertIn(f"tile n {steps[0][2]}" if steps and steps[0][1] == "n" else "", self.expect(0, "explain", MLP, "--plan", path, "--kernel", "0").stdout)

    def test_illegal_steps_are_refused_with_the_place_and_the_reason(self):
        place = "#/kernels/0/schedule/0"
        for steps, parts in [([("tile", "n", 0)], [place, "tile of n is 0, at least 1"]), ([("tile", "n", -2)], ["-2"]),
                             ([("tile", "k", 4)], [place, "k is reduced with sum"]), ([("stream", "n", 4)], ["n is not reduced"]),
                             ([("tile", "n", 4), ("tile", "n", 2)], ["#/kernels/0/schedule/1", "more than one step"]),
                             ([("stream", "k", 4), ("tile", "n", 2)], ["inside a stream"]), ([("tile", "zz", 2)], ["no axis zz", "n, a, k"]),
                             ([("whole", "n", 2)], ["whole", "tile, walk, stream"])]:
            self.expect(2, "run", MLP, "--plan", self.with_steps(*steps), message=parts)

    def test_its_kernels_may_be_regrouped(self):
        layers = self.folder / "layers.json"
        self.expect(0, "plan", MLP, "--fuse", "off", "-o", layers)
        plan = json.loads(layers.read_text())
        first, second, *rest = plan["kernels"]
        both = {**second, "statements": first["statements"] + second["statements"], "schedule": []}
        path = self.file("both.json", json.dumps({**plan, "kernels": [*rest, both]}))     # in any order
        self.expect(0, "verify", MLP, "--plan", path)
        made = json.loads(self.expect(0, "plan", MLP, "--plan", path, "--json").stdout)["kernels"]
        self.assertEqual([k["statements"] for k in made], [both["statements"], *[k["statements"] for k in rest]])
        alone = {**first, "statements": first["statements"][:1]}
        for kernels, parts in [([both, first, *rest], ["stands in a kernel already", "#/kernels/1"]), ([second, *rest], ["no kernel has statement"]),
                               ([{**first, "statements": ["none"]}, second, *rest], ["no statement none"]),
                               ([{**first, "statements": []}, second, *rest], ["#/kernels/0", "no statements"]),
                               ([{**rest[0], "statements": first["statements"][1:] + rest[0]["statements"]}, alone, second, *rest[1:]], ["kernel"])]:
            self.expect(2, "run", MLP, "--plan", self.file("bad.json", json.dumps({**plan, "kernels": kernels})), message=parts)

    def test_plans_of_something_else_are_refused(self):
        kernels = self.plan["kernels"]
        for changes, parts in [({"program": "other"}, ["'other'", "'mlp'"]), ({"machine": "h200"}, ["h200"]), ({"kernels": kernels[1:]}, ["no kernel has statement"]),
                               ({"kernels": kernels + kernels[:1]}, ["stands in a kernel already"]), ({"threads": 0}, ["threads"]), ({"isa": "sse9"}, ["sse9"]),
                               ({"kernels": {}}, ["kernels"])]:
            self.expect(2, "run", MLP, "--plan", self.edited(**changes), message=parts)
        self.expect(2, "run", MLP, "--plan", self.edited(threads=2), "--threads", "3", message=["2 threads", "3 are asked for"])
        for content in (b"", b"{", b"[]", b"{\"kernels\": 1e999}", bytes(100)):
            self.expect(2, "run", MLP, "--plan", self.file("noise.json", content), message="noise.json")
        self.expect(2, "run", MLP, "--plan", self.folder / "none.json", message="none.json")
        self.expect(2, "run", MLP, "--plan", self.folder, message="folder")


class Derive(Case):
    def derived(self, example, *sizes):
        path = ROOT / "examples" / f"{example}.tw"
        sizes = [word for size in sizes for word in ("--size", size)]
        text = self.expect(0, "derive", path, *sizes, message="next: tilewright plan").stdout
        return text, json.loads(self.expect(0, "derive", path, *sizes, "--json").stdout)

    def test_derive_prints_state_init_step_finish_and_merge(self):
        text, found = self.derived("attention")
        for part in ("stream over x", "state ", "init ", "step ", "finish ", "merge ", "exp(a.P_max"):
            self.assertIn(part, text)
        (stream,) = found["streams"]
        self.assertEqual(stream["axis"], "x")
        self.assertEqual([s["anchor"] for s in stream["state"]], ["none", "running", "running"])
        for key in ("init", "step", "finish", "merge"):
            self.assertTrue(stream[key], key)
        self.assertEqual(found["refused"], [])

    def test_derive_finds_means_and_labels(self):
        _, norm = self.derived("layernorm_linear")
        self.assertIn("chunk", [s["anchor"] for s in norm["streams"][0]["state"]])
        _, entropy = self.derived("linear_cross_entropy")
        self.assertEqual(len(entropy["streams"][0]["state"]), 3)

    def test_derive_names_the_term_that_blocks(self):
        bad = self.file("bad.tw", "program p(q=4, x=8)\ninput S[q x] : f32\nm[q] = max[x] S[q x]\nO[q] = sum[x] tanh(S[q x] - m[q])\noutput O\n")
        self.assertIn("tanh(S[q x] - m[q]) applies tanh to an element and a statistic together", self.expect(0, "derive", bad).stdout)

    def test_derive_tells_moves_and_models(self):
        text, found = self.derived("attention", "h=8", "d=128")
        for part in ("moves:", "tile h, q:", "best tiles for a memory", "beta = 1", "bound by", "pseudo-code", "multiples, with their causes",
                     "warpgroups that fit", "clocks a row and turn", "tiles of rows and chunk"):
            self.assertIn(part, text)
        self.assertEqual([m["name"] for m in found["moves"]], ["start", "factors", "one kernel", "stream x", "tile h, q"])
        self.assertTrue(all(m["difference"] < 1e-9 for m in found["moves"]))
        self.assertEqual(found["machine"], "h100")
        (kernel,) = found["kernels"]
        self.assertEqual(kernel["closed_form"][0]["terms"][1]["beta"], 1)

    def test_derive_for_another_machine(self):
        path = ROOT / "examples" / "matmul.tw"
        self.assertIn("on generic-avx2", self.expect(0, "derive", path, "--machine", "generic-avx2").stdout)
        self.expect(2, "derive", path, "--machine", "nowhere", message=["E0302", "nowhere"])

    def test_derive_draws(self):
        folder = self.folder / "pictures"
        self.expect(0, "derive", ROOT / "examples" / "attention.tw", "--size", "d=128", "--svg", folder, message="drawn")
        files = sorted(f.name for f in folder.iterdir())
        self.assertEqual(files, ["1-start.svg", "2-factors.svg", "3-one-kernel.svg", "4-stream-x.svg", "5-tile-h-q.svg", "pipeline-O.svg"])
        for f in folder.iterdir():
            self.assertTrue(xml.etree.ElementTree.parse(f).getroot().tag.endswith("svg"))
        blocked = self.file("a file", "")
        self.expect(2, "derive", ROOT / "examples" / "attention.tw", "--svg", blocked, message=["E0201", "cannot be written"])

    def test_bad_programs_are_told_with_their_place(self):
        for text, where, what in (
            ("program p(q)\ninput X[q] : f32\nY[q] = Z[q]\noutput Y\n", "3:8", "Z"),
            ("program p(q, x=4)\ninput X[q x] : f32\nY[q] = sum[x] X[q]\noutput Y\n", "3:15", "X"),
            ("program p(q=4)\ninput X[q] : f32\nY[q] = X[q + 1]\noutput Y\n", "3:8", "X"),
            ("program p(q=4)\ninput X[q] : f99\noutput X\n", "2:14", "f99"),
            ("program p(q=4)\ninput X[q] : f32\nY[q] = sum[q X[q]\noutput Y\n", "3:", "]"),
        ):
            bad = self.file("bad.tw", text)
            done = self.expect(2, "derive", bad, message=[f"bad.tw:{where}", what])
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("error "), 1, done.stderr)


PAIR = """program pair(c=24, f=96, y=28, x=28, i=3, j=3)
input X[c y x] : f32
weight W[f c], V[f i j] : f32
Y[f y x] = sum[c] X[c y x] * W[f c]
Z[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]
output Z
"""


class PlanRules(Case):
    def plan(self, *words):
        model = self.file("pair.tw", PAIR)
        return json.loads(self.expect(0, "plan", model, "--machine", "gtx1660", "--json", *words).stdout)

    def test_the_papers_rules_and_equations(self):
        own = self.plan("--objective", "bytes")
        paper = self.plan("--objective", "bytes", "--constraints", "paper", "--cost", "paper")
        self.assertEqual(own["unit_of_prices"], "bytes")
        apart = self.plan("--objective", "bytes", "--constraints", "paper", "--joined", "1")
        self.assertEqual(len(apart["kernels"]), 2)
        for kernel in own["kernels"] + paper["kernels"] + apart["kernels"]:
            cost = kernel["cost"]
            self.assertEqual(cost["loaded"] + cost["stored"], sum(t["bytes"] for t in cost["transfers"]))
            self.assertGreaterEqual(cost["loaded"] + cost["stored"], cost["compulsory"])
        joined = [k for k in paper["kernels"] if k["groups"] == 2]
        for kernel in joined:   # the price is the equations', which the exact bytes are not
            self.assertLess(kernel["together"], kernel["apart"])

    def test_a_limit_on_what_is_computed_again(self):
        never = self.plan("--objective", "bytes", "--redundancy", "0")
        for kernel in never["kernels"]:
            for other in kernel["not_chosen"]:
                self.assertGreater(other["apart"], 0)
                self.assertTrue(other["rule"])

    def test_paper_counts_bytes(self):
        model = self.file("pair.tw", PAIR)
        self.expect(2, "plan", model, "--cost", "paper", message=["--cost", "--objective bytes"])
        self.expect(2, "plan", model, "--constraints", "paper", message=["--constraints", "--objective bytes"])
        self.expect(2, "plan", model, "--joined", "0", message=["--joined"])


class Cache(Case):
    def setUp(self):
        super().setUp()
        self.kept = self.folder / "kept"
        (self.kept / "kernels").mkdir(parents=True)
        for name, size in (("b.cubin", 300), ("a.cubin", 20)):
            (self.kept / "kernels" / name).write_bytes(b"x" * size)
        self.mine = [self.kept / "letter.txt", self.kept / "kernels" / "thesis.txt"]
        for path in self.mine:
            path.write_text("mine")
        (self.kept / "kernels" / "link.cubin").symlink_to(self.mine[0])

    def cache(self, *words, **environment):
        environment = environment or {"TILEWRIGHT_CACHE_DIR": str(self.kept)}
        kept = {k: v for k, v in os.environ.items() if k not in ("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
        return run("cache", *words, env={**kept, **environment})

    def test_what_is_kept_is_listed(self):
        listed = json.loads(self.cache("ls", "--json").stdout)
        self.assertEqual(listed["folder"], str(self.kept))
        self.assertEqual([(e["kind"], Path(e["file"]).name, e["bytes"]) for e in listed["entries"]],
                         [("kernels", "a.cubin", 20), ("kernels", "b.cubin", 300)])
        self.assertIn("b.cubin", self.cache("ls").stdout)
        self.assertEqual(json.loads(self.cache("stat", "--json").stdout)["kinds"], {"kernels": {"entries": 2, "bytes": 320}})
        self.assertIn("kernels: 2 files, 320 B", self.cache("stat").stdout)

    def test_clear_removes_what_is_ours_and_nothing_else(self):
        self.assertEqual(self.cache("clear").stdout, "2 files removed\n")
        self.assertEqual(json.loads(self.cache("ls", "--json").stdout)["entries"], [])
        self.assertEqual(self.cache("ls").stdout, "nothing is kept\n")
        for path in self.mine:
            self.assertEqual(path.read_text(), "mine")
        self.assertEqual(json.loads(self.cache("clear", "--json").stdout)["removed"], 0)

    def test_the_folder_follows_the_environment(self):
        def folder(**environment):
            return json.loads(self.cache("stat", "--json", **environment).stdout)["folder"]
        self.assertEqual(folder(XDG_CACHE_HOME="/x", HOME="/h"), "/x/tilewright")
        self.assertEqual(folder(HOME="/h"), "/h/.cache/tilewright")
        self.assertEqual(folder(TILEWRIGHT_CACHE_DIR="/t", XDG_CACHE_HOME="/x"), "/t")
        self.assertEqual(folder(PATH=os.environ["PATH"]), "")

    def test_other_words_are_refused(self):
        self.assertEqual(self.cache("burn").returncode, 2)
        self.assertEqual(self.cache().returncode, 2)


class NotInThisVersion(Case):
    def test_commands_of_later_versions_say_so(self):
        for command in ("report",):
            self.expect(3, command, MLP, message=["E0401", command, "not in this version"])
            self.assertNotIn(f"\n  {command} ", self.expect(0, "--help").stdout)


class Interrupt(Case):
    def interrupt(self, *arguments, after=1.0, **options):
        child = subprocess.Popen([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        time.sleep(after)
        self.assertIsNone(child.poll(), "still running")
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
        return child.returncode, errors, time.monotonic() - start

    def test_one_large_tile_does_not_delay_it(self):
        model, plan = self.file("slow.tw", SLOW), self.folder / "plan.json"
        self.expect(0, "plan", model, "-o", plan)
        whole = json.loads(plan.read_text())
        for kernel in whole["kernels"]:
            kernel["schedule"] = []
        plan.write_text(json.dumps(whole))
        for command in (["run"], ["bench"], ["verify"]):
            code, errors, seconds = self.interrupt(*command, model, "--plan", str(plan))
            self.assertEqual(code, 130, errors)
            self.assertIn("interrupted", errors)
            self.assertLess(seconds, 2)

    def test_while_it_reads_and_plans(self):
        import onnx
        from onnx import helper
        nodes = [helper.make_node(("Relu", "Neg", "Exp")[i % 3], [f"t{i}"], [f"t{i + 1}"]) for i in range(6000)]
        model = str(self.folder / "long.onnx")
        onnx.save(model_of(nodes, [helper.make_tensor_value_info("t0", 1, [2])], [helper.make_tensor_value_info("t6000", 1, [2])]), model)
        ended = set()
        for after in (0.01, 0.03, 0.06, 0.1, 0.2, 0.4):
            child = subprocess.Popen([TOOL, "plan", model, "-o", str(self.folder / "plan.json")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(after)
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=30)
            ended.add(child.returncode)
            self.assertIn(child.returncode, (0, 130, -signal.SIGINT), errors)  # the last: before the tool has begun
        self.assertIn(130, ended)
        self.assertLessEqual({p.name for p in self.folder.iterdir()}, {"long.onnx", "plan.json"})

    def test_ctrl_c_ends_a_long_run(self):
        model = self.file("slow.tw", SLOW)
        for command in (["run", "--iterations", "1000"], ["bench", "--iterations", "1000"], ["verify"], ["verify", "--bisect"]):
            code, errors, seconds = self.interrupt(command[0], model, *command[1:])
            self.assertEqual(code, 130, errors)
            self.assertIn("interrupted", errors)
            self.assertLess(seconds, 2)

    def test_ctrl_c_while_a_peer_works_leaves_nothing_behind(self):
        model = str(self.folder / "net.onnx")
        write_model(model)
        (self.folder / "tmp").mkdir()
        for after in (0.2, 1.5):  # while it starts, while it runs
            code, errors, seconds = self.interrupt("bench", model, "--vs", "onnxruntime", "--python", sys.executable,
                                                   "--iterations", "100000000", after=after,
                                                   env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
            self.assertEqual(code, 130, errors)
            self.assertLess(seconds, 10)
            self.assertEqual(list((self.folder / "tmp").glob("tilewright-*")), [])


SPARSE = """program product(m=64, k=80, n=96)
input A[m k] : f32
input M[m] : bool
input B[k n] : f32
C[m n] = sum[k] A[m k] * B[k n]
H[m n] = max(C[m n], 0)
Y[m k] = sum[n] H[m n] * B[k n]
output Y
"""


class Sparse(Case):
    def test_tensors_are_said_to_be_sparse(self):
        model = self.file("sparse.tw", SPARSE)
        for option, line in (("A=zeros:8x1@0.05", "A at 5 % live: "), ("A=mask:M", "gathered (whole rows)"), ("auto", "H at 10 % live: ")):
            got = run("explain", model, "--sparse", option)
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertIn(line, got.stdout)
        [kernel] = [k for k in json.loads(run("plan", model, "--sparse", "A=zeros:8x1@0.05", "--json").stdout)["kernels"] if k.get("gathered")]
        self.assertEqual(kernel["gathered"][0]["along"], "along k")
        self.assertLess(kernel["gathered"][0]["seconds"], kernel["gathered"][0]["dense_seconds"])
        got = run("explain", model, "--sparse", "A=zeros", "--strict-ieee")
        self.assertIn("A not gathered: another operand may be infinite or no number", got.stdout)
        got = run("bench", model, "--sparse", "A=zeros:8x1", "--iterations", 3)
        self.assertIn("A: plain, 100 % live", got.stdout)
        self.assertEqual(run("verify", model, "--sparse", "A=zeros:4x1", "--sparse", "auto").returncode, 0)

    def test_refusals(self):
        model = self.file("sparse.tw", SPARSE)
        for option in ("A", "A=", "A=some", "A=zeros:0x1", "A=zeros@7", "Q=zeros", "A=mask:Q", "A=lengths:M", "=zeros"):
            got = run("plan", model, "--sparse", option)
            self.assertEqual(got.returncode, 2, option + got.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
