"""Models whose sizes are free: imported once, run at several shapes, against ONNX Runtime.

    python tests/models/free_sizes.py PRINT_MODELS [NAME]...

For each model of MODELS: nothing is fixed but what a refusal asks for by name (`--size NAME=N`), and that must be what the table
says. Then the printed program parses to itself (PRINT_MODELS is that tool), and one session gives ONNX Runtime's outputs at each
of the shapes.
"""

import re
import subprocess
import sys
import time

import cases
import numpy as np
import onnx
from cases import ROOT, zoo
from compare import difference, onnxruntime_side, symbol_values

sys.path.insert(0, str(ROOT / "python"))

import tilewright  # noqa: E402

TOLERANCE = 1e-4


def zoo_model(name, *shapes):
    """shapes: (batch, sequence, past)"""
    path = cases.zoo_file(name, 96)
    return path, lambda model: [zoo.verify.random_inputs(model, b, 11, {"sequence": s, "past": p}) for b, s, p in shapes]


def trained(name, *feeds):
    path = next(c for c in cases.trained_cases() if c.name == name).path()
    return path, lambda model: list(feeds)


def page(width, height):
    return {"x": cases.letters(cases.draw.page(["kernel stream", "tile"], width, height))}


def words(count, width):
    return {"x": np.concatenate([cases.word(i, width) for i in range(count)])}


def tokens(batch, length):
    ids = np.random.default_rng(length).integers(1000, 29000, (batch, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def oriented(count):
    return {"x": np.concatenate([cases.oriented(i) for i in range(count)])}


# name: (model, what must be fixed)
MODELS = {
    "minilm": (lambda: trained("minilm", tokens(1, 24), tokens(3, 17)), set()),
    "orientation": (lambda: trained("orientation", oriented(1), oriented(2)), set()),
    "ocr_direction": (lambda: trained("ocr_direction", words(2, 192), words(1, 160)), set()),
    "ocr_recogniser": (lambda: trained("ocr_recogniser", words(1, 192), words(2, 256)), {"x.2"}),
    "ocr_detector": (lambda: trained("ocr_detector", page(256, 192)), {"p2o.DynamicDimension.1", "p2o.DynamicDimension.2"}),
    "mobilevit_s": (lambda: zoo_model("mobilevit_s", (1, 0, 0), (2, 0, 0)), set()),
    "bert_base": (lambda: zoo_model("bert_base", (1, 12, 0), (2, 7, 0)), set()),
    "gpt2_small": (lambda: zoo_model("gpt2_small", (1, 4, 20), (2, 3, 20)), {"past"}),
}


def printed(tool, path, feeds, model):
    """The sizes that had to be fixed, as {name: value}; an error that asks for none is raised."""
    values = symbol_values(model, feeds)
    fixed = {}
    while True:
        options = [word for name, value in fixed.items() for word in ("--size", f"{name}={value}")]
        ran = subprocess.run([tool, *options, str(path)], stdout=subprocess.PIPE, text=True)
        if ran.returncode == 0:
            return fixed
        asked = [name for name in re.findall(r"--size (\S+)=N", ran.stdout) if name not in fixed]
        if not asked or not ran.stdout.startswith(("E0104", "E0401")):
            raise RuntimeError(ran.stdout)
        fixed.update({name: values[name] for name in asked})


def run(tool, name):
    make, wanted = MODELS[name]
    path, feeds_of = make()
    model = onnx.load(path)
    all_feeds = feeds_of(model)
    fixed = printed(tool, path, all_feeds[0], model)
    if set(fixed) != wanted:
        raise RuntimeError(f"{set(fixed)} had to be fixed, {wanted} was expected")
    session, theirs = tilewright.Session(path, sizes=fixed, threads=2), onnxruntime_side(str(path))
    worst = 0.0
    for feeds in all_feeds:
        for a, b in zip(session.run(None, feeds), theirs(feeds)):
            worst = max(worst, difference(a, b))
    return len(all_feeds), fixed, worst


def main():
    failed = 0
    for name in sys.argv[2:] or MODELS:
        start = time.perf_counter()
        try:
            shapes, fixed, worst = run(sys.argv[1], name)
            bad = not worst <= TOLERANCE
            what = f"{shapes} shapes, fixed {fixed or 'nothing'}, difference {worst:.1e}"
        except Exception as error:
            bad, what = True, f"{type(error).__name__}: {error}"
        failed += bad
        print(f"{name:16s} {what}, {time.perf_counter() - start:.1f} s" + ("  FAILED" if bad else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
