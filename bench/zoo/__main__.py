"""python -m zoo: see README.md."""

import argparse
import sys
from pathlib import Path

import onnx

from . import MODELS, NETWORKS, PAIRS, SIZES, build
from .half import half
from .verify import check


def arguments():
    parser = argparse.ArgumentParser(prog="python -m zoo", description="Write ONNX models with seeded weights.")
    parser.add_argument("names", nargs="*", help="models, or the groups: networks, pairs, all")
    parser.add_argument("--list", action="store_true", help="print the models' names and natural sizes")
    parser.add_argument("--size", type=int, help="side of the image, or number of tokens (default: the natural one)")
    parser.add_argument("--batch", default="1", help="a number, or a name: then the batch is symbolic (default: 1)")
    parser.add_argument("--half", action="store_true", help="in 16 bits")
    parser.add_argument("-o", "--output", help="a file for one model, a folder for several")
    parser.add_argument("--check", action="store_true",
                        help="check deviations of all intermediates and that inputs give different answers")
    return parser, parser.parse_args()


def main():
    parser, options = arguments()
    if options.list:
        for name in MODELS:
            print(f"{name:20s} {SIZES[name]}")
        return 0
    groups = {"all": MODELS, "networks": NETWORKS, "pairs": PAIRS}
    names = [name for given in options.names for name in groups.get(given, [given])]
    if not names or any(name not in MODELS for name in names):
        parser.error("name a model of --list, or networks, pairs or all")
    if not options.output and not options.check:
        parser.error("give -o, or --check")
    failed = 0
    batch = int(options.batch) if options.batch.isdigit() else options.batch
    for name in names:
        try:
            model = build(name, options.size, batch)
        except ValueError as error:
            parser.error(str(error))
        if options.output:
            save(half(model) if options.half else model, Path(options.output), name, len(names) > 1)
        if options.check:
            failed += not report(name, model)
    return 1 if failed else 0


def report(name, model):
    try:
        low, high, distinct = check(model)
    except AssertionError as error:
        print(error)
        return False
    print(f"{name:20s} deviations {low:.2f}..{high:.2f}, {distinct} answers to 16 inputs", flush=True)
    return True


def save(model, output, name, several):
    path = output / f"{name}.onnx" if several or output.is_dir() else output
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
