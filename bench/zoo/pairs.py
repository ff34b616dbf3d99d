"""Two convolutions in a row, cut out of well-known networks: the cases that fusing depthwise and pointwise layers is
judged by. dw is a 3x3 depthwise, pw a 1x1 convolution; padding at stride 2 is at the end only, as TensorFlow's SAME."""

from functools import partial

from .builder import PROBE, Builder
from .mobile import same_pads

# id: kind, channels in, side of the input, channels between, channels out, stride of the depthwise, the two activations
CASES = {
    # MobileNetV1
    "r01": ("dwpw", 32, 112, 32, 64, 1, "relu", "relu"),
    "r02": ("pwdw", 32, 112, 64, 64, 2, "relu", "relu"),
    "r03": ("dwpw", 64, 112, 64, 128, 2, "relu", "relu"),
    "r04": ("pwdw", 64, 56, 128, 128, 1, "relu", "relu"),
    "r05": ("dwpw", 128, 56, 128, 128, 1, "relu", "relu"),
    "r06": ("pwdw", 256, 14, 512, 512, 1, "relu", "relu"),
    "r07": ("pwdw", 512, 14, 512, 512, 1, "relu", "relu"),
    "r08": ("pwdw", 512, 7, 1024, 1024, 1, "relu", "relu"),
    # MobileNetV2
    "r09": ("pwpw", 32, 112, 16, 96, 1, None, "relu"),
    "r10": ("pwpw", 96, 56, 24, 144, 1, None, "relu"),
    "r11": ("pwdw", 24, 56, 144, 144, 1, "relu", "relu"),
    "r12": ("pwpw", 144, 56, 24, 144, 1, None, "relu"),
    "r13": ("pwpw", 144, 28, 32, 192, 1, None, "relu"),
    "r14": ("pwdw", 32, 28, 192, 192, 1, "relu", "relu"),
    "r15": ("pwpw", 192, 28, 32, 192, 1, None, "relu"),
    "r16": ("pwdw", 64, 14, 384, 384, 1, "relu", "relu"),
    "r17": ("pwdw", 96, 14, 576, 576, 1, "relu", "relu"),
    "r18": ("pwdw", 160, 7, 960, 960, 1, "relu", "relu"),
    # ProxylessNAS
    "r19": ("pwpw", 32, 112, 24, 72, 1, None, "relu"),
    "r20": ("pwdw", 24, 112, 72, 72, 2, "relu", "relu"),
    "r21": ("dwpw", 72, 112, 72, 32, 2, "relu", None),
    "r22": ("pwdw", 32, 56, 96, 96, 2, "relu", "relu"),
    "r23": ("dwpw", 96, 56, 96, 56, 2, "relu", None),
    "r24": ("pwdw", 112, 14, 336, 336, 1, "relu", "relu"),
    "r25": ("pwdw", 112, 14, 672, 672, 1, "relu", "relu"),
    "r26": ("pwdw", 128, 14, 384, 384, 1, "relu", "relu"),
    "r27": ("pwdw", 128, 14, 768, 768, 2, "relu", "relu"),
    "r28": ("pwdw", 256, 7, 1536, 1536, 1, "relu", "relu"),
    # Xception
    "r29": ("dwpw", 64, 109, 64, 128, 1, None, "relu"),
    "r30": ("pwdw", 64, 109, 128, 128, 1, "relu", None),
    "r31": ("pwdw", 128, 55, 256, 256, 1, "relu", None),
    "r32": ("pwdw", 256, 28, 728, 728, 1, "relu", None),
    "r33": ("pwdw", 728, 14, 728, 728, 1, "relu", None),
    "r34": ("pwdw", 1024, 7, 1536, 1536, 1, "relu", None),
    # CeiT-T, -S, -B
    "v01": ("pwdw", 192, 14, 768, 768, 1, "gelu", "gelu"),
    "v02": ("dwpw", 768, 14, 768, 192, 1, "gelu", None),
    "v03": ("pwdw", 384, 14, 1536, 1536, 1, "gelu", "gelu"),
    "v04": ("dwpw", 1536, 14, 1536, 384, 1, "gelu", None),
    "v05": ("pwdw", 768, 14, 3072, 3072, 1, "gelu", "gelu"),
    # CMT-S
    "v06": ("pwdw", 64, 56, 256, 256, 1, "gelu", "gelu"),
    "v07": ("dwpw", 256, 56, 256, 64, 1, "gelu", None),
    "v08": ("pwdw", 128, 28, 512, 512, 1, "gelu", "gelu"),
    "v09": ("dwpw", 512, 28, 512, 128, 1, "gelu", None),
    "v10": ("pwdw", 256, 14, 1024, 1024, 1, "gelu", "gelu"),
    "v11": ("dwpw", 1024, 14, 1024, 256, 1, "gelu", None),
    "v12": ("pwdw", 512, 7, 2048, 2048, 1, "gelu", "gelu"),
    "v13": ("dwpw", 2048, 7, 2048, 512, 1, "gelu", None),
}


def pair(case, size, batch):
    kind, channels, _, between, out, stride, *acts = CASES[case]
    b = Builder(f"pair_{case}", 17, batch)
    x = b.input("input", b.random((PROBE, channels, size, size)))
    for layer, width, act in zip((kind[:2], kind[2:]), (between, out), acts):
        if layer == "dw":
            x = b.depthwise(x, 3, stride, pads=same_pads(3, stride))
        else:
            x = b.conv(x, width, 1)
        x = getattr(b, act)(x) if act else x
    b.output("output", x)
    return b.finish()


MODELS = {f"pair_{case}": partial(pair, case) for case in CASES}
SIZES = {f"pair_{case}": row[2] for case, row in CASES.items()}
