"""Operands that are sparse where only the data knows, on a GPU, beside torch: products with micro-tiles of zeros, whole rows, lengths,
and rows by expert. Every row is checked against torch first. Times are of the whole run (what lives is found in it), medians by the GPU's
clock; torch's are dense products in a replayed graph, and for experts its grouped product with the sort, the gather and the activation.

    TILEWRIGHT_LIBRARY=libtilewright.so PYTHONPATH=python python3 bench/gpu/sparse.py [--rows matmul,rows,lengths,experts]

Further rows (bench/gpu/sparse_layers.py): switch, relu, bert, attention, cusparse, packed, detect.

Patterns: cells live independently with the share that is said; lengths uniform in 1..128 of 512; experts drawn with a weight of 1 / (1 + rank)
for every second token and evenly for the others, ranks shuffled. Seeded by row. Prints a Markdown table: a row that fails says why, and the
rows behind one that hangs or breaks the context are measured by a fresh process. The last column: what is gathered, tiles, and what the
longest kernels take (profiled).
"""
import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

import torch

import tilewright

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import sparse_layers  # noqa: E402

TYPES = {"f16": torch.half, "bf16": torch.bfloat16, "f32": torch.float, "bool": torch.bool}
BOUND = {"f16": 5e-3, "bf16": 2e-2, "f32": 1e-5, "bool": 0}
on = argparse.Namespace(device="cuda", rounds=5)


def timed(work, calls=4, replays=10):
    """Microseconds of one call: the median of replays of a graph with several."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            work()
    graph.replay()
    times = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


def kernels(work):
    """The longest kernels of one call, by name and microseconds."""
    if on.device != "cuda":
        return ""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    spent = sorted(((e.self_device_time_total, e.key) for e in profile.key_averages()), reverse=True)
    return ", ".join(f"{name[:24]} {us:.0f}" for us, name in spent[:6] if us > 0)


def form(session):
    """What each kernel gathers, and its steps."""
    said = []
    for k in session.plan["kernels"]:
        steps = " ".join(f"{s['axis']}:{s['how']}:{s['size']}" for s in k.get("schedule", []))
        gathered = " ".join(f"{g['tensor']} {'x'.join(map(str, g['micro_tile']))}" for g in k.get("through") or k.get("gathered") or [])
        said.append(f"{k['name']} [{gathered or 'nothing gathered'}] {steps}, {k.get('cost', {}).get('microseconds', 0):.0f} expected")
    return "; ".join(said)


class Ours:
    """Another session of ours, to stand beside one."""

    def __init__(self, text, feeds, shape, kind, options=None):
        self.session = tilewright.compile(text, device=on.device, **(options or {}))
        self.session.run(None, feeds, out=[torch.empty(shape, device=on.device, dtype=TYPES[kind])])

    def us(self):
        return statistics.median(self.session.gpu_seconds(10)) * 1e6


def row(text, feeds, kind, shape, right, dense, options=None):
    """right: from the result, how far it is from what torch says."""
    session = tilewright.compile(text, device=on.device, **(options or {}))
    out = torch.full(shape, 0 if kind == "bool" else float("nan"), device=on.device, dtype=TYPES[kind])
    run = lambda: session.run(None, feeds, out=[out])
    for _ in range(2):
        run()
    if on.device == "cuda":
        torch.cuda.synchronize()
    apart = right(out)
    mark = "" if apart <= BOUND[kind] else " WRONG"
    ours, theirs = [], []
    for _ in range(on.rounds):
        ours.append(statistics.median(session.gpu_seconds(10)) * 1e6 if on.device == "cuda" else 0.0)
        theirs.append(0.0 if on.device != "cuda" else dense.us() if isinstance(dense, Ours) else timed(dense))
    a, b = statistics.median(ours), statistics.median(theirs)
    text = f"{a:.1f} | {b:.1f} | {b / max(a, 1e-9):.2f} | {apart:.1e}{mark} | {form(session)}"
    try:
        text += f"; spent: {kernels(run)}"
    except RuntimeError as error:
        text += f"; not profiled: {str(error)[:80]}"
    session.close()
    return text


def apart(want):
    return lambda out: ((out.float() - want.float()).norm() / want.float().norm().clamp(min=1e-20)).item()


def cells(rows, columns, tall, wide, live):
    keep = torch.rand((rows + tall - 1) // tall, (columns + wide - 1) // wide, device=on.device) < live
    return keep.repeat_interleave(tall, 0).repeat_interleave(wide, 1)[:rows, :columns]


def product(n, kind, tile, turned, live):
    """f16: A lies with its rows side by side, as its producer would write it; f32: as usual."""
    a = (torch.randn(n, n, device=on.device) * cells(n, n, *tile, live)).to(TYPES[kind])
    b = torch.randn(n, n, device=on.device).to(TYPES[kind])
    given = a.t().contiguous() if turned else a
    at, shape = ("k m", tile[::-1]) if turned else ("m k", tile)
    text = (f"program p(m={n}, k={n}, n={n})\ninput A[{at}] : {kind} sparse(zeros, tile {shape[0]}, {shape[1]})\ninput B[k n] : {kind}\n"
            f"C[m n] : {kind} = sum[k] A[{at}] * B[k n]\noutput C\n")
    return row(text, {"A": given, "B": b}, kind, (n, n), apart(a @ b), lambda: torch.matmul(a, b), {"sparse.A": f"zeros:{shape[0]}x{shape[1]}@{live}"})


def whole_rows(n, k, live):
    keep = torch.rand(n, device=on.device) < live
    a = (torch.randn(n, k, device=on.device) * keep[:, None]).half()
    b = torch.randn(k, n, device=on.device).half()
    text = (f"program p(m={n}, k={k}, n={n})\ninput A[m k] : f16 sparse(mask M, tile 1, 1)\ninput M[m] : bool\ninput B[k n] : f16\n"
            "C[m n] : f16 = sum[k] A[m k] * B[k n]\noutput C\n")
    return row(text, {"A": a, "M": keep, "B": b}, "f16", (n, n), apart(a @ b), lambda: torch.matmul(a, b), {"sparse.A": f"mask:M@{live}"})


def lengths(batch, longest, k, n):
    have = torch.randint(1, longest // 4 + 1, (batch,), device=on.device, dtype=torch.int32)
    x = torch.randn(batch, longest, k, device=on.device).half()
    w = (torch.randn(k, n, device=on.device) / k ** 0.5).half()
    live = torch.arange(longest, device=on.device)[None, :] < have[:, None]
    text = (f"program p(b={batch}, s={longest}, k={k}, n={n})\ninput X[b s k] : f16 sparse(lengths L)\ninput L[b] : i32\ninput W[k n] : f16\n"
            "Y[b s n] : f16 = sum[k] X[b s k] * W[k n]\noutput Y\n")
    return row(text, {"X": x, "L": have, "W": w}, "f16", (batch, longest, n), apart((x * live[..., None]) @ w), lambda: torch.matmul(x, w),
               {"sparse.X": f"lengths:L@{live.float().mean().item():.3f}"})


def grouped_product():
    """torch's product of groups of rows, by whatever name it has; none: there is nothing beside ours."""
    return getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm


def drawn(tokens, count, each):
    weight = 1 / (1 + torch.randperm(count, device=on.device).float())
    skewed = torch.multinomial(weight.expand(tokens, count), each)
    even = torch.rand(tokens, count, device=on.device).argsort(1)[:, :each]
    return torch.where((torch.arange(tokens, device=on.device) % 2 == 0)[:, None], skewed, even).long()


def experts(tokens, k, f, count, each):
    chosen = drawn(tokens, count, each)
    x = torch.randn(tokens, k, device=on.device).half()
    w = (torch.randn(count, k, f, device=on.device) / k ** 0.5).half()
    v = (torch.randn(count, f, k, device=on.device) / f ** 0.5).half()
    gate = torch.rand(tokens, each, device=on.device).half()
    xb, wb, vb, gates = x.bfloat16(), w.bfloat16(), v.bfloat16(), gate.bfloat16()

    def peer():
        flat = chosen.flatten()
        listed, order = flat.sort(stable=True)
        ends = torch.searchsorted(listed, torch.arange(count, device=on.device), right=True).int()
        h = grouped_product()(xb[order // each], wb, offs=ends).relu()
        y = grouped_product()(h, vb, offs=ends)
        back = torch.empty_like(y)
        back[order] = y
        return (back.view(tokens, each, k) * gates[..., None]).sum(1)

    def right(out, looked_at=48):
        far, size = 0.0, 0.0
        for t in torch.randperm(tokens)[:looked_at].tolist():
            one = lambda j: ((x[t].float() @ w[chosen[t, j]].float()).relu().half().float() @ v[chosen[t, j]].float()) * gate[t, j].float()
            want = sum(one(j) for j in range(each))
            far += (out[t].float() - want).square().sum().item()
            size += want.square().sum().item()
        return (far / size) ** 0.5

    at, listed = ("t", "t") if each == 1 else ("t j", "t, j")
    text = (f"program p(t={tokens}, j={each}, e={count}, k={k}, f={f})\ninput X[t k] : f16\ninput W[e k f], V[e f k] : f16\ninput key[{at}] : index(e)\ninput G[{at}] : f16\n"
            f"U[{at} f] = sum[k] X[t k] * W[key[{listed}], k, f]\nH[{at} f] : f16 = max(U[{at} f], 0)\nD[{at} k] = sum[f] H[{at} f] * V[key[{listed}], f, k]\n")
    text += "Y[t k] : f16 = D[t k] * G[t]\noutput Y\n" if each == 1 else "E[t j k] : f16 = D[t j k] * G[t j]\nY[t k] : f16 = sum[j] E[t j k]\noutput Y\n"
    flat = (lambda t: t.flatten().contiguous()) if each == 1 else (lambda t: t.contiguous())
    return row(text, {"X": x, "W": w, "V": v, "key": flat(chosen), "G": flat(gate)}, "f16", (tokens, k), right, peer)


def listed(wanted, small):
    """(name, what measures it) of each row."""
    n, tokens, k, f = (256, 512, 64, 128) if small else (4096, 16384, 1024, 4096)
    rows = []
    if "matmul" in wanted:
        for kind, tile, turned in (("f16", (64, 1), True), ("f16", (32, 1), True), ("f32", (32, 1), False), ("f32", (32, 64), False)):
            for live in (0.5, 0.1, 0.05, 0.01):
                rows.append((f"{kind} {n}^3, {tile[0]}x{tile[1]}, {100 * live:.0f} % live", lambda a=(n, kind, tile, turned, live): product(*a)))
    if "rows" in wanted:
        rows += [(f"f16 {n} x {k} x {n}, rows, {100 * live:.0f} % live", lambda a=(n, k, live): whole_rows(*a)) for live in (0.5, 0.1)]
    if "lengths" in wanted:
        sizes = (4, 64, 64, 96) if small else (32, 512, 768, 3072)
        rows.append((f"f16 {' x '.join(map(str, sizes))}, lengths", lambda: lengths(*sizes)))
    if "experts" in wanted:
        for count in (8,) if small else (8, 64, 128):
            rows += [(f"{tokens} tokens, {count} experts, top-{each}", lambda a=(tokens, k, f, count, each): experts(*a)) for each in (1, 2)]
    return rows + sparse_layers.listed(sys.modules[__name__], wanted, small)


def measure(rows, first):
    """In a process of its own: a line a row. A context that is broken ends it."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for i, (name, work) in enumerate(rows[first:], first):
        torch.manual_seed(7 + i)
        try:
            said = work()
        except Exception as error:
            said = f"failed: {type(error).__name__} {' '.join(str(error).split())[:400]}"
        print(f"ROW {i} {said}", flush=True)
        if on.device == "cuda":
            torch.cuda.synchronize()  # raises where the context is broken
            torch.cuda.empty_cache()


def lines(process, limit):
    """What the process prints; it is killed where it says nothing for too long."""
    while True:
        watch = threading.Timer(limit, process.kill)
        watch.start()
        line = process.stdout.readline()
        watch.cancel()
        if not line:
            return
        yield line.rstrip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="matmul,rows,lengths,experts")
    parser.add_argument("--limit", type=float, default=40, help="seconds that a row may take")
    parser.add_argument("--device", default="cuda", help="cpu: only whether the rows are right")
    parser.add_argument("--small", action="store_true", help="small sizes")
    parser.add_argument("--from", type=int, default=-1, dest="first", help=argparse.SUPPRESS)
    given = parser.parse_args()
    on.device = given.device
    rows = listed(given.rows.split(","), given.small)
    if given.first >= 0:
        return measure(rows, given.first)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if on.device == 'cuda' else on.device}; TF32 off\n")
    print("| work | ours us | torch us | times | apart | kernels |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    done, begin = 0, time.monotonic()
    while done < len(rows):
        process = subprocess.Popen([sys.executable, *sys.argv, "--from", str(done)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        start, last = done, ""
        for line in lines(process, given.limit):
            if line.startswith("ROW "):
                number, said = line[4:].split(" ", 1)
                print(f"| {rows[int(number)][0]} | {said} |", flush=True)
                done = int(number) + 1
            elif line.strip():
                last = line.strip()
        code = process.wait()
        if done < len(rows) and (code == 0 or done == start or code < 0):
            print(f"| {rows[done][0]} | ended with {code}: {last[:300]} |", flush=True)
            done += 1
    print(f"\n{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
