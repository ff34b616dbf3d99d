"""Larger convolutional networks: Xception and ConvNeXt-T."""

from .builder import Builder


def xception(size, batch):
    """As Keras exports it: unpadded stem, batch norm left in, no activation between depthwise and pointwise."""
    b = Builder("xception", 13, batch)

    def separable(y, out, gain=1.0):
        return b.conv(b.depthwise(y, 3, bias=False), out, 1, norm=1e-3, gain=gain)

    x = b.relu(b.conv(b.image(size), 32, 3, 2, pads=[0] * 4, norm=1e-3))
    x = b.relu(b.conv(x, 64, 3, pads=[0] * 4, norm=1e-3))
    for out, inner in ((128, 128), (256, 256), (728, 728), (1024, 728)):
        if out == 1024:
            x = middle_flow(b, x, separable)
        skip = b.conv(x, out, 1, 2, norm=1e-3)
        y = x if out == 128 else b.relu(x)
        y = separable(b.relu(separable(y, inner)), out)
        y = b.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        x = b.add(y, skip)
    x = b.relu(separable(x, 1536))
    x = b.relu(separable(x, 2048, gain=1.5))
    b.output("logits", b.head(b.reshape(b.global_pool(x), [-1, 2048])))
    return b.finish()


def middle_flow(b, x, separable):
    for _ in range(8):
        y = x
        for i in range(3):
            y = separable(b.relu(y), 728, gain=0.6 if i == 2 else 1.0)
        x = b.add(y, x)
    return x


def convnext_t(size, batch):
    """Blocks work channels-last between two Transposes; the norms between stages are decomposed over axis 1."""
    b = Builder("convnext_t", 17, batch)
    x = b.layer_norm(b.conv(b.image(size), 96, 4, 4, pads=[0] * 4), op=False, axis=-3)
    for stage, (width, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            x = b.conv(b.layer_norm(x, op=False, axis=-3), width, 2, 2, pads=[0] * 4, gain=0.8)
        for _ in range(depth):
            y = b.layer_norm(b.transpose(b.depthwise(x, 7), 0, 2, 3, 1))
            y = b.linear(b.gelu(b.linear(y, 4 * width)), width)
            y = b.mul(b.weight(0.35 * b.around_one(width), "gamma"), y)
            x = b.add(x, b.transpose(y, 0, 3, 1, 2))
    x = b.layer_norm(b.mean(x, [-2, -1], keep=False))
    b.output("logits", b.head(x))
    return b.finish()


MODELS = {f.__name__: f for f in (xception, convnext_t)}
