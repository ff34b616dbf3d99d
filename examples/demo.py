"""Reads a word from a picture with a trained network: the plan, the answer against what is drawn, and the time.

The network is the text recogniser of the package rapidocr-onnxruntime (PP-OCRv4); tests/images/ORIGIN.md tells about
the picture. Exit code 1 if the word is read wrongly. Used by `make demo`; python examples/demo.py [PICTURE TEXT] reads
another one.
"""

import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import tilewright  # noqa: E402

MODEL = Path(sysconfig.get_paths()["purelib"]) / "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
HEIGHT = 48  # of a line, as the network was trained


def pixels_of(picture):
    """[1, 3, 48, width], from -1 to 1."""
    image = Image.open(picture).convert("RGB")
    image = image.resize((round(image.width * HEIGHT / image.height), HEIGHT), Image.BILINEAR)
    pixels = (np.asarray(image, np.float32) / 255 - 0.5) / 0.5
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def alphabet(model):
    """The characters of the classes: class 0 means that nothing new begins, the last one is a blank."""
    metadata = {p.key: p.value for p in onnx.load(model, load_external_data=False).metadata_props}
    return [""] + metadata["character"].splitlines() + [" "]


def read(scores, characters):
    """The best class at each place from left to right; repetitions are one letter unless class 0 stands between."""
    best = scores[0].argmax(axis=1)
    kept = [c for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1])]
    return "".join(characters[c] for c in kept)


def print_plan(plan, most=8):
    totals = plan["totals"]
    print(f"\nplan: {totals['kernels']} kernels, {plan['threads']} threads, {plan['isa']}, "
          f"{totals['multiply_adds'] / 1e6:.0f} M multiply-adds, {totals['loaded'] / 2**20:.1f} MiB loaded, "
          f"predicted {totals['microseconds'] / 1e3:.2f} ms. The longest ones:")
    planned = [k for k in plan["kernels"] if "cost" in k]
    for k in sorted(planned, key=lambda k: -k["cost"]["microseconds"])[:most]:
        tiles = ", ".join(f"{s['how']} {s['axis']} {s['size']}" for s in k["schedule"]) or "whole"
        print(f"  {k['number']:4}  {k['name'][-30:]:30}  {len(k['statements']):2} statements  {tiles:24}"
              f"  {k['cost']['tiles']:4} tiles  {k['cost']['microseconds']:8.1f} us  {k['cost']['bound']}")


def timed(session, feeds, runs=20):
    out = session.run(None, feeds)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feeds, out=out)
        times.append(time.perf_counter() - start)
    return sorted(times)


def main():
    picture, expected = (Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) == 3 else (ROOT / "tests/images/word.png", "tilewright")
    pixels = pixels_of(picture)
    start = time.perf_counter()
    # A reshape in the model holds for lines of this height only; batch and width stay free and come with the picture.
    session = tilewright.Session(MODEL, sizes={"x.2": HEIGHT})
    name = session.get_inputs()[0].name
    [scores] = session.run(None, {name: pixels})
    print(f"{MODEL.name}: opened, planned, packed and first run in {time.perf_counter() - start:.2f} s")
    print_plan(session.plan)
    text = read(scores, alphabet(MODEL))
    times = timed(session, {name: pixels})
    print(f"\nread      {text!r} from {picture.name}, {pixels.shape[3]} x {HEIGHT} pixels\nexpected  {expected!r}")
    print(f"time      {times[len(times) // 2] * 1e3:.2f} ms median of {len(times)} runs (min {times[0] * 1e3:.2f} ms)")
    print("\nthe word is read rightly" if text == expected else "\nWRONG")
    print("next      build/tilewright explain MODEL.onnx, build/tilewright bench MODEL.onnx --vs onnxruntime")
    return 0 if text == expected else 1


if __name__ == "__main__":
    sys.exit(main())
