"""Builds an ONNX graph and runs every node on probe inputs as it is added.

A layer draws its weights, looks at what they do to the probe, and rescales them, so that a deep net with random weights
behaves like a trained one: activations neither die nor blow up, biases and batch statistics mean something, and the
answer depends on the input.

    b = Builder("tiny", batch=1)
    x = b.image(96)
    x = b.relu(b.conv(x, 32, 3, stride=2))      # one Conv with a bias, one Relu; std of the Conv's output about 1
    b.output("logits", b.head(b.flatten(b.global_pool(x))))
    onnx.save(b.finish(), "tiny.onnx")

The file's batch may be a number or a name (then it is symbolic); the probe always has PROBE samples, so that the weights
do not depend on the batch. Scales and biases are rounded coarsely, so that a probe that differs in the last bits, as on
another CPU, gives the same weights but for rare rounding edges.
"""

import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

PROBE = 16
IR_VERSION = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


class Value:
    """A tensor of the graph: its name in the file and what the probe gives."""

    def __init__(self, name, data):
        self.name, self.data = name, data

    @property
    def shape(self):
        return self.data.shape


class Batch(int):
    """The batch in a constant shape: PROBE while probing, the requested number in the file."""


def images(rng, count, size):
    """Random images of deviation 1: every second plain noise, the others blots under a little noise, as pictures are."""
    noise = rng.standard_normal((count, 3, size, size), np.float32)
    grid = rng.standard_normal((count, 3, 4, 4), np.float32)
    blots = np.repeat(np.repeat(grid, -(-size // 4), 2), -(-size // 4), 3)[:, :, :size, :size]
    noise[1::2] = np.float32(0.9) * blots[1::2] + np.float32(0.4) * noise[1::2]
    return noise


class Builder:
    def __init__(self, name, opset=17, batch=1, constant_nodes=False):
        self.name, self.opset, self.batch = name, opset, batch
        self.constant_nodes = constant_nodes
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.sessions, self.count = {}, 0

    # --- graph -------------------------------------------------------------------------------------------------------

    def fresh(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, name, data, dims=None):
        """A graph input with its probe; dims default to the probe's with the batch put in."""
        self.inputs.append((name, data.dtype, list(dims or (self.batch,) + data.shape[1:])))
        return Value(name, data)

    def image(self, size, name="input"):
        return self.input(name, images(self.rng, PROBE, size))

    def output(self, name, value, dims=None):
        """Names a value and makes it a graph output."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, old in enumerate(names):
                    if old == value.name:
                        names[i] = name
        value.name = name
        self.outputs.append((name, value.data.dtype, list(dims or (self.batch,) + value.shape[1:])))

    def weight(self, data, stem="weight", stored=None):
        """An initializer; `stored` is what the file gets where that differs from what the probe needs."""
        data = np.asarray(data)
        value = Value(self.fresh(stem), data)
        self.weights.append(numpy_helper.from_array(np.asarray(data if stored is None else stored, order="C"), value.name))
        return value

    def const(self, data, dtype=np.float32):
        """A small constant: an initializer, or a Constant node as torch writes it."""
        if not self.constant_nodes:
            return self.weight(np.asarray(data, dtype), "const")
        value = Value(self.fresh("Constant"), np.asarray(data, dtype))
        tensor = numpy_helper.from_array(value.data, value.name)
        self.nodes.append(helper.make_node("Constant", [], [value.name], name="/" + value.name, value=tensor))
        return value

    def op(self, kind, *inputs, outputs=1, known=None, **attributes):
        """Adds a node and runs it (unless its result is known); returns a Value, or a list of them when outputs > 1."""
        names = [v.name if v is not None else "" for v in inputs]
        name = self.fresh(kind)
        out = [name + (f".{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, out, name="/" + name, **attributes))
        if known is None:
            data = self.run(kind, [None if v is None else v.data for v in inputs], outputs, attributes)
        else:
            data = [known]
        values = [Value(n, d) for n, d in zip(out, data)]
        return values[0] if outputs == 1 else values

    def run(self, kind, arrays, outputs, attributes):
        key = (kind, outputs, repr(sorted(attributes.items())), tuple(None if a is None else a.dtype.str for a in arrays))
        if key not in self.sessions:
            names = ["" if a is None else f"i{i}" for i, a in enumerate(arrays)]
            types = [helper.np_dtype_to_tensor_dtype(a.dtype) if a is not None else 0 for a in arrays]
            graph = helper.make_graph(
                [helper.make_node(kind, names, [f"o{i}" for i in range(outputs)], **attributes)], "probe",
                [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, types) if n],
                [onnx.ValueInfoProto(name=f"o{i}") for i in range(outputs)])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                      ir_version=IR_VERSION[self.opset])
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = 2, 3
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self.sessions[key] = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return self.sessions[key].run(None, {f"i{i}": a for i, a in enumerate(arrays) if a is not None})

    def finish(self):
        def infos(items):
            return [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), d) for n, t, d in items]

        graph = helper.make_graph(self.nodes, self.name, infos(self.inputs), infos(self.outputs), self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                  ir_version=IR_VERSION[self.opset], producer_name="tilewright zoo")
        onnx.checker.check_model(model, full_check=True)
        return model

    # --- shapes ------------------------------------------------------------------------------------------------------

    def dim(self, x, axis):
        """The extent as torch exports it: Shape, Gather."""
        return self.op("Gather", self.op("Shape", x), self.const(axis, np.int64), axis=0)

    def batch_of(self, x, chain=False):
        """The batch of x for reshape(): computed from its shape where it is symbolic or a chain is wanted."""
        return self.dim(x, 0) if chain or isinstance(self.batch, str) else Batch(PROBE)

    def shape(self, dims):
        """A shape tensor from numbers and scalar Values; Values give a chain of Unsqueeze and Concat."""
        if not any(isinstance(d, Value) for d in dims):
            stored = [self.batch if isinstance(d, Batch) else d for d in dims]
            return self.weight(np.array(dims, np.int64), "shape", np.array(stored, np.int64))
        parts = [self.unsqueeze(d, 0) if isinstance(d, Value) else self.const([d], np.int64) for d in dims]
        return self.op("Concat", *parts, axis=0)

    def reshape(self, x, dims):
        return self.op("Reshape", x, self.shape(dims))

    def unsqueeze(self, x, axis):
        if self.opset < 13:
            return self.op("Unsqueeze", x, axes=[axis])
        return self.op("Unsqueeze", x, self.const([axis], np.int64))

    def slice(self, x, start, stop, axis):
        bounds = [v if isinstance(v, Value) else self.const([v], np.int64) for v in (start, stop)]
        return self.op("Slice", x, *bounds, self.const([axis], np.int64))

    def pick(self, x, index, axis):
        """x[..., index, ...]: Gather with a scalar index."""
        return self.op("Gather", x, self.const(index, np.int64), axis=axis)

    def split(self, x, sizes, axis):
        if self.opset < 13:
            return self.op("Split", x, outputs=len(sizes), axis=axis, split=sizes)
        return self.op("Split", x, self.const(sizes, np.int64), outputs=len(sizes), axis=axis)

    def transpose(self, x, *perm):
        return self.op("Transpose", x, perm=list(perm))

    def concat(self, parts, axis):
        return self.op("Concat", *parts, axis=axis)

    def flatten(self, x):
        return self.op("Flatten", x, axis=1)

    def add(self, a, b):
        return self.op("Add", a, b)

    def mul(self, a, b):
        return self.op("Mul", a, b)

    # --- layers with weights -----------------------------------------------------------------------------------------

    def random(self, shape, std=1.0):
        return self.rng.standard_normal(shape, np.float32) * np.float32(std)

    def coarse(self, scale):
        """Positive numbers rounded to two bits of mantissa, up or down by chance, so that the average stays."""
        mantissa, exponent = np.frexp(scale)
        return np.ldexp(np.floor(mantissa * 4 + self.rng.random(np.shape(scale))) / 4, exponent)

    def around_one(self, shape):
        return np.exp2(self.rng.uniform(-0.5, 0.5, shape)).astype(np.float32)

    def measure(self, y, axis):
        """Mean and deviation of each channel; where samples are few the channels' deviations are drawn to their common
        one, else errors of the estimate would add up over the layers. Pooled maps have one number a sample: too few."""
        axes = tuple(i for i in range(y.ndim) if i != axis % y.ndim)
        if y.size <= PROBE * y.shape[axis]:
            return np.zeros(y.shape[axis]), np.full(y.shape[axis], y.std(dtype=np.float64))
        mean, std = y.mean(axes, dtype=np.float64), y.std(axes, dtype=np.float64)
        few = 200 / (200 + y.size // y.shape[axis])
        return mean, np.sqrt((1 - few) * std**2 + few * np.mean(std**2) + 0.1 * np.median(std) ** 2 + 1e-12)

    def fit(self, y, axis, gain):
        """Scale and bias per channel that give y a deviation of about gain, with means that differ by channel."""
        mean, std = self.measure(y, axis)
        scale = self.coarse(gain / std) * self.around_one(std.shape)
        target = gain * self.random(std.shape, 0.4)
        return scale.astype(np.float32), (np.round(16 * (target - mean * scale)) / 16).astype(np.float32)

    def conv(self, x, out, kernel, stride=1, groups=1, pads=None, bias=True, gain=1.0, norm=None):
        """Conv with a fitted bias, or with none, or followed by BatchNormalization (norm = its epsilon).
        pads: None (same, symmetric), four numbers, or the name of an auto_pad."""
        w = self.random((out, x.shape[1] // groups, kernel, kernel), (x.shape[1] // groups * kernel * kernel) ** -0.5)
        attributes = dict(kernel_shape=[kernel] * 2, strides=[stride] * 2, group=groups)
        if isinstance(pads, str):
            attributes["auto_pad"] = pads
        else:
            attributes["pads"] = [kernel // 2] * 4 if pads is None else list(pads)
        [y] = self.run("Conv", [x.data, w], 1, attributes)
        scale, offset = self.fit(y, 1, gain)
        if norm is not None:
            scale = np.float32(self.coarse(1 / np.sqrt(np.mean(self.measure(y, 1)[1] ** 2))))
            plain = self.op("Conv", x, self.weight(w * scale), known=y * scale, **attributes)
            return self.batch_norm(plain, norm, gain)
        offset = offset if bias else np.zeros_like(offset)
        terms = [x, self.weight(w * scale[:, None, None, None])] + ([self.weight(offset, "bias")] if bias else [])
        y = y * scale[:, None, None] + offset[:, None, None]
        return self.op("Conv", *terms, known=y, **attributes)

    def depthwise(self, x, kernel, stride=1, **options):
        return self.conv(x, x.shape[1], kernel, stride, groups=x.shape[1], **options)

    def batch_norm(self, x, epsilon=1e-5, gain=1.0):
        mean, std = self.measure(x.data, 1)
        var = self.coarse(std * std) * self.around_one(std.shape)
        mean = np.round(16 * mean) / 16 + self.random(std.shape, 0.1)
        parameters = [gain * self.around_one(std.shape), gain * self.random(std.shape, 0.4), mean, var]
        stems = ("scale", "bias", "mean", "var")
        return self.op("BatchNormalization", x, *(self.weight(np.float32(p), s) for p, s in zip(parameters, stems)),
                       epsilon=epsilon)

    def linear(self, x, out, bias=True, gain=1.0, gemm=False):
        """A dense layer over the last axis: MatMul and Add, or (on rank 2) Gemm as torch writes it.
        gain: a number, or one for each output."""
        w = self.random((x.shape[-1], out), x.shape[-1] ** -0.5)
        [y] = self.run("MatMul", [x.data, w], 1, {})
        scale, offset = self.fit(y, -1, gain)
        return self.dense(x, w * scale, y * scale, offset if bias else None, gemm)

    def dense(self, x, w, y, offset, gemm):
        """The nodes of a dense layer; y is the product."""
        terms = [self.weight(offset, "bias")] if offset is not None else []
        if gemm:
            return self.op("Gemm", x, self.weight(w.T), *terms, known=y if offset is None else y + offset, transB=1)
        y = self.op("MatMul", x, self.weight(w), known=y)
        return self.add(terms[0], y) if terms else y

    def head(self, x, out=1000, gain=1.0):
        """The last layer, Gemm: outputs are centred (over the probe's noise, which differs least from sample to sample),
        so that different inputs win different classes."""
        w = self.random((x.shape[-1], out), x.shape[-1] ** -0.5)
        y = (x.data @ w).astype(np.float64)
        centre = y[::2].mean(0)
        scale = np.float32(self.coarse(gain / np.sqrt(np.mean((y - centre) ** 2) + 1e-12)))
        offset = np.round(16 * (-centre * scale)) / 16 + self.random(out, 0.3 * gain)
        return self.dense(x, w * scale, np.float32(y * scale), np.float32(offset), True)

    def layer_norm(self, x, epsilon=1e-6, op=True, axis=-1, scale=None):
        """LayerNormalization, or its decomposition over any one axis as torch wrote it before opset 17."""
        shape = (x.shape[axis],) + (1,) * (-axis - 1)
        scale = self.weight(self.around_one(shape) if scale is None else scale, "scale")
        bias = self.weight(self.random(shape, 0.3), "bias")
        if op:
            return self.op("LayerNormalization", x, scale, bias, axis=axis, epsilon=epsilon)
        centred = self.op("Sub", x, self.mean(x, [axis]))
        variance = self.mean(self.op("Pow", centred, self.const(2.0)), [axis])
        y = self.op("Div", centred, self.op("Sqrt", self.add(variance, self.const(epsilon))))
        return self.add(self.mul(y, scale), bias)

    def squeeze_excite(self, x, squeezed, act, gate):
        s = act(self.conv(self.global_pool(x), squeezed, 1))
        return self.mul(x, gate(self.conv(s, x.shape[1], 1, gain=0.6)))

    # --- layers without weights --------------------------------------------------------------------------------------

    def mean(self, x, axes, keep=True):
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=axes, keepdims=int(keep))
        return self.op("ReduceMean", x, self.const(axes, np.int64), keepdims=int(keep))

    def global_pool(self, x):
        return self.op("GlobalAveragePool", x)

    def relu(self, x):
        return self.op("Relu", x)

    def clip(self, x, low, high):
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.const(low), self.const(high))

    def relu6(self, x):
        return self.clip(x, 0.0, 6.0)

    def sigmoid(self, x):
        return self.op("Sigmoid", x)

    def silu(self, x):
        return self.mul(x, self.sigmoid(x))

    def hard_sigmoid(self, x):
        return self.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)

    def hard_swish(self, x, op=True):
        if op:
            return self.op("HardSwish", x)
        gate = self.op("Div", self.relu6(self.add(x, self.const(3.0))), self.const(6.0))
        return self.mul(x, gate)

    def gelu(self, x):
        """Gelu from opset 20, else by Erf in torch's order."""
        if self.opset >= 20:
            return self.op("Gelu", x)
        erf = self.op("Erf", self.op("Div", x, self.const(np.sqrt(2.0))))
        return self.mul(self.mul(x, self.add(erf, self.const(1.0))), self.const(0.5))

    def gelu_tanh(self, x):
        inner = self.add(x, self.mul(self.const(0.044715), self.op("Pow", x, self.const(3.0))))
        tanh = self.op("Tanh", self.mul(self.const(np.sqrt(2 / np.pi)), inner))
        return self.mul(self.mul(self.const(0.5), x), self.add(self.const(1.0), tanh))

    def softmax(self, x):
        return self.op("Softmax", x, axis=-1)
