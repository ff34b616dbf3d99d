"""Operands that are sparse where only the data knows, on a GPU, beside torch: products with micro-tiles of zeros, whole rows, lengths,
and rows by expert. Every row is checked against torch first. Times are of the whole run (what lives is found in it), medians of replays of a
graph by the GPU's clock; torch's are dense products, and for experts its grouped product with the sort, the gather and the activation.

    TILEWRIGHT_LIBRARY=libtilewright.so PYTHONPATH=python python3 bench/gpu/sparse.py [--rows matmul,rows,lengths,experts]

Patterns: cells live independently with the share that is said; lengths uniform in 1..128 of 512; experts drawn with a weight of 1 / (1 + rank)
for every second token and evenly for the others, ranks shuffled. Seeded. Prints a Markdown table.
"""
import argparse
import statistics

import torch

import tilewright

ROUNDS, REPLAYS = 9, 20
TYPES = {"f16": torch.half, "f32": torch.float}


def timed(work):
    """Microseconds of each of some replays of a graph with several calls."""
    calls = 10
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            work()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


def row(name, text, feeds, want, dense, options=None):
    session = tilewright.compile(text, device="cuda", **(options or {}))
    out = torch.zeros_like(want)
    session.run(None, feeds, out=[out])
    session.run(None, feeds, out=[out])
    torch.cuda.synchronize()
    apart = ((out.float() - want.float()).norm() / want.float().norm().clamp(min=1e-20)).item()
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(statistics.median(session.gpu_seconds()) * 1e6)
        theirs.append(timed(dense))
    a, b = statistics.median(ours), statistics.median(theirs)
    form = "; ".join(k.get("schedule", "") if isinstance(k, dict) else "" for k in session.plan["kernels"])
    print(f"| {name} | {a:.1f} | {b:.1f} | {b / a:.2f} | {apart:.1e} | {form} |", flush=True)
    session.close()


def cells(rows, columns, tall, wide, live):
    keep = torch.rand((rows + tall - 1) // tall, (columns + wide - 1) // wide, device="cuda") < live
    return keep.repeat_interleave(tall, 0).repeat_interleave(wide, 1)[:rows, :columns]


def products(n=4096):
    """f16: A lies with its rows side by side, as its producer would write it; f32: as usual."""
    for kind, tile, turned in (("f16", (32, 1), True), ("f16", (64, 1), True), ("f32", (32, 1), False), ("f32", (32, 64), False)):
        for live in (0.5, 0.1, 0.05, 0.01):
            a = (torch.randn(n, n, device="cuda") * cells(n, n, *tile, live)).to(TYPES[kind])
            b = torch.randn(n, n, device="cuda").to(TYPES[kind])
            given = a.t().contiguous() if turned else a
            at, shape = ("k m", tile[::-1]) if turned else ("m k", tile)
            text = (f"program p(m={n}, k={n}, n={n})\ninput A[{at}] : {kind} sparse(zeros, tile {shape[0]}, {shape[1]})\ninput B[k n] : {kind}\n"
                    f"C[m n] : {kind} = sum[k] A[{at}] * B[k n]\noutput C\n")
            row(f"{kind} {n}^3, {tile[0]}x{tile[1]}, {100 * live:.0f} % live", text, {"A": given, "B": b}, a @ b, lambda: torch.matmul(a, b),
                {"sparse.A": f"zeros:{shape[0]}x{shape[1]}@{live}"})


def whole_rows(n=4096):
    for live in (0.5, 0.1):
        keep = torch.rand(n, device="cuda") < live
        a = (torch.randn(n, 1024, device="cuda") * keep[:, None]).half()
        b = torch.randn(1024, n, device="cuda").half()
        text = f"program p(m={n}, k=1024, n={n})\ninput A[m k] : f16 sparse(mask M, tile 1, 1)\ninput M[m] : bool\ninput B[k n] : f16\nC[m n] : f16 = sum[k] A[m k] * B[k n]\noutput C\n"
        row(f"f16 {n} x 1024 x {n}, rows, {100 * live:.0f} % live", text, {"A": a, "M": keep, "B": b}, a @ b, lambda: torch.matmul(a, b), {"sparse.A": f"mask:M@{live}"})


def lengths(batch=32, longest=512, k=768, n=3072):
    have = torch.randint(1, 129, (batch,), device="cuda", dtype=torch.int32)
    x = torch.randn(batch, longest, k, device="cuda").half()
    w = (torch.randn(k, n, device="cuda") / k ** 0.5).half()
    live = torch.arange(longest, device="cuda")[None, :] < have[:, None]
    share = live.float().mean().item()
    text = (f"program p(b={batch}, s={longest}, k={k}, n={n})\ninput X[b s k] : f16 sparse(lengths L)\ninput L[b] : i32\ninput W[k n] : f16\n"
            "Y[b s n] : f16 = sum[k] X[b s k] * W[k n]\noutput Y\n")
    row(f"f16 {batch} x {longest} x {k} x {n}, lengths, {100 * share:.0f} % live", text, {"X": x, "L": have, "W": w}, (x * live[..., None]) @ w, lambda: torch.matmul(x, w),
        {"sparse.X": f"lengths:L@{share}"})


def experts(tokens=16384, k=1024, f=4096):
    for count in (8, 64, 128):
        for each in (1, 2):
            weight = 1 / (1 + torch.randperm(count, device="cuda").float())
            drawn = torch.multinomial(weight.expand(tokens, count), each)
            even = torch.rand(tokens, count, device="cuda").argsort(1)[:, :each]
            chosen = torch.where((torch.arange(tokens, device="cuda") % 2 == 0)[:, None], drawn, even).long()
            x = torch.randn(tokens, k, device="cuda").half()
            w = (torch.randn(count, k, f, device="cuda") / k ** 0.5).half()
            v = (torch.randn(count, f, k, device="cuda") / f ** 0.5).half()
            gate = torch.rand(tokens, each, device="cuda").half()

            def grouped():
                flat = chosen.flatten()
                order = flat.argsort(stable=True)
                ends = torch.bincount(flat, minlength=count).cumsum(0).int()
                h = torch._grouped_mm(x.bfloat16()[order // each], wb, offs=ends).relu()
                y = torch._grouped_mm(h, vb, offs=ends)
                back = torch.empty_like(y)
                back[order] = y
                return (back.view(tokens, each, k) * gate[..., None]).sum(1)

            wb, vb = w.bfloat16(), v.bfloat16()
            at, listed = ("t", "t") if each == 1 else ("t j", "t, j")
            text = (f"program p(t={tokens}, j={each}, e={count}, k={k}, f={f})\ninput X[t k] : f16\ninput W[e k f], V[e f k] : f16\ninput key[{at}] : index(e)\ninput G[{at}] : f16\n"
                    f"U[{at} f] = sum[k] X[t k] * W[key[{listed}], k, f]\nH[{at} f] : f16 = max(U[{at} f], 0)\nD[{at} k] = sum[f] H[{at} f] * V[key[{listed}], f, k]\n")
            text += "Y[t k] : f16 = D[t k] * G[t]\noutput Y\n" if each == 1 else "E[t j k] : f16 = D[t j k] * G[t j]\nY[t k] : f16 = sum[j] E[t j k]\noutput Y\n"
            feeds = {"X": x, "W": w, "V": v, "key": chosen.flatten().contiguous() if each == 1 else chosen.contiguous(), "G": gate.flatten().contiguous() if each == 1 else gate}
            row(f"{tokens} tokens, {count} experts, top-{each}", text, feeds, grouped(), grouped)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="matmul,rows,lengths,experts")
    rows = parser.parse_args().rows.split(",")
    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}; TF32 off\n")
    print("| work | ours us | torch us | times | apart | schedule |\n| --- | --- | --- | --- | --- | --- |")
    for name, part in (("matmul", products), ("rows", whole_rows), ("lengths", lengths), ("experts", experts)):
        if name in rows:
            part()


if __name__ == "__main__":
    main()
