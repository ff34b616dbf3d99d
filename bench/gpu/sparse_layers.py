"""Further rows of bench/gpu/sparse.py: whole layers and models whose sparsity only the data knows, and what is compared beside dense products.

switch      Switch-style layers (768 -> 3072 -> 768, top-1) beside the padded form: rows by expert in as many places as the fullest one needs,
            two batched products, the scatter back. Its capacity is known to the host there, which a run would have to ask for
relu        a feed-forward layer with ReLU: its second product reads the zeros of the first one's result, in blocks of 32 tokens x 1 channel.
            They come of the data: 128 inputs of a token say its block, and their weights push the dead channels of each block far below 0
bert        BERT-base, 12 layers, sentences of uneven length (log-normal, median a fifth of the longest, sigma 0.6), padded beside it
attention   masks: a window and globals as conditions on indices, verticals and slashes and blocks of 128 as tensors; beside compiled
            FlexAttention, whose block mask is made beforehand, while what ours looks up is in its time; and our own kernel without a mask
cusparse    f32 products beside torch's CSR, and BSR in blocks of 32 (cuSPARSE), made beforehand
packed      f16 products in micro-tiles of 64 x 1 beside 64 x 32, which need no packing, at equal shares
detect      what lives in a tensor, alone, beside a copy that moves as many bytes
"""
import numpy as np
import torch

import workloads


def switch(b, tokens, k, f, count, kind):
    """b: bench/gpu/sparse.py."""
    on, dtype = b.on, b.TYPES[kind]
    chosen = torch.from_numpy(np.ascontiguousarray(workloads.routing(np.random.default_rng(3), tokens, count))).to(on.device)
    x = torch.randn(tokens, k, device=on.device).to(dtype)
    w, v = ((torch.randn(count, *s, device=on.device) / s[0] ** 0.5).to(dtype) for s in ((k, f), (f, k)))
    most = int(torch.bincount(chosen, minlength=count).max())

    def padded():
        keys, order = chosen.sort(stable=True)
        place = torch.arange(tokens, device=on.device) - torch.searchsorted(keys, keys)
        rows = torch.zeros(count, most, k, device=on.device, dtype=dtype)
        rows[keys, place] = x[order]
        y = torch.bmm(torch.bmm(rows, w).relu(), v)
        out = torch.empty_like(x)
        out[order] = y[keys, place]
        return out

    text = (f"program p(t={tokens}, e={count}, k={k}, f={f})\ninput X[t k] : {kind}\ninput W[e k f], V[e f k] : {kind}\ninput key[t] : index(e)\n"
            f"U[t f] = sum[k] X[t k] * W[key[t], k, f]\nH[t f] : {kind} = max(U[t f], 0)\nD[t k] = sum[f] H[t f] * V[key[t], f, k]\nY[t k] : {kind} = 1 * D[t k]\noutput Y\n")
    return b.row(text, {"X": x, "W": w, "V": v, "key": chosen}, kind, (tokens, k), b.apart(padded()), padded)


def relu(b, tokens, k, f, live):
    on, code = b.on, -(-tokens // 32)
    keep = torch.rand(code, f, device=on.device) < live
    x = torch.randn(tokens, k, device=on.device).half()
    x[:, :code] = torch.eye(code, device=on.device).half().repeat_interleave(32, 0)[:tokens]
    w = (torch.randn(k, f, device=on.device) / k ** 0.5).half()
    w[:code] = torch.where(keep, 0.0, -30.0).half()
    v = (torch.randn(f, k, device=on.device) / f ** 0.5).half()
    text = (f"program p(t={tokens}, k={k}, f={f}, n={k})\ninput X[t k], W[k f], V[f n] : f16\nU[f t] = sum[k] W[k f] * X[t k]\nH[f t] : f16 = max(U[f t], 0)\n"
            "Y[t n] : f16 = sum[f] H[f t] * V[f n]\noutput Y\n")
    dense = lambda: (x @ w).relu() @ v
    return b.row(text, {"X": x, "W": w, "V": v}, "f16", (tokens, k), b.apart(dense()), dense, {"sparse.H": f"zeros:1x32@{live}"})


def bert(b, sentences, longest, layers, kind, d=768, heads=12, f=3072):
    """One program of all layers; products take the rows before each length, attention leaves out keys behind it."""
    on, dtype, each = b.on, b.TYPES[kind], d // heads
    random = np.random.default_rng(11)
    have = torch.from_numpy(workloads.lengths(random, sentences, longest)).to(on.device)
    inside = torch.arange(longest, device=on.device)[None, :] < have[:, None]
    shapes = {"Wq": (d, d), "Wk": (d, d), "Wv": (d, d), "Wo": (d, d), "W1": (d, f), "W2": (f, d)}
    given = {"X0": torch.randn(sentences, longest, d, device=on.device).to(dtype), "L": have}
    text = (f"program bert(b={sentences}, s={longest}, t={longest}, h={heads}, e={each}, d={d}, c={d}, f={f})\n"
            f"input X0[b s d] : {kind}\ninput L[b] : i32\n")
    body = ""
    for i in range(layers):
        for name, (rows, columns) in shapes.items():
            given[f"{name}_{i}"] = (torch.randn(rows, columns, device=on.device) / rows ** 0.5).to(dtype)
        text += f"input Wq_{i}[d h e], Wk_{i}[d h e], Wv_{i}[d h e] : {kind}\ninput Wo_{i}[h e c] : {kind}\ninput W1_{i}[d f] : {kind}\ninput W2_{i}[f c] : {kind}\n"
        for name in ("Wq", "Wk", "Wv"):
            given[f"{name}_{i}"] = given[f"{name}_{i}"].view(d, heads, each)
        given[f"Wo_{i}"] = given[f"Wo_{i}"].view(heads, each, d)
        x = f"X{i}"
        for name, at in (("q", "s"), ("k", "t"), ("v", "t")):
            body += f"{name}{i}[b h {at} e] : {kind} = sum[d] {x}[b, {at}, d] * W{name}_{i}[d h e]\n"
        body += (f"S{i}[b h s t] = sum[e] q{i}[b h s e] * k{i}[b h t e] * {each ** -0.5!r}\n"
                 f"P{i}[b h s t] = softmax[t] S{i}[b h s t] where index(t) < L[b]\n"
                 f"O{i}[b s h e] : {kind} = sum[t] P{i}[b h s t] * v{i}[b h t e]\n"
                 f"A{i}[b s c] = sum[h e] O{i}[b s h e] * Wo_{i}[h e c]\nB{i}[b s d] : {kind} = {x}[b s d] + A{i}[b, s, d]\n")
        body += norm("B", "N", i, kind)
        body += (f"F{i}[b s f] = sum[d] N{i}[b s d] * W1_{i}[d f]\nG{i}[b s f] : {kind} = gelu(F{i}[b s f])\n"
                 f"D{i}[b s c] = sum[f] G{i}[b s f] * W2_{i}[f c]\nE{i}[b s d] : {kind} = N{i}[b s d] + D{i}[b, s, d]\n")
        body += norm("E", f"X", i, kind, i + 1)
    text += body + f"output X{layers}\n"

    def padded():
        x = given["X0"]
        linear = lambda x, name, i: x @ given[f"{name}_{i}"].reshape(shapes[name])
        for i in range(layers):
            q, k, v = (linear(x, name, i).view(sentences, longest, heads, each).transpose(1, 2) for name in ("Wq", "Wk", "Wv"))
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=inside[:, None, None, :])
            x = torch.nn.functional.layer_norm(x + linear(o.transpose(1, 2).reshape(sentences, longest, d), "Wo", i), (d,))
            x = torch.nn.functional.layer_norm(x + linear(torch.nn.functional.gelu(linear(x, "W1", i)), "W2", i), (d,))
        return x

    want, live = padded(), inside[..., None]
    def right(out):
        off = torch.where(live, out.float() - want.float(), 0)
        return (off.norm() / torch.where(live, want.float(), 0).norm()).item() / 4      # a network's layers, not one product's
    share = inside.float().mean().item()
    names = [f"{n}{i}" for i in range(layers) for n in ("X", "O", "N", "G")]
    return b.row(text, given, kind, (sentences, longest, d), right, padded, {f"sparse.{n}": f"lengths:L@{share:.3f}" for n in names}) + f"; fill {share:.2f}"


def norm(of, to, i, kind, number=None):
    number = i if number is None else number
    return (f"m{of}{i}[b s] = mean[d] {of}{i}[b s d]\nv{of}{i}[b s] = mean[d] ({of}{i}[b s d] - m{of}{i}[b s])^2\n"
            f"{to}{number}[b s d] : {kind} = ({of}{i}[b s d] - m{of}{i}[b s]) / sqrt(v{of}{i}[b s] + 1e-5)\n")


def attention(b, kind, heads, length, d):
    on, random = b.on, np.random.default_rng(5)
    q, k, v = (torch.randn(heads, length, d, device=on.device).bfloat16() for _ in range(3))
    window, few = length // 64 if length < 4096 else 256, 4
    guard, feeds = "M[s t]", {"Q": q, "K": k, "V": v}
    if kind == "window":
        mask = torch.from_numpy(workloads.window_and_global(length, window, few)).to(on.device)
        guard = f"(index(s) - index(t) <= {window} and index(t) - index(s) <= {window}) or index(t) < {few} or index(s) < {few}"
    else:
        made = workloads.blocks(random, length, 128, 0.9) if kind == "blocks" else workloads.vertical_slash(random, length, 8, 8)
        feeds["M"] = mask = torch.from_numpy(made).to(on.device)

    def program(where):
        return (f"program masked(h={heads}, s={length}, d={d}, t={length}, e={d})\ninput Q[h s d], K[h t d], V[h t e] : bf16\n" + ("input M[s t] : bool\n" if "M[" in where else "") +
                f"U[h s t] = sum[d] Q[h s d] * K[h t d]\nS[h s t] = {d ** -0.5!r} * U[h s t]\na[h s] = max[t] S[h s t]{where}\n"
                f"P[h s t] = exp(S[h s t] - a[h s]){where}\nl[h s] = sum[t] P[h s t]\nY[h s e] = sum[t] P[h s t] * V[h t e]\nO[h s e] : bf16 = Y[h s e] / l[h s]\noutput O\n")

    def right(out):
        rows = torch.cat([torch.arange(8), torch.randint(0, length, (248,))]).to(on.device)
        scores = (q[-1, rows].float() @ k[-1].float().t()) * d ** -0.5
        want = torch.softmax(scores.masked_fill(~mask[rows], -torch.inf), -1) @ v[-1].float()
        return ((out[-1, rows].float() - want).norm() / want.norm()).item()

    def flex():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        blocks = create_block_mask(lambda _, h, i, j: mask[i, j], None, None, length, length, device=on.device)
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda: compiled(q[None], k[None], v[None], block_mask=blocks)

    where = f" where {guard}"
    peer = flex() if on.device == "cuda" else lambda: None
    said = b.row(program(where), feeds, "bf16", (heads, length, d), right, peer)
    dense = b.Ours(program(""), {"Q": q, "K": k, "V": v}, (heads, length, d), "bf16")
    without = dense.us() if on.device == "cuda" else 0
    return said + f"; {mask.float().mean().item():.3f} let through, without a mask {without:.1f} us"


def product_text(n, kind, at, shape):
    return (f"program p(m={n}, k={n}, n={n})\ninput A[{at}] : {kind} sparse(zeros, tile {shape[0]}, {shape[1]})\ninput B[k n] : {kind}\n"
            f"C[m n] : {kind} = sum[k] A[{at}] * B[k n]\noutput C\n")


def cusparse(b, n, tile, live, form):
    on = b.on
    a = torch.randn(n, n, device=on.device) * b.cells(n, n, *tile, live)
    right = torch.randn(n, n, device=on.device)
    kept = a.to_sparse_csr() if form == "CSR" else a.to_sparse_bsr((32, 32))
    return b.row(product_text(n, "f32", "m k", tile), {"A": a, "B": right}, "f32", (n, n), b.apart(a @ right), lambda: kept @ right, {"sparse.A": f"zeros:{tile[0]}x{tile[1]}@{live}"})


def packed(b, n, live):
    on = b.on
    text = lambda shape: product_text(n, "f16", "k m", shape)
    columns = torch.randn(n, n, device=on.device).half()

    def given(wide):
        a = (torch.randn(n, n, device=on.device) * b.cells(n, n, 64, wide, live)).half()
        return {"A": a.t().contiguous(), "B": columns}

    plain = b.Ours(text((32, 64)), given(32), (n, n), "f16", {"sparse.A": f"zeros:32x64@{live}"})
    feeds = given(1)
    want = feeds["A"].t() @ columns
    return b.row(text((1, 64)), feeds, "f16", (n, n), b.apart(want), plain, {"sparse.A": f"zeros:1x64@{live}"})


def detect(b, n, kind, tile):
    """The copy has half of the bytes to read and half to write."""
    on = b.on
    a = (torch.randn(n, n, device=on.device) * b.cells(n, n, *tile, 0.05)).to(b.TYPES[kind])
    rows, columns = n // tile[0], n // tile[1]
    want = (a.view(rows, tile[0], columns, tile[1]) != 0).any(3).any(1)
    text = (f"program detect(i={rows}, j={columns}, r={tile[0]}, c={tile[1]})\ninput A[i r j c] : {kind}\nL[i j] = any[r c] A[i r j c] != 0\noutput L\n")
    half = a.flatten()[:n * n // 2]
    other = torch.empty_like(half)
    return b.row(text, {"A": a.view(rows, tile[0], columns, tile[1])}, "bool", (rows, columns), lambda out: float((out != want).sum().item()), lambda: other.copy_(half))


def listed(b, wanted, small):
    """(name, what measures it) of each row."""
    rows = []
    if "switch" in wanted:
        k, f = (64, 128) if small else (768, 3072)
        for kind in ("f16", "f32"):
            for batch in (2,) if small else (8, 32):
                for count in (8,) if small else (64, 128, 256):
                    rows.append((f"Switch layer, {kind}, batch {batch} x 128, {count} experts, beside the padded form", lambda a=(b, batch * 128, k, f, count, kind): switch(*a)))
    if "relu" in wanted:
        tokens, k, f = (256, 64, 256) if small else (4096, 4096, 16384)
        for live in (0.1, 0.05, 0.03):
            rows.append((f"feed-forward with ReLU, f16, {tokens} x {k} -> {f}, {100 - 100 * live:.0f} % zeros, the pair", lambda a=(b, tokens, k, f, live): relu(*a)))
    if "bert" in wanted:
        for kind in ("f16", "f32"):
            for sentences, longest in ((4, 32),) if small else ((32, 128), (4, 2048)):
                sizes = (2, kind, 64, 2, 128) if small else (12, kind)
                rows.append((f"BERT-base, {kind}, {sentences} x {longest}, beside the padded form", lambda a=(b, sentences, longest, *sizes): bert(*a)))
    if "attention" in wanted:
        for length in (256,) if small else (4096, 16384):
            for kind in ("window", "slashes", "blocks"):
                sizes = (2, length, 64) if small else (16, length, 128)
                rows.append((f"attention, bf16, {sizes[0]} heads, {length} x {sizes[2]}, {kind}, beside FlexAttention", lambda a=(b, kind, *sizes): attention(*a)))
    if "cusparse" in wanted:
        n = 256 if small else 4096
        for tile, form in (((32, 1), "CSR"), ((32, 64), "CSR"), ((32, 64), "BSR")):
            for live in (0.1, 0.05, 0.01):
                rows.append((f"f32 {n}^3, {tile[0]}x{tile[1]}, {100 * live:.0f} % live, beside {form}", lambda a=(b, n, tile, live, form): cusparse(*a)))
    if "packed" in wanted:
        for live in (0.5, 0.1, 0.05, 0.01):
            rows.append((f"f16, micro-tiles of 64x1 beside 64x32, {100 * live:.0f} % live", lambda a=(b, 256 if small else 4096, live): packed(*a)))
    if "detect" in wanted:
        for kind, tile in (("f16", (1, 32)), ("f16", (32, 1)), ("f32", (32, 1))):
            n = 256 if small else 4096
            rows.append((f"detection alone, {kind} {n}^2, {tile[0]}x{tile[1]}, beside a copy of as many bytes", lambda a=(b, n, kind, tile): detect(*a)))
    return rows
