"""Every kernel of whole networks on a GPU: right against the CPU target, measured beside its price, sorted by the time that is lost.

    PYTHONPATH=python python3 bench/gpu/network_kernels.py mobilenet_v2:f16:1,... [--most 15] [--limit 60] [--mode both]

The networks are those of bench/gpu/models.py, exported alike (only here torchvision and timm exist), and each goes through
`bench_gpu_models` in a process of its own with a limit in seconds. Everything it says lands in a file under $OUT, if that is
set; what is printed stays below 4000 characters a network.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import torch

import models

# name, (verdict, error), count, measured, predicted, facts
LINE = re.compile(r"^(\S+) +(?:(right|WRONG) (\S+) )?(\d+) x ([\d.]+) us \(predicted ([\d.]+)\)  (.*)$")


def export(row, path):
    name, kind, n = row.split(":")
    size = 299 if name == "xception" else 224
    model = models.network(name).cuda()
    models.settle(model, torch.randn(16, 3, size, size, device="cuda"))
    dtype = models.TYPES[kind]
    models.exported(model.to(dtype), torch.randn(int(n), 3, size, size, device="cuda").to(dtype), str(path))


def lines_of(mode, path, limit):
    """What the bench has said until it ended or was stopped, and how it ended."""
    bench = os.environ.get("BENCH_GPU", "build-gpu/bench_gpu") + "_models"
    process = subprocess.Popen([bench, mode, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return said.splitlines(), f"stopped after {limit} s"
    return said.splitlines(), "" if process.returncode == 0 else f"ended with {process.returncode}"


def show(row, lines, end, most):
    found, others = [], []
    for line in lines:
        if m := LINE.match(line):
            name, verdict, error, count, measured, predicted, facts = m.groups()
            count, measured, predicted = int(count), float(measured), float(predicted)
            found.append((count * (measured - predicted), name, verdict or "", error or "", count, measured, predicted, facts))
        else:
            others.append(line)
    wrong = [f for f in found if f[2] == "WRONG"]
    best = sorted(found, reverse=True)
    kept = wrong[:5] + [f for f in best if f not in wrong[:5]][:most - len(wrong[:5])]
    print(f"== {row}: {len(found)} kernels seen, {len(wrong)} wrong{', ' + end if end else ''}; {' | '.join(o[:200] for o in others[-3:])}")
    left = 3600
    for lost, name, verdict, error, count, measured, predicted, facts in kept:
        line = f"{lost:+7.1f} {name[-22:]:22s} {verdict} {error} {count}x {measured:.2f} ({predicted:.2f}) {facts}"[:250]
        if left < len(line):
            break
        left -= len(line) + 1
        print(line)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", help="NETWORK:TYPE:BATCH, separated by commas")
    parser.add_argument("--most", type=int, default=15, help="kernels printed a network")
    parser.add_argument("--limit", type=float, default=60, help="seconds a network")
    parser.add_argument("--mode", default="both", choices=["both", "time", "check"])
    options = parser.parse_args()
    kept = os.environ.get("OUT")
    with tempfile.TemporaryDirectory() as folder:
        for row in options.rows.split(","):
            try:
                path = pathlib.Path(folder) / (row.replace(":", "_") + ".onnx")
                export(row, path)
                torch.cuda.empty_cache()
                lines, end = lines_of(options.mode, path, options.limit)
                if kept:
                    (pathlib.Path(kept) / (path.stem + ".txt")).write_text("\n".join(lines) + "\n")
                path.unlink()
                show(row, lines, end, options.most)
            except Exception as problem:
                print(f"== {row}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
