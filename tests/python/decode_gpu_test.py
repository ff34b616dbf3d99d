"""One query a sequence over a long cache, in parts on the emulated GPU: the states of parts leave their kernel whole, and are merged."""
import unittest

import numpy as np

import tilewright


class Decode(unittest.TestCase):
    def test_parts_are_merged(self):
        heads, per, keys, depth = 1, 4, 8192, 128
        session = tilewright.compile(
            f"program attention(b=1, g={heads}, r={per}, x={keys}, d={depth}, e={depth})\ninput Q[b g r d], K[b g x d], V[b g x e] : f16\n"
            "S[b g r x] : f32 = sum[d] Q[b g r d] * K[b g x d] / sqrt(d)\nP[b g r x] : f16 = softmax[x] S[b g r x]\n"
            "O[b g r e] : f32 = sum[x] P[b g r x] * V[b g x e]\nY[b g r e] : f16 = O[b g r e]\noutput Y\n", device="cuda")
        parted = [axis for kernel in session.plan["kernels"] for axis in kernel["schedule"] if axis["axis"] == "part"]
        self.assertTrue(parted, session.plan["kernels"])
        random = np.random.default_rng(1)
        q, k, v = (random.standard_normal((1, heads, n, depth)).astype(np.float16) for n in (per, keys, keys))
        [y] = session.run(None, {"Q": q, "K": k, "V": v})
        scores = q.astype(float) @ k.astype(float).transpose(0, 1, 3, 2) / np.sqrt(depth)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = weights / weights.sum(-1, keepdims=True) @ v.astype(float)
        self.assertLess(np.linalg.norm(y - want) / np.linalg.norm(want), 1e-3)


if __name__ == "__main__":
    unittest.main()
