"""ViT-S, DeiT-T, BERT-base and a GPT-2-small block stack with a key-value cache; attention for the hybrids too."""

import numpy as np

from .builder import PROBE, Builder

# Standard deviations of queries and keys, such that scores have 0.3 to 3 in each spelling.
SCALED_AFTER = 0.62
SCALED_QUERY = (2.6, 0.6)
SCALED_BOTH = 1.4


def qkv_gains(width, query, key, value=1.3):
    return np.repeat([query, key, value], width)


def scale_after(b, q, k, width):
    """(q k^T) * constant"""
    return b.mul(b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2)), b.const(width**-0.5))


def scale_query(b, q, k, width):
    """(q * constant) k^T"""
    return b.op("MatMul", b.mul(q, b.const(width**-0.5)), b.transpose(k, 0, 1, 3, 2))


def scale_both(b, q, k, width):
    """torch's scaled_dot_product_attention: both sides times the root of a scale that is computed from q's shape."""
    last = b.slice(b.op("Shape", q), -1, np.iinfo(np.int64).max, 0)
    root = b.op("Sqrt", b.op("Cast", last, to=1))
    root = b.op("Sqrt", b.op("Div", b.const([1.0]), root))
    return b.op("MatMul", b.mul(q, root), b.mul(b.transpose(k, 0, 1, 3, 2), root))


def attend(b, scores, v, batch, tokens, width):
    y = b.transpose(b.op("MatMul", b.softmax(scores), v), 0, 2, 1, 3)
    return b.reshape(y, [batch, tokens, width])


def self_attention(b, x, heads, gain, scale=scale_after, gains=(SCALED_AFTER, SCALED_AFTER), chain=False, unbind=False):
    """One projection for q, k and v, taken apart by Gather, or by Split and Squeeze as torch.unbind exports."""
    batch, tokens, width = b.batch_of(x, chain), x.shape[1], x.shape[2]
    qkv = b.linear(x, 3 * width, gain=qkv_gains(width, *gains))
    qkv = b.transpose(b.reshape(qkv, [batch, tokens, 3, heads, width // heads]), 2, 0, 3, 1, 4)
    if unbind:
        q, k, v = (b.op("Squeeze", t, b.const([0], np.int64)) for t in b.split(qkv, [1, 1, 1], 0))
    else:
        q, k, v = (b.pick(qkv, i, 0) for i in range(3))
    y = attend(b, scale(b, q, k, width // heads), v, b.batch_of(x, chain), tokens, width)
    return b.linear(y, width, gain=gain)


def mlp(b, x, act, ratio, gain):
    return b.linear(act(b.linear(x, ratio * x.shape[-1])), x.shape[-1], gain=gain)


def vit_s(size, batch):
    """As torch exports it with a dynamic batch: Shape/Gather/Concat chains, Expand with Where, attention as torch's SDPA."""
    b = Builder("vit_s", 17, batch, constant_nodes=True)
    image = b.image(size)
    x = b.conv(image, 384, 16, 16, pads=[0] * 4)
    kept = b.slice(b.op("Shape", x), 0, 2, 0)
    x = b.op("Reshape", x, b.concat([kept, b.const([-1], np.int64)], 0))
    x = b.transpose(x, 0, 2, 1)
    x = b.concat([expand_batch(b, b.weight(b.random((1, 1, 384)), "cls_token"), b.dim(image, 0)), x], 1)
    x = b.add(x, b.weight(b.random((1, x.shape[1], 384), 0.5), "pos_embed"))
    for _ in range(12):
        y = b.layer_norm(x)
        x = b.add(x, self_attention(b, y, 6, 0.45, scale_both, (SCALED_BOTH, SCALED_BOTH), chain=True, unbind=True))
        x = b.add(x, mlp(b, b.layer_norm(x), b.gelu, 4, 0.45))
    b.output("logits", b.head(b.pick(b.layer_norm(x), 0, 1)))
    return b.finish()


def expand_batch(b, token, batch):
    """token.expand(batch, -1, -1) as torch exports it: -1 is replaced by 1 through Equal and Where."""
    shape = b.shape([batch, -1, -1])
    ones = b.op("ConstantOfShape", b.op("Shape", shape), value=_one())
    minus = b.mul(ones, b.const(-1, np.int64))
    return b.op("Expand", token, b.op("Where", b.op("Equal", shape, minus), ones, shape))


def _one():
    from onnx import numpy_helper
    return numpy_helper.from_array(np.array([1], np.int64))


def deit_t(size, batch):
    """Opset 20: the Gelu operator; constant shapes where the batch is a number."""
    b = Builder("deit_t", 20, batch)
    image = b.image(size)
    tokens = (size // 16) ** 2
    x = b.transpose(b.reshape(b.conv(image, 192, 16, 16, pads=[0] * 4), [b.batch_of(image), 192, tokens]), 0, 2, 1)
    token = b.op("Expand", b.weight(b.random((1, 1, 192)), "cls_token"), b.shape([b.batch_of(image), 1, 192]))
    x = b.add(b.concat([token, x], 1), b.weight(b.random((1, tokens + 1, 192), 0.5), "pos_embed"))
    for _ in range(12):
        x = b.add(x, self_attention(b, b.layer_norm(x), 3, 0.45, scale_query, SCALED_QUERY))
        x = b.add(x, mlp(b, b.layer_norm(x), b.gelu, 4, 0.45))
    b.output("logits", b.head(b.pick(b.layer_norm(x), 0, 1)))
    return b.finish()


def bert_base(size, batch):
    """size is the sequence's length. Opset 13: LayerNorm decomposed; int64 ids, a mask that is added to the scores."""
    b = Builder("bert_base", 13, batch, constant_nodes=True)
    dims = [batch, "sequence" if isinstance(batch, str) else size]
    ids = b.input("input_ids", b.rng.integers(0, 1000, (PROBE, size)), dims)
    mask = b.input("attention_mask", np.ones((PROBE, size), np.int64), dims)
    types = b.input("token_type_ids", b.rng.integers(0, 2, (PROBE, size)), dims)
    x = b.layer_norm(bert_embedding(b, ids, types), 1e-12, op=False)
    wide = b.op("Cast", b.unsqueeze(b.unsqueeze(mask, 1), 2), to=1)
    wide = b.mul(b.op("Sub", b.const(1.0), wide), b.const(np.finfo(np.float32).min))
    for _ in range(12):
        q, k, v = (bert_heads(b, b.linear(x, 768, gain=g)) for g in (SCALED_AFTER, SCALED_AFTER, 1.3))
        scores = b.op("Div", b.op("MatMul", q, b.transpose(k, 0, 1, 3, 2)), b.const(8.0))
        y = attend(b, b.add(scores, wide), v, b.dim(x, 0), b.dim(x, 1), 768)
        x = b.layer_norm(b.add(b.linear(y, 768, gain=0.6), x), 1e-12, op=False)
        x = b.layer_norm(b.add(mlp(b, x, b.gelu, 4, 0.6), x), 1e-12, op=False)
    pooled = b.op("Tanh", b.head(b.pick(x, 0, 1), 768, gain=0.7))
    b.output("pooler_output", pooled, [batch, 768])
    b.output("last_hidden_state", x, dims + [768])
    return b.finish()


def bert_embedding(b, ids, types):
    words = b.op("Gather", b.weight(b.random((30522, 768), 0.8), "words"), ids)
    kinds = b.op("Gather", b.weight(b.random((2, 768), 0.5), "types"), types)
    positions = b.weight(np.arange(512)[None], "position_ids")
    positions = b.slice(positions, 0, b.unsqueeze(b.dim(ids, 1), 0), 1)
    places = b.op("Gather", b.weight(b.random((512, 768), 0.5), "positions"), positions)
    return b.add(b.add(words, kinds), places)


def bert_heads(b, x):
    return b.transpose(b.reshape(x, [b.dim(x, 0), b.dim(x, 1), 12, 64]), 0, 2, 1, 3)


def gpt2_small(size, batch):
    """Twelve blocks over embedded tokens; size is past plus new tokens, of which 16 are new (8 where size is 32).
    Outputs the hidden states and the grown cache; the causal mask is a slice of a constant table."""
    b = Builder("gpt2_small", 17, batch, constant_nodes=True)
    new = 16 if size > 32 else 8
    past = size - new
    free = isinstance(batch, str)
    n_new, n_past, n_total = ("sequence", "past", "past + sequence") if free else (new, past, size)
    x = b.input("inputs_embeds", b.random((PROBE, new, 768)), [batch, n_new, 768])
    caches = [[b.input(f"past_key_values.{i}.{part}", b.random((PROBE, 12, past, 64)), [batch, 12, n_past, 64])
               for part in ("key", "value")] for i in range(12)]
    start = b.dim(caches[0][0], 2)
    places = b.op("Range", start, b.add(start, b.dim(x, 1)), b.const(1, np.int64))
    x = b.add(x, b.op("Gather", b.weight(b.random((1024, 768), 0.5), "positions"), b.unsqueeze(places, 0)))
    table = b.weight(np.tril(np.ones((1024, 1024), bool))[None, None], "causal")
    presents = []
    for cache in caches:
        y, present = gpt2_attention(b, b.layer_norm(x, 1e-5), cache, table)
        presents.append(present)
        x = b.add(y, x)
        y = b.layer_norm(x, 1e-5)
        x = b.add(x, projection(b, b.gelu_tanh(projection(b, y, 3072, 0.75)), 768, 0.37))
    b.output("last_hidden_state", b.layer_norm(x, 1e-5), [batch, n_new, 768])
    for i, present in enumerate(presents):
        for part, value in zip(("key", "value"), present):
            b.output(f"present.{i}.{part}", value, [batch, 12, n_total, 64])
    return b.finish()


def projection(b, x, out, gain=1.0):
    """A dense layer as Gemm on rank 2, between two Reshapes with computed shapes."""
    rows = b.reshape(x, [-1, x.shape[-1]])
    return b.reshape(b.linear(rows, out, gain=gain, gemm=True), [b.dim(x, 0), b.dim(x, 1), out])


def gpt2_attention(b, x, cache, table):
    qkv = projection(b, x, 3 * 768, qkv_gains(768, 1.75, 1.0, 1.3))
    q, k, v = (bert_heads(b, t) for t in b.split(qkv, [768] * 3, 2))
    k, v = b.concat([cache[0], k], 2), b.concat([cache[1], v], 2)
    scores = scale_both(b, q, k, 64)
    total, fresh = b.dim(k, 2), b.dim(q, 2)
    rows = b.slice(table, b.unsqueeze(b.op("Sub", total, fresh), 0), b.unsqueeze(total, 0), 2)
    mask = b.slice(rows, 0, b.unsqueeze(total, 0), 3)
    scores = b.op("Where", mask, scores, b.const(np.finfo(np.float32).min))
    return projection(b, attend(b, scores, v, b.dim(x, 0), b.dim(x, 1), 768), 768, 0.37), (k, v)


MODELS = {f.__name__: f for f in (vit_s, deit_t, bert_base, gpt2_small)}
