"""What the tool prints, writes and compares, and what it says of bad command lines."""

import json
import sys

import numpy as np

from tool import Case, ATTENTION, MLP, SCALE, run, write_model

PAIR = """program pair(c=24, f=96, y=28, x=28, i=3, j=3)
input X[c y x] : f32
weight W[f c], V[f i j] : f32
Y[f y x] = sum[c] X[c y x] * W[f c]
Z[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]
output Z
"""


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

    def test_bench_tells_what_joined_kernels_gain(self):
        sizes = [word for size in ("h=4", "q=512", "x=512", "d=64") for word in ("--size", size)]
        done = self.expect(0, "bench", ATTENTION, *sizes, "--vs", "layerwise", "--iterations", 2, "--json")
        (gain,) = json.loads(done.stdout)["joined"]
        self.assertEqual(gain["name"], "O")
        self.assertGreater(gain["apart_kernels"], 1)
        self.assertGreater(gain["apart_seconds"], 0)

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


class NotInThisVersion(Case):
    def test_commands_of_later_versions_say_so(self):
        for command in ("report",):
            self.expect(3, command, MLP, message=["E0401", command, "not in this version"])
            self.assertNotIn(f"\n  {command} ", self.expect(0, "--help").stdout)
