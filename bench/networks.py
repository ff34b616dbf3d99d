"""The table of `make bench`: whole networks against ONNX Runtime and against our own layer by layer, alternating, and
every kernel's predicted time against its measured one.

    python bench/networks.py --tool build/tilewright --models build/models [--threads 2] [--batch 1] [--names ...]

The CPU's rates are measured first: plans follow them. Models are made by the zoo where they are not there yet. Each peer is compared in one process of the tool (onnxruntime: a
child of it), after `tilewright verify` has compared the results. Ratios are of medians, ours over theirs: below 1 we are
faster.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

CONVNETS = ["mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v4_conv_m", "mnasnet_b1",
            "proxylessnas_gpu", "xception", "efficientnet_b0", "convnext_t"]
HERE = pathlib.Path(__file__).resolve().parent


def model(name, folder, size):
    path = folder / f"{name}_{size}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".part")
        subprocess.run([sys.executable, "-m", "zoo", name, "--size", str(size), "--batch", "batch", "-o", str(made)],
                       env={"PYTHONPATH": str(HERE)}, check=True, stdout=subprocess.DEVNULL)
        made.rename(path)
    return path


def tool(arguments, *words):
    done = subprocess.run([arguments.tool, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tilewright {words[0]} {words[1]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def compare(arguments, path, peer):
    return tool(arguments, "bench", path, "--size", f"batch={arguments.batch}", "--threads", arguments.threads, "--vs", peer,
                "--iterations", arguments.iterations, "--python", sys.executable, "--json", "--quiet")


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            rank[i] = (at + end - 1) / 2
        at = end
    return rank


def correlation(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    ab = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return ab / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def fit(kernels):
    """Median error and Spearman's rank correlation of predicted and measured seconds."""
    predicted, measured = [p for p, _ in kernels], [m for _, m in kernels]
    errors = sorted(abs(p - m) / m for p, m in kernels if m > 0)
    return errors[len(errors) // 2], correlation(ranks(predicted), ranks(measured))


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--names", nargs="+", default=CONVNETS)
    arguments = parser.parse_args()
    subprocess.run([arguments.tool, "device", "--calibrate", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    print(f"batch {arguments.batch}, {arguments.size} x {arguments.size}, fp32, {arguments.threads} threads, medians of "
          f"{arguments.iterations} runs, alternating")
    print(f"{'model':22} {'ours':>9} {'peer':>9} {'ratio':>6}   {'layers':>9} {'ratio':>6}   {'error':>5} {'rank':>5}")
    all_kernels, versus, layers = [], [], []
    for name in arguments.names:
        path = model(name, arguments.models, arguments.size)
        tool(arguments, "verify", path, "--size", f"batch={arguments.batch}", "--threads", arguments.threads, "--against",
             "onnxruntime", "--python", sys.executable, "--json", "--quiet")
        peer, apart = compare(arguments, path, "onnxruntime"), compare(arguments, path, "layerwise")
        kernels = [(k["microseconds"] * 1e-6, k["measured_seconds"]) for k in peer["per_kernel"] if "microseconds" in k]
        all_kernels += kernels
        versus.append(peer["peer"]["ours_over_peer"])
        layers.append(apart["peer"]["ours_over_peer"])
        error, rank = fit(kernels)
        print(f"{name:22} {peer['latency_seconds']['median'] * 1e3:6.2f} ms {peer['peer']['latency_seconds']['median'] * 1e3:6.2f} ms "
              f"{versus[-1]:6.2f}   {apart['peer']['latency_seconds']['median'] * 1e3:6.2f} ms {layers[-1]:6.2f}   "
              f"{error:5.0%} {rank:5.2f}", flush=True)
    error, rank = fit(all_kernels)
    print(f"{'geometric mean':22} {'':9} {'':9} {mean(versus):6.2f}   {'':9} {mean(layers):6.2f}   {error:5.0%} {rank:5.2f}"
          f"   over {len(all_kernels)} kernels")


if __name__ == "__main__":
    main()
