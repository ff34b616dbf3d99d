"""Attention blocks of ViT, BERT and GPT-2 as exporters write them, in 16 bits: all of an attention is one kernel of the plan for a GPU, and
every kernel is right on the emulated one.

    attention_blocks.py EMULATE_MODELS TILEWRIGHT
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
import onnx  # noqa: E402
from zoo import transformer as spelled  # noqa: E402
from zoo.builder import PROBE, Builder  # noqa: E402
from zoo.half import half  # noqa: E402

BATCH, WIDTH, HEADS = 2, 128, 2


def block(name, opset, tokens, body):
    b = Builder(name, opset, BATCH, constant_nodes=True)
    x = b.input("x", b.random((PROBE, tokens, WIDTH)), [BATCH, tokens, WIDTH])
    b.output("y", body(b, x, tokens), [BATCH, tokens, WIDTH])
    return b.finish()


def heads_of(b, x):
    return b.transpose(b.reshape(x, [-1, x.shape[1], HEADS, WIDTH // HEADS]), 0, 2, 1, 3)


def vit(b, x, tokens):
    """Scaled on both sides; queries, keys and values unbound from one product; a length that nothing divides."""
    return b.add(x, spelled.self_attention(b, b.layer_norm(x), HEADS, 0.45, spelled.scale_both, (spelled.SCALED_BOTH,) * 2, unbind=True))


def bert(b, x, tokens):
    """Three products; a mask of the batch's own lengths is added to the scores."""
    mask = b.input("mask", np.ones((PROBE, tokens), np.int64), [BATCH, tokens])
    wide = b.op("Cast", b.unsqueeze(b.unsqueeze(mask, 1), 2), to=1)
    wide = b.mul(b.op("Sub", b.const(1.0), wide), b.const(np.finfo(np.float32).min))
    q, k, v = (heads_of(b, b.linear(x, WIDTH, gain=g)) for g in (spelled.SCALED_AFTER, spelled.SCALED_AFTER, 1.3))
    scores = b.op("Div", b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2)), b.const(8.0))
    y = spelled.attend(b, b.add(scores, wide), v, -1, tokens, WIDTH)
    return b.layer_norm(b.add(b.linear(y, WIDTH, gain=0.6), x), 1e-12, op=False)


def gpt(b, x, tokens):
    """Split from one product; a causal mask that is a table of the graph."""
    qkv = b.linear(b.layer_norm(x, 1e-5), 3 * WIDTH, gain=spelled.qkv_gains(WIDTH, 1.75, 1.0, 1.3))
    q, k, v = (heads_of(b, part) for part in b.split(qkv, [WIDTH] * 3, 2))
    table = b.weight(np.tril(np.ones((tokens, tokens), bool))[None, None], "causal")
    scores = b.op("Where", table, spelled.scale_both(b, q, k, WIDTH // HEADS), b.const(np.finfo(np.float32).min))
    return b.add(x, b.linear(spelled.attend(b, scores, v, -1, tokens, WIDTH), WIDTH, gain=0.37))


# BERT in short too: its three products are one there, whose slices no box brings.
BLOCKS = [("vit", vit, 17, 197, True), ("bert", bert, 13, 320, True), ("bert_short", bert, 13, 128, False), ("gpt", gpt, 17, 128, True)]


def kernels_of_attention(tool, path):
    """The statements of each kernel that takes part in a softmax."""
    done = subprocess.run([tool, "plan", str(path), "--machine", "h200", "--json"], capture_output=True, text=True, check=True)
    return [k["statements"] for k in json.loads(done.stdout)["kernels"] if any(s.startswith("Softmax") for s in k["statements"])]


def main():
    emulate, tool = sys.argv[1:]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, body, opset, tokens, one in BLOCKS:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(half(block(name, opset, tokens, body)), path)
            kernels = kernels_of_attention(tool, path)
            whole = len(kernels) == 1 and sum(s.startswith("MatMul") for s in kernels[0]) >= 2
            done = subprocess.run([emulate, str(path)], capture_output=True, text=True)
            print(f"{name}: {len(kernels)} kernels of attention", *kernels, done.stdout + done.stderr, sep="\n")
            bad += done.returncode != 0 or (one and not whole)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
