"""Our kernels (bench_gpu dump DIR) and the vendor's libraries in one process, taking turns, their results compared first.

Microseconds a call: medians over replays of a graph of up to 40 calls over several sets of buffers. The peer of a pair is the better of two
ways to say it in torch: convolutions and ReLU6 as they are, or cuDNN's convolution with bias and activation in one call; of a matmul,
torch.mm without TF32. Prints a Markdown table, ratios first. A kernel that gives no answer within a minute is said so, and the rest goes on in
another process.

    python3 bench/gpu/peers.py DIR [--without PART]        PART of a name: those are left out
"""
import argparse
import ctypes
import datetime
import json
import math
import os
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
CALLS, ROUNDS, LIMIT, NO_ANSWER = 40, 9, 60, 9

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


def captured(call, sets):
    """A graph of several calls, fewer of long ones, and how many."""
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call(*sets[0])
    a.record()
    call(*sets[-1])
    b.record()
    torch.cuda.synchronize()
    calls = max(len(sets), min(CALLS, int(40 // a.elapsed_time(b))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph, calls


def replay_us(captured_calls):
    graph, calls = captured_calls
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    graph.replay()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b) / calls * 1e3


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


def matmul_case(f, copies):
    t = TYPES[f["dtype"]]
    m, n, k = f["n"], f["size"], f["c"]
    sets = [(torch.randn(m, k, device="cuda", dtype=t), torch.randn(k, n, device="cuda", dtype=t)) for _ in range(copies)]
    ours = [(*s, torch.full((m, n), math.nan, device="cuda", dtype=t)) for s in sets]
    # A part of the rows judges a product that is too long for doubles.
    return ours, sets, {"cuBLAS": torch.mm}, lambda a, b: a[:256].double() @ b.double(), ours[0][-1][:256]


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


def measure(folder, facts):
    size = facts["compulsory"]
    copies = max(2, min(8, int(6e9 // max(size, 1))))
    ours, theirs, calls, reference, judged = {"pair": pair_case, "matmul": matmul_case, "attention": attention_case}[facts["kind"]](facts, copies)
    kernel = Kernel(folder, facts)
    kernel(*ours[0])
    torch.cuda.synchronize()
    want = reference(*theirs[0])
    got = judged.double()
    error = ((got - want).norm() / want.norm()).item()
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
    return {name: statistics.median(t) for name, t in times.items()}, error


def row(folder, facts):
    times, error = measure(folder, facts)
    ours = times.pop("ours")
    if not times:
        return None
    peer = min(times, key=times.get)
    print(f"| {facts['name']} | {times[peer] / ours:.2f} | {ours:.1f} | {times[peer]:.1f} | {peer} | {facts['predicted'] * 1e6:.1f} | {facts['l2_bytes'] / 1e6:.1f} | "
          f"{facts['compulsory'] / 1e6:.1f} | {2e-6 * facts['multiply_adds'] / ours:.1f} | {error:.0e} |", flush=True)
    return times[peer] / ours


def no_answer(name):
    print(f"| {name} | no answer within {LIMIT} s |", flush=True)
    os._exit(NO_ANSWER)


def rows(folder, kernels, first, found):
    """Rows from the first kernel on, in a process of their own; ratios and where it stands are written to `found`."""
    for i, facts in enumerate(kernels):
        if i < first:
            continue
        watch = threading.Timer(LIMIT, no_answer, [facts["name"]])
        watch.daemon = True
        watch.start()
        with open(found, "a") as file:
            file.write(f"{i}\n")
        try:
            ratio = row(folder, facts)
        except RuntimeError as problem:
            print(f"| {facts['name']} | {str(problem).splitlines()[0]} |", flush=True)
            if "CUDA error" in str(problem):  # nothing more runs in this process
                os._exit(NO_ANSWER)
            ratio = None
        watch.cancel()
        if ratio:
            with open(found, "a") as file:
                file.write(f"{i} {ratio}\n")
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--without", help="PART of a name: those kernels are left out")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kernels = [k for k in json.load(open(f"{options.folder}/manifest.json")) if not options.without or options.without not in k["name"]]
    found = f"{options.folder}/ratios"
    if options.first is not None:
        torch.zeros(1, device="cuda")
        return rows(options.folder, kernels, options.first, found)
    versions = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print(f"{datetime.date.today()}, {torch.cuda.get_device_name()}, driver {versions}, CUDA {torch.version.cuda}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"TF32 off, clocks as found.\n")
    print("| kernel | peer over ours | ours, us | peer, us | which | predicted, us | L2 MB by the model | least MB | TFLOP/s | error |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    first = 0
    while first < len(kernels):
        code = subprocess.run([sys.executable, __file__, options.folder, "--first", str(first)] + (["--without", options.without] if options.without else []), check=False).returncode
        if code == 0:
            break
        first = int(open(found).read().split("\n")[-2].split()[0]) + 1 if os.path.exists(found) else len(kernels)
    ratios = [float(line.split()[1]) for line in open(found) if " " in line] if os.path.exists(found) else []
    if ratios:
        print(f"\nGeometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


main()
