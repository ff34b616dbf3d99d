"""Rows by expert: tilewright.moe against a loop over the experts in NumPy, with its own BLAS.

    OPENBLAS_NUM_THREADS=1 python bench/moe.py [--tokens 2048] [--width 256] [--hidden 1024] [--experts 8,64] [--threads 1]

Routing is uneven: `routing` of workloads.py. Ours sorts the rows and packs the weights of the experts that
have any in every call, since they are inputs. Times are processor time, the best of some rounds in turn.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import tilewright  # noqa: E402
import workloads  # noqa: E402


def by_expert(x, experts, w1, w2):
    out = np.zeros((x.shape[0], w2.shape[2]), np.float32)
    for e in range(w1.shape[0]):
        rows = np.nonzero(experts == e)[0]
        if rows.size:
            out[rows] = np.maximum(x[rows] @ w1[e], 0) @ w2[e]
    return out


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tokens", 2048), ("width", 256), ("hidden", 1024), ("threads", 1), ("rounds", 3)):
        parse.add_argument(f"--{name}", type=int, default=value)
    parse.add_argument("--experts", default="8,64")
    o = parse.parse_args()
    random = np.random.default_rng(1)
    x = random.standard_normal((o.tokens, o.width)).astype(np.float32)
    print(f"{'experts':>8} {'ours':>9} {'numpy':>9}   milliseconds of processor time")
    for n in (int(e) for e in o.experts.split(",")):
        experts = workloads.routing(random, o.tokens, n)
        w1 = random.standard_normal((n, o.width, o.hidden)).astype(np.float32)
        w2 = random.standard_normal((n, o.hidden, o.width)).astype(np.float32)
        calls = [lambda: tilewright.moe(x, experts, w1, w2, threads=o.threads), lambda: by_expert(x, experts, w1, w2)]
        ours, theirs = (call() for call in calls)
        assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max(), "wrong result"
        least = [np.inf, np.inf]
        for _ in range(o.rounds):
            for i, call in enumerate(calls):
                then = time.process_time()
                call()
                least[i] = min(least[i], time.process_time() - then)
        print(f"{n:8} {least[0] * 1e3:9.1f} {least[1] * 1e3:9.1f}", flush=True)


if __name__ == "__main__":
    main()
