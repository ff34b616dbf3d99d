"""Draws the images of this folder, with Pillow and the font that comes with it. draw.py OUTPUT_FOLDER rewrites them."""

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

INK, PAPER = (24, 24, 32), (244, 241, 232)
PAGE = ["Every axis of every statement", "may be tiled, split, streamed,", "walked, permuted or bucketed.", "",
        "A plan is a pure function of", "program, machine and options:", "224 x 224 in, 1000 out, 4.2 ms."]


def line(text, height=48):
    """One line of dark text on light paper, as wide as the text needs, its width a multiple of 8."""
    font = ImageFont.load_default(size=int(height * 0.62))
    left, top, right, bottom = font.getbbox(text)
    width = (right - left + height // 2 + 7) // 8 * 8
    image = Image.new("RGB", (width, height), PAPER)
    ImageDraw.Draw(image).text(((width - right - left) // 2, (height - bottom - top) // 2), text, INK, font)
    return image


def page(lines, width=384, height=256, size=20):
    """Several lines on one sheet; both sides multiples of 32."""
    image = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=size)
    for i, text in enumerate(lines):
        draw.text((24, 18 + i * int(1.6 * size)), text, INK, font)
    return image


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    line("tilewright").save(folder / "word.png", optimize=True)
    line("fused kernels, no tuning").save(folder / "line.png", optimize=True)
    line("MobileNet 2025").save(folder / "digits.png", optimize=True)
    page(PAGE).save(folder / "page.png", optimize=True)


if __name__ == "__main__":
    main()
