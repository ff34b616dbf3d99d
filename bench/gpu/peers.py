"""Our kernels (bench_gpu dump DIR) and the vendor's libraries in one process, taking turns, their results compared first.

Microseconds a call: medians over replays of a graph of calls over several sets of buffers. The peer of a pair is the better of two
ways to say it in torch: convolutions and ReLU6 as they are, or cuDNN's convolution with bias and activation in one call; of a matmul,
torch.mm without TF32. Prints a Markdown table, ratios first, every row as it comes.

The rows are measured by a process that this one watches: a kernel that has no row after LIMIT seconds (40) is left out with the process
that waits for it, and another one goes on with the next.

    python3 bench/gpu/peers.py DIR [LIMIT]
"""
import ctypes
import datetime
import json
import math
import os
import queue
import re
import statistics
import subprocess
import sys
import threading

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
TYPES = {"f16": torch.half, "bf16": torch.bfloat16, "f32": torch.float}
CALLS, ROUNDS = 40, 7     # at most; long kernels are called as often as fills a replay of SECONDS
SECONDS = 0.02

driver = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code:
        raise RuntimeError(f"{what}: CUDA error {code}")


def described(m, tensor):
    """What the copy engine is told of a tensor whose boxes it brings: 128 bytes, which begin on 64."""
    space = (ctypes.c_ubyte * 192)()
    at = (ctypes.addressof(space) + 63) // 64 * 64
    dims, strides = (ctypes.c_uint64 * len(m["dims"]))(*m["dims"]), (ctypes.c_uint64 * len(m["strides"]))(*m["strides"])
    box, steps = (ctypes.c_uint32 * len(m["box"]))(*m["box"]), (ctypes.c_uint32 * len(m["box"]))(*[1] * len(m["box"]))
    kind = {"u8": 0, "i8": 0, "i32": 3, "f16": 6, "f32": 7, "bf16": 9}[m["dtype"]]
    check(driver.cuTensorMapEncodeTiled(ctypes.c_void_p(at), kind, len(dims), ctypes.c_void_p(tensor.data_ptr()), dims, strides, box, steps, 0, 3, 3, 0), "box")
    held = (ctypes.c_ubyte * 128).from_address(at)
    held.space = space
    return held


class Kernel:
    """One of our kernels, from machine code."""

    def __init__(self, folder, facts):
        code = open(f"{folder}/{facts['name']}.cubin", "rb").read()
        module, self.function, self.facts = ctypes.c_void_p(), ctypes.c_void_p(), facts
        check(driver.cuModuleLoadData(ctypes.byref(module), code), "module")
        check(driver.cuModuleGetFunction(ctypes.byref(self.function), module, facts["entry"].encode()), "entry")
        if facts["scratch"] > 48 * 1024:
            check(driver.cuFuncSetAttribute(self.function, 8, facts["scratch"]), "scratch")

    def __call__(self, *tensors):
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        for m in self.facts["maps"]:
            pointers[m["argument"]] = described(m, tensors[m["argument"]])
        arguments = (ctypes.c_void_p * len(pointers))(*[ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in pointers])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        f = self.facts
        check(driver.cuLaunchKernel(self.function, f["blocks"], 1, 1, f["threads"], 1, 1, f["scratch"], stream, arguments, None), "launch")


def milliseconds(call):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    call()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b)


def captured(call, sets):
    """A graph and how many calls it holds."""
    call(*sets[0])
    once = milliseconds(lambda: call(*sets[-1]))
    calls = max(3, min(CALLS, int(SECONDS * 1e3 / max(once, 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph, calls


def replay_us(captured):
    graph, calls = captured
    return milliseconds(graph.replay) / calls * 1e3


def relu6_pair(x, v, a, w, b, stride):
    if stride == 2 and x.shape[2] % 2 == 0:  # what an even size lacks is behind the last row
        return F.relu6(F.conv2d(F.relu6(F.conv2d(F.pad(x, (0, 1, 0, 1)), v, a, stride=2, groups=x.shape[1])), w, b))
    return F.relu6(F.conv2d(F.relu6(F.conv2d(x, v, a, stride=stride, padding=1, groups=x.shape[1])), w, b))


def cudnn_pair(x, v, a, w, b, stride):
    """With ReLU in place of ReLU6, which cuDNN does not join: the same work, another result."""
    y = torch.cudnn_convolution_relu(x, v, a, (stride, stride), (1, 1), (1, 1), x.shape[1])
    return torch.cudnn_convolution_relu(y, w, b, (1, 1), (0, 0), (1, 1), 1)


def pair_case(f, copies):
    t = TYPES[f["dtype"]]
    n, size, c, k, stride = (f[key] for key in ("n", "size", "c", "f", "stride"))
    ours, theirs = [], []
    for _ in range(copies):
        x = torch.randn(n, size, size, c, device="cuda", dtype=t)
        v = torch.randn(3, 3, c, device="cuda", dtype=t) / 3
        a, b = (torch.randn(m, device="cuda", dtype=t) for m in (c, k))
        w = torch.randn(k, c, device="cuda", dtype=t) / c**0.5
        out = (size + stride - 1) // stride
        z = torch.full((n, out, out, k), math.nan, device="cuda", dtype=t)
        ours.append((x, v, a, w, b, z))
        vt = v.permute(2, 0, 1).unsqueeze(1).contiguous(memory_format=torch.channels_last)
        theirs.append((x.permute(0, 3, 1, 2), vt, a, w.view(k, c, 1, 1).contiguous(memory_format=torch.channels_last), b))
    calls = {"torch": lambda *s: relu6_pair(*s, stride)}
    if stride == 1:
        calls["cuDNN fused"] = lambda *s: cudnn_pair(*s, stride)
    reference = lambda x, v, a, w, b: relu6_pair(*(i.double() for i in (x, v, a, w, b)), stride).permute(0, 2, 3, 1)
    return ours, theirs, calls, reference, ours[0][-1]


def gate_peer():
    """The product as it is, what stands behind it in one kernel of torch.compile."""
    behind = torch.compile(lambda c, g: F.silu(c) * g)
    return lambda a, b, g: behind(torch.mm(a, b), g)


def matmul_case(f, copies):
    t, behind = TYPES[f["dtype"]], f["behind"]
    m, n, k = f["n"], f["size"], f["c"]
    more = {"bias": (n,), "relu": (n,), "residual": (m, n), "gate": (m, n)}.get(behind)
    random = lambda *dims: torch.randn(*dims, device="cuda", dtype=t)
    sets = [(random(m, k), random(k, n) / k**0.5, *([random(*more)] if more else [])) for _ in range(copies)]
    named = lambda s: {"A": s[0], "B": s[1], **{name: s[2] for name in "bRG" if more}, "D": torch.full((m, n), math.nan, device="cuda", dtype=t)}
    sources = [named(s) for s in sets]
    calls = {
        "": {"cuBLAS": torch.mm},
        "bias": {"addmm": lambda a, b, c: torch.addmm(c, a, b)},
        "relu": {"addmm and activation": lambda a, b, c: torch._addmm_activation(c, a, b)},
        "residual": {"addmm": lambda a, b, c: torch.addmm(c, a, b)},
        "gate": {"cuBLAS, then compiled": gate_peer()},
        "normed": {"cuBLAS without the norm": torch.mm, "norm, then cuBLAS": lambda a, b: torch.mm(F.rms_norm(a, a.shape[-1:], eps=1e-5), b)},
    }[behind]

    def some(a, b, c=None):  # a part of the rows judges a product that is too long for doubles
        y = a[:256].double() @ b.double()
        c = c if c is None else c.double() if c.dim() == 1 else c[:256].double()
        return {"": lambda: y, "bias": lambda: y + c, "relu": lambda: (y + c).relu(), "residual": lambda: y + c, "gate": lambda: F.silu(y) * c,
                "normed": lambda: y * torch.rsqrt(a[:256].double().square().mean(-1, keepdim=True) + 1e-5)}[behind]()

    return [tuple(s[name] for name in f["inputs"]) for s in sources], sets, calls, some, sources[0]["D"][:256]


def seen_by(f, q, x):
    """Which keys a query sees; q and x are indices, of any shape that goes together."""
    last = q + f["keys"] - f["queries"]
    seen = x >= 0
    if f["causal"] or f["window"]:
        seen = seen & (x <= last)
    if f["window"]:
        seen = seen & (x > last - f["window"])
    return seen


def flex_peer(f, slope, length):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    per = f["queries_heads"]

    def score(s, b, h, q, x):
        if f["softcap"]:
            s = torch.tanh(s / 20) * 20
        return s + slope[h] * (x - q) if f["alibi"] else s

    def mask(b, h, q, x):
        seen = seen_by(f, q, x)
        return seen & (x <= length[h // per]) if f["lengths"] else seen

    masked = f["causal"] or f["window"] or f["lengths"]
    blocks = create_block_mask(mask, None, f["heads"] * per if f["lengths"] else None, f["queries"], f["keys"], device="cuda") if masked else None
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q.flatten(0, 1).unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), score_mod=score if f["softcap"] or f["alibi"] else None, block_mask=blocks, enable_gqa=per > 1)


def attention_case(f, copies):
    t = TYPES[f["dtype"]]
    heads, per, queries, keys = f["heads"], f["queries_heads"], f["queries"], f["keys"]
    random = lambda *dims: torch.randn(*dims, device="cuda", dtype=t)
    sets = [(random(heads, per, queries, f["depth"]), random(heads, keys, f["depth"]), random(heads, keys, f["width"])) for _ in range(copies)]
    slope = -torch.rand(heads * per, device="cuda") / 8
    length = torch.randint(0, keys, (heads,), device="cuda")
    named = lambda s: {"Q": s[0], "K": s[1], "V": s[2], "slope": slope, "length": length, "L": torch.full((heads, per, queries), math.nan, device="cuda"),
                       "Y": torch.full((heads, per, queries, f["width"]), math.nan, device="cuda", dtype=t)}
    sources = [named(s) for s in sets]
    ours = [tuple(n[name] for name in f["inputs"]) for n in sources]

    def by(backend):
        def call(q, k, v):
            with sdpa_kernel([backend]):
                return F.scaled_dot_product_attention(q.flatten(0, 1).unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), is_causal=f["causal"], enable_gqa=per > 1)

        return call

    def some(q, k, v):  # rows of one head judge the rest: the last ones, which see most keys
        rows = torch.arange(max(0, queries - 256), queries, device="cuda")
        q, k, v = q[:1, :1, rows[0] :].double(), k[:1, None].double(), v[:1, None].double()
        scores, x = q @ k.transpose(-1, -2) / f["depth"] ** 0.5, torch.arange(keys, device="cuda")
        if f["softcap"]:
            scores = torch.tanh(scores / 20) * 20
        if f["alibi"]:
            scores = scores + slope[0].double() * (x[None] - rows[:, None])
        seen = seen_by(f, rows[:, None], x[None]) & ((x <= length[0]) if f["lengths"] else True)
        if f["weights"] == "sigmoid":
            return torch.where(seen, torch.sigmoid(scores), 0.0) @ v
        if f["weights"] == "l2":
            return scores / scores.norm(dim=-1, keepdim=True) @ v
        return torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ v

    plain = not (f["window"] or f["alibi"] or f["softcap"] or f["lengths"]) and f["weights"] == "softmax"
    if plain:
        calls = {"cuDNN": by(SDPBackend.CUDNN_ATTENTION), "flash": by(SDPBackend.FLASH_ATTENTION)}
    elif f["weights"] == "softmax":
        calls = {"FlexAttention": flex_peer(f, slope, length)}
    else:  # nobody has it: softmax of the same shape
        calls = {"cuDNN's softmax": by(SDPBackend.CUDNN_ATTENTION)}
    return ours, sets, calls, some, sources[0]["Y"][:1, :1, max(0, queries - 256) :]


def judged_part(facts, got, want):
    """Of a peer's result what is judged of ours: the first rows of a product, the last ones of the first head."""
    return got[: want.shape[0]] if facts["kind"] == "matmul" else got.flatten(0, -3)[0, -want.shape[-2] :].reshape(want.shape)


def apart(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def beside_peers(facts, kernel, ours, theirs, calls, reference, judged):
    """Errors of ours and of each peer on the same inputs: as they are, with outliers of 1e4, and whether NaN is where doubles have it."""
    said = []
    calls = {name: call for name, call in calls.items() if "without" not in name and "softmax" not in name}  # those compute something else
    for change in ("as drawn", "outliers"):
        if change == "outliers":
            for x in theirs[:2]:
                x.masked_fill_(torch.rand(x.shape, device=x.device) < 1e-4, 1e4)
        want = reference(*theirs)
        kernel(*ours)
        errors = {"ours": apart(judged, want)}
        for name, call in calls.items():
            try:
                errors[name] = apart(judged_part(facts, call(*theirs), want), want)
            except RuntimeError:
                continue
        said.append(f"{change}: " + ", ".join(f"{name} {error:.1e}" for name, error in errors.items()))
    one = theirs[0 if facts["kind"] == "matmul" else 1]       # of the first row, or of the first key of each head
    one.view(-1, *one.shape[-2:])[:, 0, 0] = math.nan
    want = reference(*theirs)
    kernel(*ours)
    said.append("NaN as in doubles" if bool((judged.isnan() == want.isnan()).all()) else "NaN ELSEWHERE")
    return "; ".join(said)


def measure(folder, facts):
    size = facts["compulsory"]
    copies = max(2, min(8, int(6e9 // max(size, 1))))
    ours, theirs, calls, reference, judged = {"pair": pair_case, "matmul": matmul_case, "attention": attention_case}[facts["kind"]](facts, copies)
    kernel = Kernel(folder, facts)
    kernel(*ours[0])
    torch.cuda.synchronize()
    want = reference(*theirs[0])
    error = apart(judged, want)
    if not error < {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2}[facts["dtype"]]:
        raise RuntimeError(f"{facts['name']}: error {error}")
    graphs = {"ours": captured(kernel, ours)}
    for name, call in calls.items():
        try:
            graphs[name] = captured(call, theirs)
        except RuntimeError as e:
            print(f"{facts['name']}: {name} refuses: {str(e).splitlines()[0]}", file=sys.stderr)
            torch.cuda.synchronize()
    for g in graphs.values():
        replay_us(g)
    times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, g in graphs.items():
            times[name].append(replay_us(g))
    return {name: statistics.median(t) for name, t in times.items()}, error, "" if facts["kind"] == "pair" else beside_peers(facts, kernel, ours[0], theirs[0], calls, reference, judged)


def row(facts, times, error, beside):
    ours = times.pop("ours")
    peer = min(times, key=times.get)
    all_of_them = ", ".join(f"{name} {us:.1f}" for name, us in sorted(times.items(), key=lambda t: t[1]))
    print(f"| {facts['name']} | {times[peer] / ours:.2f} | {ours:.1f} | {all_of_them} | {facts['predicted'] * 1e6:.1f} | {facts['l2_bytes'] / 1e6:.1f} | "
          f"{facts['compulsory'] / 1e6:.1f} | {2e-6 * facts['multiply_adds'] / ours:.1f} | {facts['compulsory'] / 1e3 / ours:.0f} | {error:.0e} | {beside} | {facts['schedule']} |")


def measure_from(folder, manifest, first):
    """The process that measures: a line that begins with '|' or '!' for each kernel."""
    torch.zeros(1, device="cuda")
    for facts in manifest[first:]:
        try:
            row(facts, *measure(folder, facts))
        except Exception as e:
            print(f"! {facts['name']}: {' '.join(str(e).split())[:200]}")
        sys.stdout.flush()
        torch.cuda.synchronize()           # raises where a kernel has broken the context: another process goes on
        torch.cuda.empty_cache()


def rows_of(folder, manifest, limit):
    """Its lines, one for each kernel, with another process behind one that hangs or dies."""
    done = 0
    while done < len(manifest):
        worker = subprocess.Popen([sys.executable, __file__, folder, str(limit), str(done)], stdout=subprocess.PIPE, text=True)
        lines = queue.Queue()

        def read(pipe=worker.stdout, lines=lines):
            for line in pipe:
                if line[0] in "|!":
                    lines.put(line.rstrip())
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        first, said = done, True
        while said and done < len(manifest):
            try:
                said = lines.get(timeout=limit + (30 if done == first else 0))   # it must find torch and the card first
                ended = said is None and done > first                            # behind a row that it could still print
            except queue.Empty:
                said, ended = None, False
            if not ended:
                yield said or f"! {manifest[done]['name']}: nothing after {limit} s"
                done += 1
        worker.kill()
        worker.wait()


def main():
    folder, limit = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 40.0
    manifest = json.load(open(f"{folder}/manifest.json"))
    if len(sys.argv) > 3:
        return measure_from(folder, manifest, int(sys.argv[3]))
    versions = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print(f"{datetime.date.today()}, {versions}, CUDA {torch.version.cuda}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, TF32 off, clocks as found.\n")
    print("| kernel | peer over ours | ours, us | peers, us | predicted, us | L2 MB by the model | least MB | TFLOP/s | GB/s | error | errors beside the peers' | schedule |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    families = {}
    for line in rows_of(folder, manifest, limit):
        print(line, flush=True)
        if line[0] == "|":
            name, ratio = [cell.strip() for cell in line.split("|")[1:3]]
            families.setdefault(re.sub(r"_h\d+_\d+|\d+x\d+x\d+", "", name), []).append(float(ratio))
    print()
    for name, ratios in families.items():
        print(f"{name}: geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
    sys.stdout.flush()
    os._exit(0)                            # readers of processes that hang need not end


main()
