"""Writes ONNX files of well-known architectures with seeded weights: see README.md."""

from . import convnet, hybrid, mobile, pairs, transformer

NETWORKS = {**mobile.MODELS, **convnet.MODELS, **hybrid.MODELS, **transformer.MODELS}
PAIRS = pairs.MODELS
MODELS = {**NETWORKS, **PAIRS}

# The natural input: side of the image, or number of tokens.
SIZES = {name: 224 for name in NETWORKS} | {"xception": 299, "mobilevit_s": 256, "bert_base": 128, "gpt2_small": 128}
SIZES |= pairs.SIZES


def build(name, size=None, batch=1):
    """The model as a ModelProto; a batch that is a string becomes a symbolic dimension of that name."""
    size = SIZES[name] if size is None else size
    if name == "bert_base":
        allowed = 8 <= size <= 512
    elif name == "gpt2_small":
        allowed = 32 <= size <= 1024
    else:
        allowed = size == SIZES[name] or (size >= 96 and size % 32 == 0 if name in NETWORKS else size >= 2)
    if not allowed:
        raise ValueError(f"{name} has no size {size}: images take multiples of 32 from 96, bert_base 8 to 512 tokens, "
                         "gpt2_small 32 to 1024")
    return MODELS[name](size, batch)
