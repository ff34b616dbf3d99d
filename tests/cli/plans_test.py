"""Plans that are kept in files, derivations, operands that are mostly zeros."""

import json
import xml.etree.ElementTree
from pathlib import Path

import numpy as np

from tool import Case, MLP, ROOT, run

SPARSE = """program product(m=64, k=80, n=96)
input A[m k] : f32
input M[m] : bool
input B[k n] : f32
C[m n] = sum[k] A[m k] * B[k n]
H[m n] = max(C[m n], 0)
Y[m k] = sum[n] H[m n] * B[k n]
output Y
"""


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
