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


class Detect(unittest.TestCase):
    def test_cells(self):
        random = np.random.default_rng(9)
        for tile in ((1, 1), (32, 1), (1, 16), (8, 8), (200, 200)):
            a, mask = blocks(random, 70, 90, tile, 0.2)
            pattern = tilewright.detect(a, tile=tile)
            np.testing.assert_array_equal(a[~pattern.elements()], 0)
            for i in range(pattern.marks.shape[0]):
                rows = a[i * tile[0]:(i + 1) * tile[0]]
                live = [j for j in range(pattern.marks.shape[1]) if (rows[:, j * tile[1]:(j + 1) * tile[1]] != 0).any()]
                self.assertEqual(list(pattern.slots(i)), live)
                self.assertEqual(pattern.counts[i], len(live))

    def test_what_is_zero(self):
        a = np.zeros((4, 4), np.float32)
        a[0, 0], a[0, 1], a[1, 1], a[2, 2], a[3, 3] = 1, -1, np.nan, -0.0, 1e-45
        np.testing.assert_array_equal(tilewright.detect(a, tile=(1, 4)).marks[:, 0], [True, True, False, True])
        self.assertEqual(tilewright.detect(np.zeros((0, 5), np.float32)).counts.size, 0)


class Attention(unittest.TestCase):
    def reference(self, q, k, v, mask, scale):
        scores = np.where(mask, np.einsum("...sd,...td->...st", q.astype(np.float64), k) * scale, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - np.where(np.isinf(top), 0, top))
        total = e.sum(-1, keepdims=True)
        return np.einsum("...st,...te->...se", e / np.where(total == 0, 1, total), v)

    def test_masks(self):
        random = np.random.default_rng(11)
        for lead, s, t, d in (((), 40, 50, 8), ((2, 3), 70, 70, 16), ((2,), 1, 33, 5), ((2,), 200, 300, 32)):
            q, k, v = (random.standard_normal((*lead, n, d)).astype(np.float32) for n in (s, t, t))
            q -= 3 * np.sign(q.sum()) * q.std()     # real scores far below zero too
            for mask in (random.random((s, t)) < 0.1, np.zeros((s, t), bool), np.ones((s, t), bool), random.random((*lead, s, t)) < 0.3,
                         np.kron(random.random((-(-s // 16), -(-t // 16))) < 0.2, np.ones((16, 16), bool))[:s, :t],
                         np.arange(s)[:, None] >= np.arange(t)[None, :]):
                with self.subTest(lead=lead, s=s, t=t):
                    got = tilewright.sparse_attention(q, k, v, mask)
                    np.testing.assert_allclose(got, self.reference(q, k, v, mask, d ** -0.5), rtol=0, atol=3e-5)

    def test_what_a_mask_leaves_out_is_not_looked_at(self):
        random = np.random.default_rng(12)
        q, k, v = (random.standard_normal((20, 8)).astype(np.float32) for _ in range(3))
        mask = np.ones((20, 20), bool)
        mask[:, 7] = False
        want = tilewright.sparse_attention(q, k, v, mask)
        k[7] = np.nan
        np.testing.assert_array_equal(tilewright.sparse_attention(q, k, v, mask), want)

    def test_refusals(self):
        q, v = np.zeros((4, 8), np.float32), np.zeros((5, 8), np.float32)
        for call in (lambda: tilewright.sparse_attention(q, v, v, np.ones((5, 4), bool)), lambda: tilewright.sparse_attention(q, v, v[:4], np.ones((4, 5), bool)),
                     lambda: tilewright.sparse_attention(q, v, v, np.ones((4, 5)))):
            with self.assertRaises(tilewright.Error):
                call()


class Gradients(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(13)

    def check(self, a, b, mask, product, given=None):
        dc = self.random.standard_normal((a.shape[0], b.shape[1])).astype(np.float32)
        np.testing.assert_allclose(product(a, b, given), a.astype(np.float64) @ b, rtol=0, atol=1e-4)
        da, db = product.backward(dc)
        np.testing.assert_allclose(db, a.T.astype(np.float64) @ dc, rtol=0, atol=1e-4)
        np.testing.assert_allclose(da, np.where(mask, dc.astype(np.float64) @ b.T, 0), rtol=0, atol=1e-4)
        np.testing.assert_array_equal(da[~mask], 0)

    def test_both(self):
        b = self.random.standard_normal((70, 50)).astype(np.float32)
        for tile in ((32, 1), (1, 1), (1, 16), (8, 8)):
            for live in (0, 0.05, 0.5, 1):
                a, mask = blocks(self.random, 66, 70, tile, live)
                with self.subTest(tile=tile, live=live):
                    self.check(a, b, mask, tilewright.SparseMatmul(tile=tile))

    def test_a_mask_that_changes_in_every_step(self):
        product = tilewright.SparseMatmul(tile=(4, 4))
        a, b = self.random.standard_normal((64, 64)).astype(np.float32), self.random.standard_normal((64, 48)).astype(np.float32)
        for step in range(6):
            mask = np.kron(self.random.random((16, 16)) < 0.1 * (step + 1), np.ones((4, 4), bool))
            self.check(a * mask, b, mask, product, mask)

    def test_no_forward(self):
        with self.assertRaises(tilewright.Error):
            tilewright.SparseMatmul().backward(np.zeros((2, 2), np.float32))


class StandIn:
    """As much of torch as the adapter asks for: tensors that are arrays, and a tape of one function."""

    class Tensor:
        def __init__(self, array):
            self.array, self.grad, self.made_by = np.asarray(array), None, None

        def detach(self):
            return self

        def numpy(self):
            return self.array

        def backward(self, gradient):
            function, ctx, given = self.made_by
            for tensor, g in zip(given, function.backward(ctx, gradient)):
                if isinstance(tensor, StandIn.Tensor) and g is not None:
                    tensor.grad = g

    @staticmethod
    def from_numpy(array):
        return StandIn.Tensor(array)

    class autograd:
        class Function:
            @classmethod
            def apply(cls, *given):
                class Context:
                    pass

                out = cls.forward(Context, *given)
                out.made_by = (cls, Context, given)
                return out


class Autograd(unittest.TestCase):
    def train(self, torch, tensor):
        from tilewright.autograd import sparse_matmul
        random = np.random.default_rng(17)
        weight, target = random.standard_normal((24, 40)).astype(np.float32), random.standard_normal((24, 8)).astype(np.float32)
        x, losses = random.standard_normal((40, 8)).astype(np.float32), []
        for step in range(30):      # the mask is another one in every step
            mask = np.abs(weight) >= np.quantile(np.abs(weight), 0.3 + 0.01 * step)
            a, b = tensor(weight * mask), tensor(x)
            c = sparse_matmul(a, b, mask=tensor(mask), tile=(1, 1), torch=torch)
            error = c.detach().numpy() - target
            losses.append(float((error ** 2).mean()))
            c.backward(tensor(error.astype(np.float32)))
            np.testing.assert_allclose(np.asarray(a.grad.numpy()), np.where(mask, error @ x.T, 0), rtol=0, atol=1e-3)
            np.testing.assert_allclose(np.asarray(b.grad.numpy()), (weight * mask).T @ error, rtol=0, atol=1e-3)
            weight = weight - 0.01 * a.grad.numpy()
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_with_a_stand_in(self):
        self.train(StandIn, StandIn.Tensor)

    def test_with_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")

        def tensor(array):
            t = torch.from_numpy(np.ascontiguousarray(array))
            return t.requires_grad_() if t.is_floating_point() else t
        self.train(torch, tensor)


class DLPack(unittest.TestCase):
    def test_operands(self):
        class Other:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        random = np.random.default_rng(19)
        a, _ = blocks(random, 40, 30, (8, 1), 0.2)
        b = random.standard_normal((30, 20)).astype(np.float32)
        np.testing.assert_array_equal(tilewright.matmul(Other(a), Other(b), tile=(8, 1)), tilewright.matmul(a, b, tile=(8, 1)))


class Options(unittest.TestCase):
    text = "program p(m=64, k=80, n=50)\ninput A[m k], B[k n] : f32\nC[m n] = sum[k] A[m k] * B[k n]\noutput C\n"

    def test_tensors_are_said_to_be_sparse_from_outside(self):
        random = np.random.default_rng(23)
        a, _ = blocks(random, 64, 80, (8, 1), 0.1)
        b = random.standard_normal((80, 50)).astype(np.float32)
        session = tilewright.compile(self.text, **{"sparse.A": "zeros:8x1@0.1"})
        self.assertIn("gathered (columns of row blocks)", session.explain())
        self.assertIn("A at 10 % live", session.explain())
        np.testing.assert_allclose(session.run(None, {"A": a, "B": b})[0], a @ b, rtol=0, atol=1e-4)
        strict = tilewright.compile(self.text, **{"sparse.A": "zeros:8x1", "strict": "on"})
        self.assertIn("A not gathered: another operand may be infinite or no number", strict.explain())

    def test_models(self):
        try:
            import onnx
        except ImportError:
            self.skipTest("onnx is not installed")
        from onnx import TensorProto, helper, numpy_helper
        random = np.random.default_rng(29)
        w1, w2 = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 256), (256, 64)))
        b1 = random.standard_normal(256).astype(np.float32) - 2
        nodes = [helper.make_node("MatMul", ["x", "w1"], ["u"]), helper.make_node("Add", ["u", "b1"], ["v"]),
                 helper.make_node("Relu", ["v"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["y"])]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 64]) for name in "xy"]
        graph = helper.make_graph(nodes, "feed_forward", ends[:1], ends[1:], [numpy_helper.from_array(a, n) for n, a in (("w1", w1), ("w2", w2), ("b1", b1))])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        x = random.standard_normal((32, 64)).astype(np.float32) / 8
        for options in ({"sparse.h": "zeros:8x1@0.1"}, {"sparse": "auto"}, {"sparse.x": "zeros"}):
            session = tilewright.Session(model, fuse="off", **options)    # joined, the kernel would make the operand itself
            self.assertIn("gathered (columns of row blocks)", session.explain())
            np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x @ w1 + b1, 0) @ w2, rtol=0, atol=1e-4)

    def test_refusals(self):
        for options in ({"sparse.A": "some"}, {"sparse.A": "zeros:0x1"}, {"sparse.A": "zeros@2"}, {"sparse.Q": "zeros"}, {"sparse.A": "mask:"},
                        {"sparse.A": "mask:Q"}, {"sparse": "maybe"}, {"strict": "very"}):
            with self.assertRaises(tilewright.Error):
                tilewright.compile(self.text, **options).explain()


if __name__ == "__main__":
    unittest.main()
