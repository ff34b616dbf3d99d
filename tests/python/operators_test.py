"""Operators with an operand that is mostly zeros: right, whatever is live, and what they refuse."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import tilewright  # noqa: E402


def blocks(random, rows, columns, tile, live):
    """A matrix that is zero but for a share of its tiles."""
    kept = random.random((-(-rows // tile[0]), -(-columns // tile[1]))) < live
    mask = np.kron(kept, np.ones(tile, bool))[:rows, :columns]
    return np.where(mask, random.standard_normal((rows, columns)), 0).astype(np.float32), mask


class Matmul(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)

    def near(self, got, want):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(1, float(np.abs(want).max(initial=0))))

    def test_zeros(self):
        b = self.random.standard_normal((300, 70)).astype(np.float32)
        for tile in ((32, 1), (1, 1), (1, 16), (16, 1), (1, 64), (32, 64), (1, 300)):
            for live in (0, 0.02, 0.1, 0.6, 1):
                a, _ = blocks(self.random, 130, 300, tile, live)
                with self.subTest(tile=tile, live=live):
                    c = tilewright.matmul(a, b, tile=tile)
                    self.near(c, a.astype(np.float64) @ b)
                    np.testing.assert_array_equal(c, tilewright.matmul(a, b, tile=tile, threads=1))

    def test_masks(self):
        b = self.random.standard_normal((50, 40)).astype(np.float32)
        a, mask = blocks(self.random, 64, 50, (8, 1), 0.2)
        self.near(tilewright.matmul(a, b, mask=mask, tile=(8, 1)), a @ b)
        rows = self.random.random(64) < 0.3
        self.near(tilewright.matmul(a * rows[:, None], b, mask=rows), (a * rows[:, None]) @ b)
        stacked = a.reshape(4, 16, 50)
        self.near(tilewright.matmul(stacked, b, mask=mask.reshape(4, 16, 50), tile=(8, 1)), stacked @ b)

    def test_types_and_out(self):
        a, _ = blocks(self.random, 33, 40, (4, 1), 0.3)
        b, out = self.random.standard_normal((40, 17)).astype(np.float16), np.empty((33, 17), np.float16)
        self.assertIs(tilewright.matmul(a.astype(np.float16), b, tile=(4, 1), out=out), out)
        np.testing.assert_allclose(out, a.astype(np.float16).astype(np.float32) @ b.astype(np.float32), rtol=0, atol=0.02)

    def test_nothing(self):
        for m, k, n in ((0, 5, 6), (4, 0, 6), (4, 5, 0)):
            c = tilewright.matmul(np.zeros((m, k), np.float32), np.zeros((k, n), np.float32))
            np.testing.assert_array_equal(c, np.zeros((m, n), np.float32))

    def test_refusals(self):
        a, b = np.zeros((4, 5), np.float32), np.zeros((5, 6), np.float32)
        for call in (lambda: tilewright.matmul(a, b.T), lambda: tilewright.matmul(a[0], b), lambda: tilewright.matmul(a, b, tile=(0, 1)),
                     lambda: tilewright.matmul(a.astype(int), b), lambda: tilewright.matmul(a, b, mask=np.zeros(3, bool)),
                     lambda: tilewright.matmul(a, b, mask=a)):
            with self.assertRaises(tilewright.Error):
                call()


class RaggedLinear(unittest.TestCase):
    def test_lengths(self):
        random = np.random.default_rng(5)
        x, w = random.standard_normal((4, 32, 24)).astype(np.float32), random.standard_normal((24, 30)).astype(np.float32)
        v = random.standard_normal(30).astype(np.float32)
        for lengths in ([5, 32, 0, 17], [0, 0, 0, 0], [32, 32, 32, 32], [1, 40, 2, 3]):
            kept = (np.arange(32) < np.array(lengths)[:, None])[..., None]
            dirty = np.where(kept, x, np.nan).astype(np.float32)   # padding may hold anything
            clean = np.where(kept, x, 0)
            for bias in (None, v):
                got = tilewright.ragged_linear(dirty, np.array(lengths), w, bias)
                np.testing.assert_allclose(got, clean @ w + (0 if bias is None else v), rtol=0, atol=1e-4)

    def test_refusals(self):
        x, w = np.zeros((2, 3, 4), np.float32), np.zeros((4, 5), np.float32)
        for lengths in (np.zeros(3, int), np.zeros(2, np.float32)):
            with self.assertRaises(tilewright.Error):
                tilewright.ragged_linear(x, lengths, w)


class Moe(unittest.TestCase):
    def test_routings(self):
        random = np.random.default_rng(7)
        x = random.standard_normal((50, 20)).astype(np.float32)
        w1, w2 = random.standard_normal((6, 20, 40)).astype(np.float32), random.standard_normal((6, 40, 33)).astype(np.float32)
        top2 = np.argsort(random.random((50, 6)))[:, :2]
        for experts in (random.integers(0, 6, 50), np.zeros(50, np.int32), np.full(50, 5), top2, np.array([2, 0, 2, 2, 5] * 10)):
            chosen = experts if experts.ndim == 2 else experts[:, None]
            weights = random.random(chosen.shape).astype(np.float32)
            want = sum(weights[:, [j]] * np.einsum("tf,tfn->tn", np.maximum(np.einsum("tk,tkf->tf", x, w1[e]), 0), w2[e])
                       for j, e in enumerate(chosen.T))
            got = tilewright.moe(x, experts, w1, w2, weights)
            np.testing.assert_allclose(got, want, rtol=0, atol=3e-5 * np.abs(want).max())
            np.testing.assert_array_equal(got, tilewright.moe(x, experts, w1, w2, weights, threads=1))

    def test_refusals(self):
        x, w1, w2 = np.zeros((4, 5), np.float32), np.zeros((2, 5, 6), np.float32), np.zeros((2, 6, 7), np.float32)
        for experts in (np.array([0, 1, 2, 0]), np.array([0, -1, 1, 0]), np.zeros(3, int), np.zeros(4, np.float32)):
            with self.assertRaises(tilewright.Error):
                tilewright.moe(x, experts, w1, w2)


if __name__ == "__main__":
    unittest.main()
