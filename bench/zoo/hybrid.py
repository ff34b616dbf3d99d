"""Convolution and attention in one network: CeiT-T, CMT-S, MobileViT-S."""

import numpy as np

from .builder import Builder
from .mobile import inverted_residual
from .transformer import SCALED_AFTER, attend, mlp, scale_after, self_attention


def to_map(b, x, side):
    """Tokens [N, side * side, C] as a map [N, C, side, side]."""
    return b.reshape(b.transpose(x, 0, 2, 1), [b.batch_of(x), x.shape[2], side, side])


def to_tokens(b, x):
    return b.transpose(b.reshape(x, [b.batch_of(x), x.shape[1], x.shape[2] * x.shape[3]]), 0, 2, 1)


def ceit_t(size, batch):
    """Opset 13, LayerNorm decomposed. The feed-forward is a depthwise convolution over the patches (not the class token);
    the last block attends over the class tokens of all layers."""
    b = Builder("ceit_t", 13, batch)
    x = b.op("MaxPool", b.conv(b.image(size), 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = to_tokens(b, b.conv(x, 192, 4, 4, pads=[0] * 4))
    # A class token among the patches, else attention treats it as an outlier and it grows layer by layer.
    token = x.data.mean((0, 1), keepdims=True) + b.random((1, 1, 192), 0.7)
    token = b.op("Expand", b.weight(token, "cls_token"), b.shape([b.batch_of(x), 1, 192]))
    x = b.concat([token, x], 1)
    x = b.add(x, b.weight(b.random((1, x.shape[1], 192), 0.5), "pos_embed"))
    summaries = []
    for _ in range(12):
        x = b.add(x, self_attention(b, b.layer_norm(x, op=False), 3, 0.38))
        # The class token is added to its own norm here: scales of both signs keep it from growing.
        y = b.layer_norm(x, op=False, scale=b.random(192, 0.36))
        x = b.add(x, local_feed_forward(b, y, 768, 0.35))
        summaries.append(b.unsqueeze(b.pick(x, 0, 1), 1))
    x = b.add(b.concat(summaries, 1), b.weight(b.random((1, 12, 192), 0.4), "pos_layer_embed"))
    x = b.add(x, self_attention(b, b.layer_norm(x, op=False), 3, 0.4))
    x = b.add(x, mlp(b, b.layer_norm(x, op=False), b.gelu, 4, 0.4))
    b.output("logits", b.head(b.layer_norm(b.pick(x, -1, 1), op=False)))
    return b.finish()


def local_feed_forward(b, x, hidden, gain):
    side = int((x.shape[1] - 1) ** 0.5)
    token, patches = b.split(x, [1, side * side], 1)
    y = b.transpose(b.reshape(patches, [b.batch_of(x), side, side, x.shape[2]]), 0, 3, 1, 2)
    y = b.gelu(b.depthwise(b.gelu(b.conv(y, hidden, 1)), 3))
    return b.concat([token, to_tokens(b, b.conv(y, x.shape[2], 1, gain=gain))], 1)


def cmt_s(size, batch):
    """GELU before BatchNormalization, so that no exporter folds it; keys and values from a strided depthwise."""
    b = Builder("cmt_s", 17, batch)
    x = b.image(size)
    for stride in (2, 1, 1):
        x = b.batch_norm(b.gelu(b.conv(x, 32, 3, stride)))
    for width, heads, depth, shrink in ((64, 1, 3, 8), (128, 2, 3, 4), (256, 4, 16, 2), (512, 8, 3, 1)):
        x = b.conv(x, width, 2, 2, pads=[0] * 4)
        side = x.shape[2]
        x = b.layer_norm(to_tokens(b, x), 1e-5)
        bias = b.weight(b.random((heads, side * side, (side // shrink) ** 2)), "relative_pos")
        for _ in range(depth):
            x = cmt_block(b, x, side, heads, shrink, bias)
        x = to_map(b, x, side)
    x = b.silu(b.conv(x, 1280, 1, gain=1.5))
    b.output("logits", b.head(b.flatten(b.global_pool(x))))
    return b.finish()


def cmt_block(b, x, side, heads, shrink, bias):
    gain, width = 0.33, x.shape[2]
    y = to_map(b, x, side)
    x = to_tokens(b, b.add(b.depthwise(y, 3, gain=gain), y))
    x = b.add(x, cmt_attention(b, b.layer_norm(x), side, heads, shrink, bias, gain))
    y = b.batch_norm(b.gelu(b.conv(to_map(b, b.layer_norm(x), side), 4 * width, 1)))
    y = b.batch_norm(b.gelu(b.add(b.depthwise(y, 3, gain=0.7), y)))
    return b.add(x, to_tokens(b, b.conv(y, width, 1, gain=gain)))


def cmt_attention(b, x, side, heads, shrink, bias, gain):
    width = x.shape[2]
    small = x
    if shrink > 1:
        small = to_tokens(b, b.depthwise(to_map(b, x, side), shrink, shrink, pads=[0] * 4))

    def project(t, gain):
        t = b.reshape(b.linear(t, width, gain=gain), [b.batch_of(x), t.shape[1], heads, width // heads])
        return b.transpose(t, 0, 2, 1, 3)

    q, k, v = project(x, SCALED_AFTER), project(small, SCALED_AFTER), project(small, 1.2)
    scores = b.add(scale_after(b, q, k, width // heads), bias)
    return b.linear(attend(b, scores, v, b.batch_of(x), side * side, width), width, gain=gain)


def mobilevit_s(size, batch):
    """As torch exports it with a dynamic batch: unfolding computes its shapes; odd maps go through Resize."""
    b = Builder("mobilevit_s", 17, batch, constant_nodes=True)
    x = b.silu(b.conv(b.image(size), 16, 3, 2))
    for out, stride in ((32, 1), (64, 2), (64, 1), (64, 1)):
        x = inverted_residual(b, x, out, 3, stride, 4 * x.shape[1], b.silu)
    for out, width, depth in ((96, 144, 2), (128, 192, 4), (160, 240, 3)):
        x = inverted_residual(b, x, out, 3, 2, 4 * x.shape[1], b.silu)
        x = mobilevit_block(b, x, width, depth)
    x = b.silu(b.conv(x, 640, 1, gain=1.5))
    b.output("logits", b.head(b.flatten(b.global_pool(x))))
    return b.finish()


def mobilevit_block(b, x, width, depth):
    """Convolve, unfold into 2x2 patches, attend between equal places of the patches, fold, fuse with the input."""
    channels, side = x.shape[1:3]
    even = side + side % 2
    y = b.conv(b.silu(b.conv(x, channels, 3)), width, 1, bias=False)
    batch = b.dim(y, 0)
    if even != side:
        y = resize(b, y, even)
    rows = b.mul(b.mul(batch, b.dim(y, 1)), b.const(even // 2, np.int64))  # batch * width * rows of patches
    patches = (even // 2) ** 2
    y = b.transpose(b.reshape(y, [rows, 2, even // 2, 2]), 0, 2, 1, 3)
    y = b.transpose(b.reshape(y, [batch, width, patches, 4]), 0, 3, 2, 1)
    y = b.reshape(y, [b.mul(batch, b.const(4, np.int64)), patches, -1])
    for _ in range(depth):
        y = b.add(y, self_attention(b, b.layer_norm(y, 1e-5), 4, 0.5, chain=True))
        y = b.add(y, mlp(b, b.layer_norm(y, 1e-5), b.silu, 2, 0.5))
    y = b.reshape(b.layer_norm(y, 1e-5), [batch, 4, patches, -1])
    y = b.reshape(b.transpose(y, 0, 3, 2, 1), [rows, even // 2, 2, 2])
    y = b.reshape(b.transpose(y, 0, 2, 1, 3), [batch, width, even, even])
    if even != side:
        y = resize(b, y, side)
    y = b.silu(b.conv(y, channels, 1))
    return b.silu(b.conv(b.concat([x, y], 1), channels, 3))


def resize(b, x, side):
    """torch's bilinear interpolate: sizes from the batch and channels of x and two constants."""
    kept = b.slice(b.op("Shape", x), 0, 2, 0)
    sizes = b.concat([kept, b.const([side, side], np.int64)], 0)
    return b.op("Resize", x, None, None, sizes, mode="linear", coordinate_transformation_mode="pytorch_half_pixel",
                cubic_coeff_a=-0.75, nearest_mode="floor")


MODELS = {f.__name__: f for f in (ceit_t, cmt_s, mobilevit_s)}
