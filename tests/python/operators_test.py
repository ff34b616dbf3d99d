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


if __name__ == "__main__":
    unittest.main()
