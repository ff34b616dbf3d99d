"""MobileNets and their searched relatives. Each table row is a stage or block of the published network."""

from .builder import Builder


def divisible(channels, by=8):
    rounded = max(by, int(channels + by / 2) // by * by)
    return rounded + by if rounded < 0.9 * channels else rounded


def same_pads(kernel, stride):
    """TensorFlow's SAME for even inputs, written as numbers: the odd row goes to the end."""
    total = max(kernel - stride, 0)
    return [total // 2, total // 2, total - total // 2, total - total // 2]


def inverted_residual(b, x, out, kernel, stride, expanded, act, squeeze=None, **conv):
    """Expand, depthwise, (squeeze-and-excite,) project; with the input added where shapes allow.
    Smooth activations get more than deviation 1: near 0 they bend, and inputs a little larger than the probe would grow
    from layer to layer."""
    gain = 1.0 if act in (b.relu, b.relu6) else 1.6
    y = x
    if expanded != x.shape[1]:
        y = act(b.conv(y, expanded, 1, gain=gain, **conv))
    y = act(b.depthwise(y, kernel, stride, gain=gain, **conv))
    if squeeze:
        y = squeeze(y)
    residual = stride == 1 and out == x.shape[1]
    y = b.conv(y, out, 1, gain=0.7 if residual else 1.0, **conv)
    return b.add(x, y) if residual else y


def mobilenet_v1(size, batch):
    """As TensorFlow exports it: batch norm left in, SAME padding as numbers, ReLU6 as Max and Min, a convolution as head."""
    b = Builder("mobilenet_v1", 13, batch)
    six, zero = b.const(6.0), b.const(0.0)

    def act(y):
        return b.op("Min", b.op("Max", y, zero), six)

    x = act(b.conv(b.image(size), 32, 3, 2, pads=same_pads(3, 2), norm=1e-3))
    stages = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    for i, (out, stride) in enumerate(stages):
        x = act(b.depthwise(x, 3, stride, pads=same_pads(3, stride), norm=1e-3))
        x = act(b.conv(x, out, 1, norm=1e-3, gain=1.5 if i == len(stages) - 1 else 1.0))
    x = b.head(b.reshape(b.mean(x, [2, 3]), [-1, 1024]))
    b.output("logits", x)
    return b.finish()


def mobilenet_v2(size, batch):
    """As torchvision exports it: batch norm folded, ReLU6 as Clip with Constant nodes."""
    b = Builder("mobilenet_v2", 17, batch, constant_nodes=True)
    x = b.relu6(b.conv(b.image(size), 32, 3, 2))
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, out, repeats, stride in stages:
        for i in range(repeats):
            x = inverted_residual(b, x, out, 3, 1 if i else stride, expand * x.shape[1], b.relu6)
    x = b.relu6(b.conv(x, 1280, 1, gain=1.5))
    b.output("logits", b.head(b.flatten(b.global_pool(x))))
    return b.finish()


def mobilenet_v3_large(size, batch):
    """HardSwish as an operator in the features and spelled out in the classifier."""
    b = Builder("mobilenet_v3_large", 17, batch)
    x = b.hard_swish(b.conv(b.image(size), 16, 3, 2))
    blocks = [  # kernel, expanded, out, squeeze, activation, stride
        (3, 16, 16, False, b.relu, 1), (3, 64, 24, False, b.relu, 2), (3, 72, 24, False, b.relu, 1),
        (5, 72, 40, True, b.relu, 2), (5, 120, 40, True, b.relu, 1), (5, 120, 40, True, b.relu, 1),
        (3, 240, 80, False, b.hard_swish, 2), (3, 200, 80, False, b.hard_swish, 1),
        (3, 184, 80, False, b.hard_swish, 1), (3, 184, 80, False, b.hard_swish, 1),
        (3, 480, 112, True, b.hard_swish, 1), (3, 672, 112, True, b.hard_swish, 1),
        (5, 672, 160, True, b.hard_swish, 2), (5, 960, 160, True, b.hard_swish, 1), (5, 960, 160, True, b.hard_swish, 1)]
    for kernel, expanded, out, squeezed, act, stride in blocks:
        def squeeze(y, expanded=expanded):
            return b.squeeze_excite(y, divisible(expanded / 4), b.relu, b.hard_sigmoid)
        x = inverted_residual(b, x, out, kernel, stride, expanded, act, squeeze=squeeze if squeezed else None)
    x = b.flatten(b.global_pool(b.hard_swish(b.conv(x, 960, 1, gain=1.5))))
    x = b.hard_swish(b.linear(x, 1280, gain=1.5, gemm=True), op=False)
    b.output("logits", b.head(x))
    return b.finish()


def mobilenet_v4_conv_m(size, batch):
    """Universal inverted bottlenecks: an optional depthwise before the expansion and another after it."""
    b = Builder("mobilenet_v4_conv_m", 17, batch)
    x = b.relu(b.conv(b.image(size), 32, 3, 2))
    x = b.conv(b.relu(b.conv(x, 128, 3, 2)), 48, 1)
    blocks = [  # first depthwise's kernel, second's, stride, expansion, out
        (3, 5, 2, 4, 80), (3, 3, 1, 2, 80),
        (3, 5, 2, 6, 160), (3, 3, 1, 4, 160), (3, 3, 1, 4, 160), (3, 5, 1, 4, 160), (3, 3, 1, 4, 160), (3, 0, 1, 4, 160),
        (0, 0, 1, 2, 160), (3, 0, 1, 4, 160),
        (5, 5, 2, 6, 256), (5, 5, 1, 4, 256), (3, 5, 1, 4, 256), (3, 5, 1, 4, 256), (0, 0, 1, 4, 256), (3, 0, 1, 4, 256),
        (3, 5, 1, 2, 256), (5, 5, 1, 4, 256), (0, 0, 1, 4, 256), (0, 0, 1, 4, 256), (5, 0, 1, 2, 256)]
    for first, second, stride, expand, out in blocks:
        y = b.depthwise(x, first, 1 if second else stride) if first else x
        y = b.relu(b.conv(y, expand * x.shape[1], 1))
        y = b.relu(b.depthwise(y, second, stride)) if second else y
        residual = stride == 1 and out == x.shape[1]
        y = b.conv(y, out, 1, gain=0.6 if residual else 1.0)
        x = b.add(y, x) if residual else y
    x = b.global_pool(b.relu(b.conv(x, 960, 1)))
    x = b.relu(b.conv(x, 1280, 1, gain=1.5))
    b.output("logits", b.head(b.flatten(x)))
    return b.finish()


def mnasnet_b1(size, batch):
    b = Builder("mnasnet_b1", 17, batch)
    x = b.relu(b.conv(b.image(size), 32, 3, 2))
    x = b.conv(b.relu(b.depthwise(x, 3)), 16, 1)
    stages = [(24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1)]
    for out, kernel, stride, expand, repeats in stages:
        for i in range(repeats):
            x = inverted_residual(b, x, out, kernel, 1 if i else stride, expand * x.shape[1], b.relu)
    x = b.mean(b.relu(b.conv(x, 1280, 1, gain=1.5)), [2, 3], keep=False)
    b.output("logits", b.head(x))
    return b.finish()


def proxylessnas_gpu(size, batch):
    """Opset 10: Clip with attributes; the last pool is an AveragePool over the whole map, then Reshape."""
    b = Builder("proxylessnas_gpu", 10, batch)
    x = b.relu6(b.conv(b.image(size), 40, 3, 2, norm=1e-3))
    x = inverted_residual(b, x, 24, 3, 1, 40, b.relu6, norm=1e-3)
    blocks = [  # kernel, out, expansion, stride; blocks that the search dropped are not here
        (5, 32, 3, 2), (7, 56, 3, 2), (3, 56, 3, 1), (7, 112, 6, 2), (5, 112, 3, 1), (5, 128, 6, 1), (3, 128, 3, 1),
        (5, 128, 3, 1), (7, 256, 6, 2), (7, 256, 6, 1), (7, 256, 6, 1), (5, 256, 6, 1), (7, 432, 6, 1)]
    for kernel, out, expand, stride in blocks:
        x = inverted_residual(b, x, out, kernel, stride, expand * x.shape[1], b.relu6, norm=1e-3)
    x = b.relu6(b.conv(x, 1728, 1, norm=1e-3, gain=1.5))
    x = b.op("AveragePool", x, kernel_shape=list(x.shape[2:]), strides=[1, 1])
    b.output("logits", b.head(b.reshape(x, [-1, 1728])))
    return b.finish()


def efficientnet_b0(size, batch):
    """SiLU as Sigmoid and Mul, squeeze-and-excite everywhere, padding as auto_pad SAME_UPPER."""
    b = Builder("efficientnet_b0", 17, batch)
    x = b.silu(b.conv(b.image(size), 32, 3, 2, pads="SAME_UPPER"))
    stages = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
              (6, 3, 1, 320, 1)]
    for expand, kernel, stride, out, repeats in stages:
        for i in range(repeats):
            def squeeze(y, narrow=x.shape[1] // 4):
                return b.squeeze_excite(y, narrow, b.silu, b.sigmoid)
            x = inverted_residual(b, x, out, kernel, 1 if i else stride, expand * x.shape[1], b.silu, squeeze=squeeze,
                                  pads="SAME_UPPER")
    x = b.silu(b.conv(x, 1280, 1, gain=1.5))
    b.output("logits", b.head(b.flatten(b.global_pool(x))))
    return b.finish()


MODELS = {f.__name__: f for f in (mobilenet_v1, mobilenet_v2, mobilenet_v3_large, mobilenet_v4_conv_m, mnasnet_b1,
                                  proxylessnas_gpu, efficientnet_b0)}
