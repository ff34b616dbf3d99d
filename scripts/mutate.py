#!/usr/bin/env python3
"""Do the tests notice a mistake? Applies small mistakes (halo, ceil, batch, stride, ...) to the folders that decide what moves, one at
a time in a scratch copy of the tree, builds the tests that judge these folders, and demands that one of them fails.

    scripts/mutate.py [--only N]... [--list]

Exit code: 0 all caught, 1 a mistake went unnoticed, 2 a mistake no longer applies (its text has changed: correct the list below)."""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["schedule", "cost", "loop", "check", "plan", "target_cpu"]

TRANSFERS, COST, EXPAND = "src/schedule/transfers.cpp", "src/cost/cost.cpp", "src/loop/expand.cpp"
# what goes wrong, file, text (must occur exactly once), mistake
MISTAKES = [
    ("halo: the last point of a window", TRANSFERS, "last.offset -= 1;", "last.offset -= 2;"),
    ("halo: negative coefficients", TRANSFERS, "add(span.low, c > 0 ? r.low : last, c);", "add(span.low, c < 0 ? r.low : last, c);"),
    ("box: one element too many", TRANSFERS, "{index.offset.constant() + 1, {}}, .step = 0", "{index.offset.constant() + 2, {}}, .step = 0"),
    ("ceil: elements of a stepped span", TRANSFERS, "0 : ceil_div_i64(hi - lo, step)", "0 : floor_div_i64(hi - lo, step)"),
    ("stride: step of an index", TRANSFERS, "std::gcd(span.step, c * r.step)", "std::gcd(span.step, c + r.step)"),
    ("clip: first element inside", TRANSFERS, "lo += ceil_div_i64(-lo, step) * step", "lo += ceil_div_i64(-lo, step) + step"),
    ("depth: the loop around a box", TRANSFERS, "depth = std::max(depth, v / 2 + 1)", "depth = std::max(depth, v / 2 + 0)"),
    ("walk: what a turn finds", TRANSFERS, "v == 2 * walk + 1 ? 2 * walk : v", "v == 2 * walk + 1 ? 2 * walk + 1 : v"),
    ("walk: its first turn", TRANSFERS, "variables[2 * walk] == 0 ? begin", "variables[2 * walk] == 1 ? begin"),
    ("hull: of two reads of a tensor", TRANSFERS, "std::max(box[d].high.offset, other", "std::min(box[d].high.offset, other"),
    ("batch: loops that send a box again", COST, "i < static_cast<std::size_t>(depth)", "i + 1 < static_cast<std::size_t>(depth)"),
    ("ceil: tiles of a loop that repeats", COST, "product = checked_mul(product, ceil_div_i64(extents_[s], sizes[s]))",
     "product = checked_mul(product, floor_div_i64(extents_[s], sizes[s]))"),
    ("odometer: back to the first tile", COST, "more ? variables[2 * s + 1] : 0", "more ? variables[2 * s + 1] : 1"),
    ("width: bytes of an element", COST, "product = sum.width", "product = 4"),
    ("work: a multiply-add is two", COST, "2.0 * multiply_adds / operations", "1.0 * multiply_adds / operations"),
    ("ceil: the busiest thread", COST, "ceil_div_i64(tiles, threads)", "floor_div_i64(tiles, threads)"),
    ("ragged: rows of the register tile", COST, "ceil_div_i64(n, granule) * granule", "floor_div_i64(n, granule) * granule"),
    ("nest: loads inside streams", EXPAND, "if (!t.store && t.depth == depth)", "if (!t.store && t.depth <= depth)"),
    ("nest: which loop a statement runs in", TRANSFERS, "at.points = std::max(at.points, term.first / 2 + 1)", "at.points = std::max(at.points, term.first / 2 + 0)"),
    ("nest: where a result is complete", TRANSFERS, "if (!own) at.result = step + 1", "if (!own) at.result = step + 0"),
    ("legality: an empty tile", "src/schedule/legality.cpp", "if (step.size <= 0)", "if (step.size < 0)"),
    ("layout: strides", "src/schedule/layout.cpp", "= step;\n    step *=", "= step;\n    step +="),
]


def copy_tree(to):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, names.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)


def build(tree, jobs):
    env = dict(os.environ, CCACHE_BASEDIR=str(tree), CCACHE_NOHASHDIR="1")
    if not (tree / "build").exists():
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *launcher],
                       check=True, stdout=subprocess.DEVNULL, env=env)
    done = subprocess.run(["cmake", "--build", tree / "build", "-j", str(jobs), "--target", *("test_" + t for t in TESTS)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if done.returncode != 0:
        sys.exit(done.stdout[-3000:] + "\nthe tree does not compile")


def failing(tree):
    """The first test program that fails and the first test in it, or None. A hang is a failure too."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEWRIGHT_")}
    for test in TESTS:
        try:
            done = subprocess.run([tree / "build" / f"test_{test}", "--gtest_fail_fast", "--gtest_brief=1"], env=env, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return test, "hangs"
        if done.returncode != 0:
            names = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]") and len(line.split()) > 3]
            return test, names[0] if names else f"ends with {done.returncode}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, action="append", help="the number of a mistake")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build" / "mutate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    a = parser.parse_args()
    stale = [m for m in MISTAKES if (ROOT / m[1]).read_text().count(m[2]) != 1]
    for what, file, old, _ in stale:
        print(f"{file} no longer holds this text once: {old!r} ({what})", file=sys.stderr)
    if stale:
        return 2
    chosen = [(i, m) for i, m in enumerate(MISTAKES) if not a.only or i in a.only]
    if a.list:
        for i, (what, file, old, new) in chosen:
            print(f"{i:2}  {file}: {what}\n      - {old!r}\n      + {new!r}")
        return 0
    tree = a.scratch.resolve()
    shutil.rmtree(tree, ignore_errors=True)
    copy_tree(tree)
    build(tree, a.jobs)
    if found := failing(tree):
        print(f"without any mistake {found[0]} fails: {found[1]}", file=sys.stderr)
        return 1
    unnoticed = 0
    for i, (what, file, old, new) in chosen:
        begin, path = time.time(), tree / file
        right = path.read_text()
        path.write_text(right.replace(old, new))
        build(tree, a.jobs)
        found = failing(tree)
        path.write_text(right)
        unnoticed += found is None
        verdict = f"{found[0]}: {found[1]}" if found else "NOT NOTICED"
        print(f"{i:2}  {what:40} {file:28} {verdict:60} {time.time() - begin:4.0f} s", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} mistakes are noticed")
    shutil.rmtree(tree, ignore_errors=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
