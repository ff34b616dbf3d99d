"""Sessions on the emulated GPU whose kernels read lists that others make ahead: launched, recorded as graphs, with data that changes."""

import ctypes
import os
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import tilewright  # noqa: E402


class DeviceArray:
    """An array in the memory of the (emulated) GPU, as CuPy's say what they are; and what it makes, as torch's do."""

    driver = ctypes.CDLL(os.environ["TILEWRIGHT_CUDA"])

    def __init__(self, array):
        at = ctypes.c_void_p()
        self.driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(array.nbytes, 1)))
        self.driver.cuMemcpyHtoDAsync_v2(at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), None)
        self.at, self.shape, self.dtype = at, array.shape, array.dtype
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (at.value, False), "strides": None, "version": 3}

    def new_empty(self, shape):
        return DeviceArray(np.full(shape, np.nan, self.dtype))

    def reshape(self, shape):
        return DeviceArray(self.numpy().reshape(shape))

    def numpy(self):
        out = np.empty(self.shape, self.dtype)
        self.driver.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(out.ctypes.data), self.at, ctypes.c_size_t(out.nbytes), None)
        return out


class Operators(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(5)

    def normal(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def test_arrays_stay_on_the_gpu(self):
        a = self.normal(64, 96) * np.repeat(self.random.random((2, 96)) < 0.1, 32, 0)
        b = self.normal(96, 64)
        got = tilewright.matmul(DeviceArray(a.astype(np.float32)), DeviceArray(b))
        self.assertIsInstance(got, DeviceArray)
        np.testing.assert_allclose(got.numpy(), a @ b, rtol=0, atol=1e-4)
        keep = self.random.random(64) < 0.3
        rows = self.normal(64, 96) * keep[:, None]
        np.testing.assert_allclose(tilewright.matmul(DeviceArray(rows), DeviceArray(b), mask=DeviceArray(keep)).numpy(), rows @ b, rtol=0, atol=1e-4)
        x, lengths = self.normal(3, 20, 96), np.array([5, 0, 20], np.int32)
        want = (x * (np.arange(20)[None, :, None] < lengths[:, None, None])) @ b
        np.testing.assert_allclose(tilewright.ragged_linear(DeviceArray(x), DeviceArray(lengths), DeviceArray(b)).numpy(), want, rtol=0, atol=1e-4)

    def test_experts(self):
        x, w1, w2, experts = self.normal(40, 16), self.normal(3, 16, 32), self.normal(3, 32, 16), self.random.integers(0, 3, 40)
        want = tilewright.moe(x, experts, w1, w2)
        got = tilewright.moe(*(DeviceArray(array) for array in (x, experts, w1, w2)))
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-3)

    def test_attention(self):
        q, k, v, mask = self.normal(32, 16), self.normal(48, 16), self.normal(48, 16), self.random.random((32, 48)) < 0.4
        mask[3] = False
        got = tilewright.sparse_attention(*(DeviceArray(array) for array in (q, k, v, mask)))
        np.testing.assert_allclose(got.numpy(), tilewright.sparse_attention(q, k, v, mask), rtol=0, atol=1e-4)

    def test_refusals(self):
        a = DeviceArray(self.normal(8, 8))
        with self.assertRaisesRegex(tilewright.Error, "GPU"):
            tilewright.detect(a)
        with self.assertRaisesRegex(tilewright.Error, "GPU"):
            tilewright.SparseMatmul()(a, a)
        with self.assertRaisesRegex(tilewright.Error, "int32 is wanted"):
            tilewright.ragged_linear(DeviceArray(self.normal(2, 3, 8)), DeviceArray(np.array([1, 2])), a)


class OnGpu(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)

    def normal(self, *shape):
        return self.random.standard_normal(shape).astype(np.float16)

    def session(self, text, **options):
        session = tilewright.compile(text, device="cuda", **options)
        self.addCleanup(session.close)
        return session

    def same(self, session, feeds, want, dtype=np.float16):
        """Launched one by one, then as a graph; nothing is left of what the output held."""
        for _ in range(3):
            out = np.full(want.shape, np.nan, dtype)
            session.run(None, feeds, out=[out])
            np.testing.assert_allclose(out.astype(np.float32), want, rtol=0, atol=4e-3 * np.abs(want).max())

    def test_micro_tiles(self):
        m = k = 256
        session = self.session(f"program p(m={m}, k={k}, n=128)\ninput A[m k] : f32 sparse(zeros, tile 32, 1)\ninput B[k n] : f32\nC[m n] : f32 = sum[k] A[m k] * B[k n]\noutput C\n",
                               **{"sparse.A": "zeros:32x1@0.02"})
        self.assertEqual(session.plan["kernels"][0]["through"][0]["source"], "A")
        for live in (0.02, 0.6, 0.0):
            keep = np.repeat(self.random.random((m // 32, k)) < live, 32, 0)
            a, b = (self.normal(m, k) * keep).astype(np.float32), self.normal(k, 128).astype(np.float32)
            self.same(session, {"A": a, "B": b}, a @ b, np.float32)

    def test_rows_by_a_mask_that_is_no_operand(self):
        m, k, n = 2048, 32, 1024
        session = self.session(f"program p(m={m}, k={k}, n={n})\ninput A[m k] : f16 sparse(mask M, tile 1, 1)\ninput M[m] : bool\ninput B[k n] : f16\nC[m n] : f16 = sum[k] A[m k] * B[k n]\noutput C\n",
                               **{"sparse.A": "mask:M@0.02"})
        for live in (0.02, 0.3):
            keep = self.random.random(m) < live
            a, b = (self.normal(m, k) * keep[:, None]).astype(np.float16), self.normal(k, n)
            self.same(session, {"A": a, "M": keep, "B": b}, a.astype(np.float32) @ b.astype(np.float32))

    def test_what_stands_behind_a_length_counts_as_zero(self):
        for b, s, k, n in ((4, 64, 64, 96), (6, 40, 32, 64), (3, 20, 12, 10), (5, 32, 16, 40)):      # whatever the prices say
            session = self.session(f"program p(b={b}, s={s}, k={k}, n={n})\ninput X[b s k] : f16 sparse(lengths L)\ninput L[b] : i32\ninput W[k n] : f16\nY[b s n] : f16 = sum[k] X[b s k] * W[k n]\noutput Y\n",
                                   **{"sparse.X": "lengths:L@0.9"})
            for most in (s // 4, s, 0):
                have = self.random.integers(0, most + 1, b).astype(np.int32)
                x, w = self.normal(b, s, k), self.normal(k, n)
                live = np.arange(s)[None, :, None] < have[:, None, None]
                self.same(session, {"X": x, "L": have, "W": w}, (x * live).astype(np.float32) @ w.astype(np.float32))

    @staticmethod
    def attention(of, to, where):
        return (f"U{to}[h s t] = sum[d] {of}[h, s, d] * K[h t d]\nS{to}[h s t] = 0.125 * U{to}[h s t]\na{to}[h s] = max[t] S{to}[h s t] where {where}\n"
                f"P{to}[h s t] = exp(S{to}[h s t] - a{to}[h s]) where {where}\nl{to}[h s] = sum[t] P{to}[h s t]\nY{to}[h s e] = sum[t] P{to}[h s t] * V[h t e]\n"
                f"{to}[h s e] : f16 = select(l{to}[h s] > 0, Y{to}[h s e] / l{to}[h s], 0)\n")

    @staticmethod
    def attended(q, k, v, mask):
        scores = np.where(mask, np.einsum("hsd,htd->hst", q.astype(np.float32), k.astype(np.float32)) / 8, -np.inf)
        p = np.where(mask, np.exp(scores - np.maximum(scores.max(2, keepdims=True), -1e30)), 0)
        return np.einsum("hst,htd->hsd", p, v.astype(np.float32)) / np.maximum(p.sum(2, keepdims=True), 1e-30)

    def test_turns_that_a_mask_leaves_out(self):
        h, s, t, d = 2, 320, 512, 64
        head = f"program p(h={h}, s={s}, t={t}, d={d}, e={d})\ninput Q[h s d], K[h t d], V[h t e] : f16\n"
        session = self.session(head + "input M[s t] : bool\n" + self.attention("Q", "O", "M[s t]") + "output O\n")
        self.assertEqual(len(session.plan["kernels"]), 1)
        q, k, v = self.normal(h, s, d), self.normal(h, t, d), self.normal(h, t, d)
        few = np.zeros((s, t), np.bool_)
        few[5, 300] = few[200, 511] = few[319, 0] = True
        blocks = np.repeat(np.repeat(self.random.random((5, 8)) < 0.3, 64, 0), 64, 1)
        blocks[:64] = blocks[:, 128:256] = False                   # queries without a key, keys without a query
        for mask in (blocks, few, np.ones((s, t), np.bool_), blocks & (self.random.random((s, t)) < 0.5)):
            unseen = ~np.repeat(mask.any(0).reshape(-1, 128).any(1), 128)    # turns that are left out are not looked at
            keys, values = (np.where(unseen[None, :, None], np.float16(np.nan), x) for x in (k, v))
            self.same(session, {"Q": q, "K": keys, "V": values, "M": mask}, self.attended(q, k, v, mask))

    def test_turns_between_those_that_count(self):
        h, s, d = 2, 448, 64
        session = self.session(f"program p(h={h}, s={s}, t={s}, d={d}, e={d})\ninput Q[h s d], K[h t d], V[h t e] : f16\n" +
                               self.attention("Q", "O", "(index(s) - index(t) <= 20 and index(t) - index(s) <= 20) or index(t) < 3") + "output O\n")
        q, k, v = self.normal(h, s, d), self.normal(h, s, d), self.normal(h, s, d)
        at = np.arange(s)
        self.same(session, {"Q": q, "K": k, "V": v}, self.attended(q, k, v, (np.abs(at[:, None] - at[None, :]) <= 20) | (at[None, :] < 3)))

    def test_equal_kernels_with_masks_of_their_own(self):
        h, s, d = 2, 256, 64
        session = self.session(f"program p(h={h}, s={s}, t={s}, d={d}, e={d})\ninput Q[h s d], K[h t d], V[h t e] : f16\ninput M[s t], N[s t] : bool\n" +
                               self.attention("Q", "X", "M[s t]") + self.attention("X", "O", "N[s t]") + "output O\n")
        q, k, v = self.normal(h, s, d), self.normal(h, s, d), self.normal(h, s, d)
        m, n = (np.repeat(np.repeat(self.random.random((4, 4)) < 0.5, 64, 0), 64, 1) for _ in range(2))
        between = self.attended(q, k, v, m).astype(np.float16)
        self.same(session, {"Q": q, "K": k, "V": v, "M": m, "N": n}, self.attended(between, k, v, n))

    def test_several_experts_a_token(self):
        t, j, e, k, f = 192, 2, 5, 32, 128
        session = self.session(f"program p(t={t}, j={j}, e={e}, k={k}, f={f})\n"
                               "input X[t k] : f16\ninput W[e k f], V[e f k] : f16\ninput key[t j] : index(e)\ninput G[t j] : f16\n"
                               "U[t j f] = sum[k] X[t k] * W[key[t, j], k, f]\nH[t j f] : f16 = max(U[t j f], 0)\n"
                               "D[t j k] = sum[f] H[t j f] * V[key[t, j], f, k]\nE[t j k] : f16 = D[t j k] * G[t j]\nY[t k] : f16 = sum[j] E[t j k]\noutput Y\n")
        x, w, v, g = self.normal(t, k), self.normal(e, k, f) / 8, self.normal(e, f, k) / 16, self.normal(t, j)
        for most in (e, 2):                                        # experts without a token too
            key = self.random.integers(0, most, (t, j))
            want = 0
            for i in range(j):
                h = np.maximum(np.einsum("tk,tkf->tf", x.astype(np.float32), w[key[:, i]].astype(np.float32)), 0).astype(np.float16)
                want = want + np.einsum("tf,tfk->tk", h.astype(np.float32), v[key[:, i]].astype(np.float32)) * g[:, i:i + 1].astype(np.float32)
            self.same(session, {"X": x, "W": w, "V": v, "key": key, "G": g}, want)


if __name__ == "__main__":
    unittest.main()
