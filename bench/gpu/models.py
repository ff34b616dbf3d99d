"""Whole networks on a GPU: ours, and torch's two best ways (eager in a CUDA graph, torch.compile with frozen weights in one), in one
process, taking turns. Each network is made by torchvision or timm with seeded weights and exported to ONNX, so that all run the same
weights; results are compared with the same network in fp32 before anything is timed. TF32 is off on both sides.

    TILEWRIGHT_LIBRARY=libtilewright.so PYTHONPATH=python python3 bench/gpu/models.py [--rows mobilenet_v2:f16:1,...] [--no-compile]

Microseconds a run on the GPU alone: medians over replays of a graph by the GPU's clock. Prints a Markdown table.
"""
import argparse
import datetime
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import tilewright

ROUNDS, REPLAYS = 9, 20
TYPES = {"f16": torch.half, "bf16": torch.bfloat16, "f32": torch.float}
ROWS = "mobilenet_v2:f16:1,mobilenet_v2:f16:32,mobilenet_v2:f32:1"
NAMES = {"mobilenet_v1": "timm:mobilenetv1_100", "mobilenet_v2": "torchvision:mobilenet_v2", "mobilenet_v3_large": "torchvision:mobilenet_v3_large",
         "mobilenet_v4_conv_m": "timm:mobilenetv4_conv_medium", "mnasnet_b1": "torchvision:mnasnet1_0", "proxylessnas_gpu": "own:proxylessnas_gpu",
         "efficientnet_b0": "torchvision:efficientnet_b0", "xception": "timm:xception", "convnext_t": "torchvision:convnext_tiny", "vit_s": "timm:vit_small_patch16_224"}


def network(name):
    torch.manual_seed(7)
    source, entry = NAMES.get(name, "timm:" + name).split(":")
    if source == "own":
        import proxyless
        return getattr(proxyless, entry)().eval()
    if source == "torchvision":
        import torchvision
        return getattr(torchvision.models, entry)(weights=None).eval()
    import timm
    return timm.create_model(entry, pretrained=False).eval()


def settle(model, x):
    """Batch norms take the statistics of an image, so that activations keep their size as those of a trained network do."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = None
        m.reset_running_stats()
        m.train()
    with torch.no_grad():
        model(x)
    model.eval()


def exported(model, x, path):
    """The older exporter folds batch norms and needs no further package."""
    try:
        torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
    except Exception as error:  # a network that it cannot say
        print(f"the older exporter: {error}", file=sys.stderr)
        torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], dynamo=True)


def in_graph(call, x):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            call(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = call(x)
    return graph, y


def replayed(graph):
    def seconds():
        times = []
        for _ in range(REPLAYS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3)
        return times
    return seconds


def error(y, want):
    y, want = y.double(), want.double()
    return float(((y - want).norm() / want.norm()).cpu())


def measure(name, kind, n, compiled, fuse):
    dtype, size = TYPES[kind], 299 if name == "xception" else 224
    model = network(name).cuda()
    x = torch.randn(n, 3, size, size, device="cuda")
    settle(model, torch.randn(16, 3, size, size, device="cuda"))
    with torch.no_grad():
        want = model(x)
    model, x = model.to(dtype), x.to(dtype)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        exported(model, x, file.name)
        begin = time.perf_counter()
        session = tilewright.Session(file.name, device="cuda", fuse=fuse)
        y = torch.empty_like(want, dtype=dtype)
        session.run(None, {"x": x}, out=[y])
        loaded = time.perf_counter() - begin
    row = {"ours": statistics.median(session.gpu_seconds()), "error": error(y, want), "loaded": loaded, "kernels": session.plan["kernels"]}
    side = torch.cuda.current_stream()
    y.zero_()
    for _ in range(3):  # launched one by one, then as a graph, twice
        session.run(None, {"x": x}, out=[y], stream=side)
    torch.cuda.synchronize()
    row["again"] = error(y, want)
    model, last = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    ways = {"ours": session.gpu_seconds}
    graph, theirs = in_graph(model, last)
    graph.replay()
    row["eager error"] = error(theirs, want)
    ways["eager"] = replayed(graph)
    if compiled:
        import torch._inductor.config as config
        config.freezing = True
        torch._dynamo.reset()
        fast, _ = in_graph(torch.compile(model), last)
        ways["compile"] = replayed(fast)
    times = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, call in ways.items():
            times[way] += call()
    row.update({way: statistics.median(list_) for way, list_ in times.items()})
    session.close()
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=ROWS, help="NETWORK:TYPE:BATCH, separated by commas")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes half a minute a row")
    parser.add_argument("--fuse", default="on", help="off: one reduction a kernel")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    facts = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,power.draw", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    print(f"{datetime.date.today()}; {facts}; torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; tilewright {tilewright.version()}\n")
    print("| network | type | N | kernels | ours us | compile us | eager us | best over ours | error (eager's) | first run s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    failed = 0
    rows = options.rows.split(",")
    for i, text in enumerate(rows):
        name, kind, n = text.split(":")
        try:
            r = measure(name, kind, int(n), not options.no_compile, options.fuse)
        except Exception as problem:
            print(f"| {name} | {kind} | {n} | {type(problem).__name__}: {str(problem)[:300]} |", flush=True)
            failed += 1
            if "CUDA error" in str(problem) and rows[i + 1:]:  # nothing more runs in this process
                again = [a for a in sys.argv[1:] if not a.startswith("--rows")]
                again = [a for a in again if a != options.rows]
                done = subprocess.run([sys.executable, __file__, "--rows=" + ",".join(rows[i + 1:]), *again], check=False)
                return done.returncode or 1
            continue
        best = min(r[way] for way in ("eager", "compile") if way in r)
        # Networks with seeded weights answer roundings louder than trained ones: torch's own error in that type is the measure.
        right = max(r["error"], r["again"]) < (1e-4 if kind == "f32" else max(1e-2, 2 * r["eager error"]))
        failed += not right
        left = [refusal for k in r["kernels"] for refusal in k.get("refusals", ["on the CPU: opaque"]) if refusal.startswith("on the CPU")]
        kernels = f"{len(r['kernels'])}" + (f", {len(left)} on the CPU" if left else "")
        for refusal in sorted(set(left))[:4]:
            print(f"{name}: {refusal}", file=sys.stderr)
        print(f"| {name} | {kind} | {n} | {kernels} | {1e6 * r['ours']:.1f} | {1e6 * r['compile']:.1f} |" if "compile" in r else
              f"| {name} | {kind} | {n} | {kernels} | {1e6 * r['ours']:.1f} | |", end="")
        print(f" {1e6 * r['eager']:.1f} | {best / r['ours']:.2f} | {max(r['error'], r['again']):.1e}{'' if right else ' WRONG'} ({r['eager error']:.1e}) | {r['loaded']:.2f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
