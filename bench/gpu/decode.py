"""One query a sequence over a long cache, 32 heads of queries over 8 of keys, on a GPU: planned whole, as sessions plan it (the keys in parts
and what merges them), beside torch's attention and beside a copy of as many bytes. Every row is checked first. Medians by the GPU's clock.

    TILEWRIGHT_LIBRARY=libtilewright.so PYTHONPATH=python python3 bench/gpu/decode.py [--small --device cpu]

Caches of less than the L2 stay there between calls, ours and theirs. Of a copy's bytes one half is read and one half written.
"""
import argparse
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import sparse

ROWS = [(1, 8192), (1, 32768), (1, 131072), (8, 8192), (8, 32768), (64, 8192)]


def program(batch, heads, per, keys, d):
    return (f"program attention(b={batch}, g={heads}, r={per}, x={keys}, d={d}, e={d})\ninput Q[b g r d], K[b g x d], V[b g x e] : bf16\n"
            "S[b g r x] : f32 = sum[d] Q[b g r d] * K[b g x d] / sqrt(d)\nP[b g r x] : bf16 = softmax[x] S[b g r x]\n"
            "O[b g r e] : f32 = sum[x] P[b g r x] * V[b g x e]\nY[b g r e] : bf16 = O[b g r e]\noutput Y\n")


def best_of_torch(q, k, v, device):
    """The quickest way to say it, and its microseconds."""
    b, g, r, d = q.shape
    queries, times = q.reshape(b, g * r, 1, d), {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION), ("math", SDPBackend.MATH)):
        def call():
            with sdpa_kernel([backend]):
                return F.scaled_dot_product_attention(queries, k, v, enable_gqa=True)
        try:
            times[name] = (sparse.timed(call) if device == "cuda" else 1.0, call)
        except RuntimeError:
            continue
        if len(times) == 2:
            break
    return min(((us, name, call) for name, (us, call) in times.items()), key=lambda t: t[0])


def measure(batch, keys, device, heads=8, per=4, d=128):
    random = lambda *dims: torch.randn(*dims, device=device, dtype=torch.bfloat16)
    q, k, v = random(batch, heads, per, d), random(batch, heads, keys, d), random(batch, heads, keys, d)
    us, name, call = best_of_torch(q, k, v, device)
    want = torch.softmax(q.double() @ k[:, :, :, :].double().transpose(-1, -2) / math.sqrt(d), -1) @ v.double() if batch * keys <= 131072 else call().view(q.shape)
    said = sparse.row(program(batch, heads, per, keys, d), {"Q": q, "K": k, "V": v}, "bf16", tuple(q.shape), sparse.apart(want), call)
    moved = k.nbytes + v.nbytes
    space = torch.empty(2, moved // 4, device=device, dtype=torch.bfloat16)
    copy = sparse.timed(lambda: space[0].copy_(space[1])) if device == "cuda" else 1.0
    return f"{batch} x {keys}, {moved / 1e6:.0f} MB | {said} | {name} {us:.1f} | {copy:.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    sparse.on.device = given.device
    sparse.TYPES["bf16"], sparse.BOUND["bf16"] = torch.bfloat16, 1e-2
    print("| batch x keys, cache | ours us | torch us | times | apart | kernels | which | a copy's us |\n| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for batch, keys in [(1, 256), (2, 512)] if given.small else ROWS:
        torch.manual_seed(batch + keys)
        try:
            print(f"| {measure(batch, keys, given.device)} |", flush=True)
        except Exception as error:
            print(f"| {batch} x {keys} | failed: {type(error).__name__} {' '.join(str(error).split())[:300]} |", flush=True)
        if given.device == "cuda":
            torch.cuda.empty_cache()


main()
