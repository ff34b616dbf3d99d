"""Products of a matrix that is mostly zeros: ours against our own dense kernel and against SciPy's CSR, where SciPy is installed.

    python bench/sparse.py [--size 2048] [--threads 2] [--rounds 5] [--granularity 32x1,...] [--sparsity 0.9,...] [--clock cpu]

The machine may be busy: every row takes the candidates in turn, round after round, and prints the best of each with the
ratios. Detection of the zeros is inside our times and is also shown apart, as the time of a product whose A is all zero. The
CSR product runs in one thread, which is all that SciPy has; its conversion is not counted. Results are checked before timing.
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

try:
    import scipy
    import scipy.sparse
except ImportError:
    scipy = None


def product(m, k, n, tile, threads):
    sparse = f" sparse(zeros, tile {tile[0]}, {tile[1]})" if tile else ""
    return tilewright.compile(f"program p(m={m}, k={k}, n={n})\ninput A[m k] : f32{sparse}\ninput B[k n] : f32\n"
                              "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n", threads=threads)


def best_of(rounds, calls, clock):
    """The least seconds of each call, all of them in turn."""
    least = [np.inf] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            then = clock()
            call()
            least[i] = min(least[i], clock() - then)
    return least


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--size", type=int, default=2048)
    parse.add_argument("--threads", type=int, default=2)
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--granularity", default="1x1,1x16,16x1,1x64,32x1")
    parse.add_argument("--sparsity", default="0.5,0.6,0.9,0.95,0.99")
    parse.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time of all threads, where others work too")
    options = parse.parse_args()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    n, random = options.size, np.random.default_rng(1)
    b = random.standard_normal((n, n)).astype(np.float32)
    out, empty = np.empty((n, n), np.float32), np.zeros((n, n), np.float32)
    dense = product(n, n, n, None, options.threads)
    print(f"tilewright {tilewright.__version__}, {options.threads} threads; scipy {scipy.__version__ if scipy else 'is not installed'}; "
          f"{n}^3 f32, best of {options.rounds}, milliseconds of {options.clock} time")
    print(f"{'cells':>7} {'zeros':>6} {'dense':>8} {'ours':>8} {'index':>8} {'csr':>8} {'x dense':>8} {'x csr':>8}")
    for cells in options.granularity.split(","):
        tile = tuple(int(x) for x in cells.split("x"))
        ours = product(n, n, n, tile, options.threads)
        for sparsity in (float(s) for s in options.sparsity.split(",")):
            a = workloads.cells(random, n, n, tile, sparsity)
            ours.run(None, {"A": a, "B": b}, out=[out])
            want = a.astype(np.float64) @ b
            assert np.abs(out - want).max() <= 1e-4 * np.abs(want).max(), "wrong result"
            calls = [lambda: dense.run(None, {"A": a, "B": b}, out=[out]), lambda: ours.run(None, {"A": a, "B": b}, out=[out]),
                     lambda: ours.run(None, {"A": empty, "B": b}, out=[out])]
            if scipy:
                csr = scipy.sparse.csr_matrix(a)
                calls.append(lambda: csr @ b)
            t = [s * 1e3 for s in best_of(options.rounds, calls, clock)] + ([] if scipy else [np.nan])
            print(f"{cells:>7} {sparsity:6.2f} {t[0]:8.1f} {t[1]:8.1f} {t[2]:8.1f} {t[3]:8.1f} {t[0] / t[1]:8.2f} {t[3] / t[1]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
