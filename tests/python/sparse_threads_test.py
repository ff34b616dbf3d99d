"""Inputs with which other implementations of sparse operators went wrong, as tests of ours."""

import sys
import threading
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import tilewright  # noqa: E402


def layers(x, experts, w1, w2):
    out = np.zeros((x.shape[0], w2.shape[2]))
    for e in range(w1.shape[0]):
        rows = experts == e
        out[rows] = np.maximum(x[rows].astype(np.float64) @ w1[e], 0) @ w2[e]
    return out


class Groups(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(1)

    def moe(self, experts, count, width=12, hidden=16):
        x = self.random.standard_normal((len(experts), width)).astype(np.float32)
        w1, w2 = (self.random.standard_normal(s).astype(np.float32) for s in ((count, width, hidden), (count, hidden, width)))
        got = tilewright.moe(x, experts, w1, w2)
        np.testing.assert_allclose(got, layers(x, experts, w1, w2), rtol=0, atol=1e-3)
        np.testing.assert_array_equal(got, tilewright.moe(x, experts, w1, w2))   # equal bits in every run

    def test_uneven_and_empty_groups(self):
        self.moe(np.repeat(np.arange(6), [162, 0, 2577, 446, 0, 83]), 6)

    def test_wide_layers(self):
        self.moe(self.random.integers(0, 4, 500), 5, width=96, hidden=256)   # so that slices of weights are split for tiles of bf16

    def test_few_tokens_for_each(self):
        self.moe(np.arange(5), 64)

    def test_one_takes_all(self):
        for e in (0, 7):
            self.moe(np.full(4097, e), 8)

    def test_many_experts_and_more_rows_than_16_bits_count(self):
        self.moe(self.random.integers(0, 300, 70000), 300, 2, 3)

    def test_no_tokens(self):
        w1, w2 = np.ones((4, 3, 5), np.float32), np.ones((4, 5, 2), np.float32)
        self.assertEqual(tilewright.moe(np.zeros((0, 3), np.float32), np.zeros(0, np.int64), w1, w2).shape, (0, 2))

    def test_a_sentinel_is_an_error(self):
        w1, w2 = np.ones((4, 3, 5), np.float32), np.ones((4, 5, 2), np.float32)
        with self.assertRaises(tilewright.Error):
            tilewright.moe(np.ones((2, 3), np.float32), np.array([0, 4]), w1, w2)


class Masks(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(2)

    def arrays(self, s, t, d=8):
        return tuple(self.random.standard_normal((n, d)).astype(np.float32) for n in (s, t, t))

    def reference(self, q, k, v, mask):
        scores = np.where(mask, q.astype(np.float64) @ k.T / np.sqrt(q.shape[1]), -np.inf)
        out = np.zeros((q.shape[0], v.shape[1]))
        for i in np.flatnonzero(mask.any(1)):
            e = np.exp(scores[i] - scores[i].max())
            out[i] = (e / e.sum()) @ v
        return out

    def test_the_diagonal_is_there(self):
        q, k, v = self.arrays(33, 33)
        got = tilewright.sparse_attention(q, k, v, np.tril(np.ones((33, 33), bool)))
        np.testing.assert_allclose(got[0], v[0], rtol=0, atol=1e-6)

    def test_scores_far_below_zero(self):
        q, k, v = self.arrays(16, 40)
        q, k = np.abs(q) * 30, -np.abs(k) * 30    # every real score is below -104
        mask = self.random.random((16, 40)) < 0.5
        np.testing.assert_allclose(tilewright.sparse_attention(q, k, v, mask), self.reference(q, k, v, mask), rtol=0, atol=1e-4)

    def test_nothing_to_see_is_zero(self):
        q, k, v = self.arrays(10, 20)
        mask = self.random.random((10, 20)) < 0.5
        mask[[0, 4, 9]] = False
        got = tilewright.sparse_attention(q, k, v, mask)
        np.testing.assert_array_equal(got[[0, 4, 9]], 0)
        np.testing.assert_allclose(got, self.reference(q, k, v, mask), rtol=0, atol=1e-5)

    def test_keys_that_are_no_multiple_of_anything(self):
        for t in (1, 63, 65, 127, 200):
            q, k, v = self.arrays(5, t)
            mask = np.ones((5, t), bool)
            np.testing.assert_allclose(tilewright.sparse_attention(q, k, v, mask), self.reference(q, k, v, mask), rtol=0, atol=1e-5)

    def test_one_mask_in_two_forms(self):
        q, k, v = (np.stack([x, x]) for x in self.arrays(70, 90))
        mask = np.kron(self.random.random((5, 6)) < 0.4, np.ones((14, 15), bool))
        np.testing.assert_array_equal(tilewright.sparse_attention(q, k, v, mask), tilewright.sparse_attention(q, k, v, np.stack([mask, mask])))


    def test_verticals_and_slashes(self):
        n, block = 256, 64
        q, k, v = self.arrays(n, n)
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        for verticals, slashes in (((0, 5, 70, 130, 200), (0, 64, 150)), ((), (0,)), ((3,), ()), ((), (300,)), ((), ())):
            mask = np.isin(j, verticals) | (np.zeros((n, n), bool))
            for o in slashes:
                first = i // block * block - o
                mask |= (j >= first) & (j < first + block)
            mask &= j <= i
            np.testing.assert_allclose(tilewright.sparse_attention(q, k, v, mask), self.reference(q, k, v, mask), rtol=0, atol=1e-5)


class Padding(unittest.TestCase):
    def test_padding_on_the_left(self):
        random = np.random.default_rng(3)
        x, w = random.standard_normal((4, 20, 24)).astype(np.float32), random.standard_normal((24, 30)).astype(np.float32)
        there = np.arange(20) >= np.array([15, 0, 20, 3])[:, None]
        x *= there[..., None]
        np.testing.assert_allclose(tilewright.matmul(x, w, mask=there), x @ w, rtol=0, atol=1e-4)

    def test_no_rows_at_all(self):
        x, w = np.full((3, 7, 5), np.nan, np.float32), np.ones((5, 6), np.float32)
        np.testing.assert_array_equal(tilewright.ragged_linear(x, np.zeros(3, int), w), np.zeros((3, 7, 6)))


class Shapes(unittest.TestCase):
    def test_tiles_and_extents_that_do_not_divide(self):
        random = np.random.default_rng(4)
        for tile in ((1, 1), (2, 1), (4, 4), (12, 1), (16, 16), (16, 48), (512, 512)):
            for k in (16, 48, 61):
                a = random.standard_normal((50, k)).astype(np.float32) * (random.random((50, k)) < 0.1)
                b = random.standard_normal((k, 33)).astype(np.float32)
                np.testing.assert_allclose(tilewright.matmul(a, b, tile=tile), a @ b, rtol=0, atol=1e-4)

    def test_as_many_blocks_as_the_layout_has(self):
        random = np.random.default_rng(5)
        layout = random.random((64, 64)) < 0.3
        a = np.kron(layout, random.random((16, 16)) + 0.5).astype(np.float32)
        self.assertEqual(tilewright.detect(a, tile=(16, 16)).counts.sum(), layout.sum())

    def test_sums_of_halves_are_held_wider(self):
        a, b = np.full((4, 3072), 1, np.float16), np.full((3072, 40), 1, np.float16)
        np.testing.assert_array_equal(tilewright.matmul(a, b), 3072)      # a sum in halves stops at 2048

    def test_results_that_held_something(self):
        a, b = np.zeros((40, 64), np.float32), np.ones((64, 50), np.float32)
        a[3, 5] = 2
        for tile in ((8, 1), (1, 16), (1, 64)):
            out = np.full((40, 50), np.nan, np.float32)
            np.testing.assert_array_equal(tilewright.matmul(a, b, tile=tile, out=out), a @ b)


class Runs(unittest.TestCase):
    def test_shares_that_change_from_run_to_run(self):
        random = np.random.default_rng(6)
        b = random.standard_normal((90, 70)).astype(np.float32)
        session = tilewright.compile("program p(m=60, k=90, n=70)\ninput A[m k] : f32 sparse(zeros)\ninput B[k n] : f32\n"
                                     "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n")
        first = {}
        for run in range(60):
            share = (0, 0.01, 0.1, 0.5, 1)[run * 7 % 5]
            a = np.random.default_rng(run % 10).standard_normal((60, 90)).astype(np.float32) * (np.random.default_rng(run % 10).random((60, 90)) < share)
            [c] = session.run(None, {"A": a, "B": b})
            np.testing.assert_allclose(c, a @ b, rtol=0, atol=1e-4)
            np.testing.assert_array_equal(c, first.setdefault((share, run % 10), c))   # whatever was decided in between

    def test_sessions_share_nothing(self):
        random, wrong = np.random.default_rng(7), []

        def work(seed):
            random = np.random.default_rng(seed)
            for _ in range(30):
                a = random.standard_normal((33, 64)).astype(np.float32) * (random.random((33, 64)) < 0.2)
                b = random.standard_normal((64, 40)).astype(np.float32)
                session = tilewright.compile(f"program p(m=33, k=64, n=40)\ninput A[m k] : f32 sparse(zeros, tile {1 + seed}, 1)\ninput B[k n] : f32\n"
                                             "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n", threads=1)
                if np.abs(session.run(None, {"A": a, "B": b})[0] - a @ b).max() > 1e-4:
                    wrong.append(seed)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        del random


if __name__ == "__main__":
    unittest.main()
