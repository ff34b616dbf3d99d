"""Sessions on the emulated GPU whose kernels read lists that others make ahead: launched, recorded as graphs, with data that changes."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import tilewright  # noqa: E402


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
        for b, s, k, n in ((4, 64, 64, 96), (6, 40, 32, 64)):      # whatever the prices say
            session = self.session(f"program p(b={b}, s={s}, k={k}, n={n})\ninput X[b s k] : f16 sparse(lengths L)\ninput L[b] : i32\ninput W[k n] : f16\nY[b s n] : f16 = sum[k] X[b s k] * W[k n]\noutput Y\n",
                                   **{"sparse.X": "lengths:L@0.9"})
            for most in (s // 4, s, 0):
                have = self.random.integers(0, most + 1, b).astype(np.int32)
                x, w = self.normal(b, s, k), self.normal(k, n)
                live = np.arange(s)[None, :, None] < have[:, None, None]
                self.same(session, {"X": x, "L": have, "W": w}, (x * live).astype(np.float32) @ w.astype(np.float32))

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
