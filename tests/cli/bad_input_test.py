"""Bad files and models, folders that are forbidden, full disks."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

from tool import Case, MLP, ROOT, SCALE, as_nobody, model_of, run


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
