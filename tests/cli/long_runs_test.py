"""What is kept between runs, and runs that are ended before they are done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tool import Case, SLOW, TOOL, model_of, run, write_model


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
