"""The Python package: results, zero copies, types, errors, threads."""

import ctypes
import gc
import os
import pickle
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import tilewright  # noqa: E402

SCALE = """program scale(n in 0..64, c=3)
input X[n c], k[c] : f32
Y[n c] = X[n c] * k[c]
Z[n] = sum[c] Y[n c]
output Y, Z
"""
X, K = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([1, 10, 100])


def copy_of(kind):
    return tilewright.compile(f"program copy(n=4)\ninput X[n] : {kind}\nY[n] : {kind} = X[n]\noutput Y\n")


class Owner:
    """Speaks DLPack and nothing else, and counts how often it is asked."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.asked = array, device, 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        self.asked += 1
        return self.array.__dlpack__()


class Results(unittest.TestCase):
    def setUp(self):
        self.session = tilewright.compile(SCALE)
        self.addCleanup(self.session.close)

    def check(self, feeds, x=X):
        y, z = self.session.run(None, feeds)
        np.testing.assert_array_equal(y, x * K)
        np.testing.assert_array_equal(z, (x * K).sum(1))

    def test_run(self):
        self.check({"X": X, "k": K})
        [z] = self.session.run(["Z"], {"X": X, "k": K})
        np.testing.assert_array_equal(z, [321, 654])
        z, y = self.session.run(["Z", "Y"], {"X": X, "k": K})
        self.assertEqual((z.shape, y.shape), ((2,), (2, 3)))

    def test_sizes_follow_the_arrays(self):
        for n in (1, 2, 7, 3, 0, 5, 2):
            x = np.random.default_rng(n).integers(0, 9, (n, 3)).astype(np.float32)
            self.check({"X": x, "k": K}, x)

    def test_any_strides(self):
        wide = np.zeros((4, 6), np.float32)
        wide[::2, ::2] = X
        self.check({"X": wide[::2, ::2], "k": K})
        self.check({"X": np.asfortranarray(X), "k": K[::-1][::-1]})
        self.check({"X": X[::-1][::-1], "k": np.ascontiguousarray(K[::-1])[::-1]})
        self.check({"X": np.broadcast_to(X[:1], (4, 3)), "k": K}, np.broadcast_to(X[:1], (4, 3)))
        self.check({"X": X.astype(">f4"), "k": K})
        record = np.zeros(2, np.dtype([("pad", "u1"), ("x", "f4", 3)]))
        record["x"] = X
        self.check({"X": record["x"], "k": K})
        self.check({"X": X.tolist(), "k": [1, 10, 100]})

    def test_out_is_written_and_returned(self):
        y, z = np.zeros((2, 6), np.float32), np.zeros(2, np.float32)
        results = self.session.run(None, {"X": X, "k": K}, out=[y[:, ::2], z])
        self.assertIs(results[1], z)
        np.testing.assert_array_equal(y[:, ::2], X * K)
        np.testing.assert_array_equal(y[:, 1::2], 0)
        x = X.copy()
        self.session.run(["Y"], {"X": x, "k": K}, out=[x])
        np.testing.assert_array_equal(x, X * K)

    def test_dlpack_without_a_copy(self):
        x, k = Owner(X.copy()), Owner(K[::1])
        self.check({"X": x, "k": k})
        self.assertEqual((x.asked, k.asked), (1, 1))
        y, z = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
        self.session.run(None, {"X": Owner(np.asfortranarray(X)), "k": K}, out=[Owner(y), Owner(z)])
        np.testing.assert_array_equal(y, X * K)
        with self.assertRaisesRegex(tilewright.Error, "the session on the CPU"):
            self.session.run(None, {"X": Owner(X, (2, 0)), "k": K})
        before = sys.getrefcount(x.array)
        for _ in range(10):
            self.session.run(None, {"X": x, "k": K})
        gc.collect()
        self.assertEqual(sys.getrefcount(x.array), before, "the capsule was freed")

    def test_rows_that_are_counted(self):
        text = "program p(r=3, n)\ninput X[r n] : f32\ninput m : i64\nfound : i64 = m + 0\nY[r n] = 2 * X[r n]\noutput Y[r found]\n"
        session = tilewright.compile(text)
        [y] = session.get_outputs()
        self.assertEqual((y.shape, y.counted), (("r", "n"), (1,)))
        x = np.arange(15, dtype=np.float32).reshape(3, 5)
        for m in (0, 1, 4, 5):
            feeds = {"X": x, "m": np.int64(m)}
            [y] = session.run(None, feeds)
            np.testing.assert_array_equal(y, 2 * x[:, :m])
            self.assertEqual((y.shape, y.flags["C_CONTIGUOUS"]), ((3, m), True))
            np.testing.assert_array_equal(np.from_dlpack(y), y)
            room = np.zeros((3, 5), np.float32)
            for out in (room, Owner(room)):
                [y] = session.run(None, feeds, out=[out])
                np.testing.assert_array_equal(y, 2 * x[:, :m])
                self.assertEqual(m == 0 or np.shares_memory(y, room), True)
        with self.assertRaisesRegex(tilewright.Error, "found counts 6 of the 5 rows"):
            session.run(None, {"X": x, "m": np.int64(6)})
        none = np.zeros((0, 3), np.float32)
        for empty in (none, Owner(none)):
            y, z = self.session.run(None, {"X": empty, "k": K})
            self.assertEqual((y.shape, z.shape), ((0, 3), (0,)))

    def test_describes(self):
        [x, k] = self.session.get_inputs()
        self.assertEqual((x.name, x.type, x.shape, x.dtype), ("X", "f32", ("n", "c"), np.float32))
        self.assertEqual([o.name for o in self.session.get_outputs()], ["Y", "Z"])
        self.session.run(None, {"X": X, "k": K})
        self.assertGreater(self.session.plan["totals"]["kernels"], 0)
        self.assertIn("axis", self.session.explain())
        self.assertIn("'X', 'k'", repr(self.session))

    def test_types(self):
        for kind in ("f64", "f32", "f16", "i8", "u8", "i32", "i64", "bool"):
            session = copy_of(kind)
            x = np.array([0, 1, 1, 0]).astype(session.get_inputs()[0].dtype)
            [y] = session.run(None, {"X": x})
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y, x)
        session = copy_of("bf16")
        bits = np.array([0x3F80, 0x4000, 0x4040, 0xBF80], np.uint16)  # 1 2 3 -1
        [y] = session.run(None, {"X": bits})
        np.testing.assert_array_equal(y.view(np.uint16), bits)

    def test_opens_paths_and_bytes(self):
        path = ROOT / "examples" / "mlp.tw"
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            names = [i.name for i in tilewright.Session(source).get_inputs()]
            self.assertEqual(names[:2], ["X", "W1"])

    def test_options_and_constants(self):
        text = "program p(n, k, m)\ninput X[n k] : f32\nweight W[k m] : f32\nY[n m] = sum[k] X[n k] * W[k m]\noutput Y\n"
        w = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
        for weights in (w, np.asfortranarray(w)):
            with tilewright.compile(text, sizes={"n": 2}, threads=1, constants={"W": weights}, isa="base") as session:
                self.assertEqual(session.get_inputs()[0].shape[0], "n")
                [y] = session.run(None, {"X": np.ones((2, 4), np.float32)})
                np.testing.assert_allclose(y, np.ones((2, 4)) @ w, rtol=1e-5)
                self.assertEqual((session.plan["threads"], session.plan["isa"]), (1, "base"))
        two = "program a(n)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n\nprogram b(n)\ninput Q[n] : f32\nY[n] = Q[n]\noutput Y\n"
        self.assertEqual(tilewright.compile(two, program="b").get_inputs()[0].name, "Q")


class Errors(unittest.TestCase):
    def expect(self, code, part, call):
        with self.assertRaises(tilewright.Error) as caught:
            call()
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertIn(part, str(caught.exception))
        return caught.exception

    def test_opening(self):
        error = self.expect("E0102", "text:3:", lambda: tilewright.compile("program p(n)\ninput X[n] : f32\nY[n] = Q[n]\noutput Y\n"))
        self.assertEqual((error.kind, error.status), ("usage", 2))
        self.expect("E0201", "nowhere.onnx", lambda: tilewright.Session("nowhere.onnx"))
        self.expect("E0302", "colour", lambda: tilewright.compile(SCALE, colour="red"))
        self.expect("E0302", "q", lambda: tilewright.compile(SCALE, sizes={"q": 1}))
        os.environ["TILEWRIGHT_CUDA"] = "/nonexistent/libcuda.so"
        self.expect("E0601", "no CUDA driver", lambda: tilewright.compile(SCALE, device="cuda"))
        self.expect("E0202", "", lambda: tilewright.Session(b"\x00\x01nonsense"))
        with self.assertRaises(TypeError):
            tilewright.Session(None)

    def test_running(self):
        session = tilewright.compile(SCALE)
        run = session.run
        self.expect("E0301", "missing", lambda: run(None, {"X": X}))
        self.expect("E0301", "it has X, k", lambda: run(None, {"X": X, "k": K, "q": K}))
        self.expect("E0301", "it has Y, Z", lambda: run(["Q"], {"X": X, "k": K}))
        self.expect("E0301", "f32 is wanted", lambda: run(None, {"X": X.astype(np.float64), "k": K}))
        self.expect("E0301", "wanted", lambda: run(None, {"X": X.astype(np.complex64), "k": K}))
        self.expect("E0301", "X", lambda: run(None, {"X": X[0], "k": K}))
        self.expect("E0301", "k", lambda: run(None, {"X": X[:, :2], "k": K}))
        self.expect("E0301", "9 dims", lambda: run(None, {"X": X.reshape((1,) * 7 + (2, 3)), "k": K}))
        self.expect("E0301", "2 outputs", lambda: run(None, {"X": X, "k": K}, out=[X.copy()]))
        self.expect("E0301", "Y", lambda: run(["Y"], {"X": X, "k": K}, out=[np.zeros((3, 3), np.float32)]))
        fixed = np.zeros((2, 3), np.float32)
        fixed.flags.writeable = False
        self.expect("E0301", "read-only", lambda: run(["Y"], {"X": X, "k": K}, out=[fixed]))
        np.testing.assert_array_equal(run(["Z"], {"X": X, "k": K})[0], [321, 654])

    def test_errors_travel_between_processes(self):
        error = self.expect("E0201", "", lambda: tilewright.Session("nowhere.onnx"))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.code, again.where, again.hint, str(again)), (error.code, error.where, error.hint, str(error)))


class Threads(unittest.TestCase):
    def test_runs_take_turns_and_close_waits(self):
        session = tilewright.compile(SCALE)
        wrong, done = [], []

        def work(seed):
            random = np.random.default_rng(seed)
            try:
                while True:
                    x = random.integers(0, 9, (int(random.integers(1, 6)), 3)).astype(np.float32)
                    if not np.array_equal(session.run(["Z"], {"X": x, "k": K})[0], (x * K).sum(1)):
                        wrong.append(seed)
                    done.append(seed)
            except tilewright.Error as error:
                if "closed" not in str(error):
                    wrong.append(str(error))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        while len(done) < 200 and any(t.is_alive() for t in threads):
            threading.Event().wait(0.01)
        session.close()
        session.close()
        for thread in threads:
            thread.join(30)
        self.assertEqual(wrong, [])
        with self.assertRaisesRegex(tilewright.Error, "closed"):
            session.run(None, {"X": X, "k": K})


class Library(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        header = (ROOT / "include" / "tilewright" / "tilewright.h").read_text()
        self.assertIn("int64_t shape[8], stride[8];", header)
        from tilewright._library import Source, Tensor
        self.assertEqual(ctypes.sizeof(Tensor), 8 + 8 + 128 + 8 + 8 + 8)
        self.assertEqual(ctypes.sizeof(Source), 64)
        self.assertEqual(tilewright.__version__, "0.1.0")


class OnGpu:
    """Memory that claims to be a GPU's; with the driver of the tests it is the heap's."""

    def __init__(self, array):
        self.array, self.streams = array, []
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
                                         "strides": None, "version": 3}


@unittest.skipUnless(os.environ.get("TILEWRIGHT_FAKE_CUDA"), "needs the driver of the tests")
class Gpu(unittest.TestCase):
    def test_arrays_and_streams(self):
        os.environ["TILEWRIGHT_CUDA"] = os.environ["TILEWRIGHT_FAKE_CUDA"]
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TILEWRIGHT_CACHE_DIR"] = folder
            session = tilewright.compile(SCALE, device="cuda", sizes={"n": 2, "c": 3})
            x, k = OnGpu(X.copy()), OnGpu(np.ascontiguousarray(K))
            results = [OnGpu(np.zeros_like(a)) for a in session.run(None, {"X": X, "k": K})]
            for stream in (None, 0, 7, type("Stream", (), {"cuda_stream": 5})()):
                self.assertIs(session.run(None, {"X": x, "k": k}, out=results, stream=stream)[0], results[0])
            self.assertEqual(len(session.run(None, {"X": X, "k": K})), len(results))
            self.assertEqual(len(session.gpu_seconds(4)), 4)
            with self.assertRaisesRegex(tilewright.Error, "this machine has 1"):
                tilewright.compile(SCALE, device="cuda:1")


if __name__ == "__main__":
    unittest.main(verbosity=1)
