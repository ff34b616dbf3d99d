"""Converts an int8 TensorFlow Lite network into ONNX with QuantizeLinear and DequantizeLinear.

    PYTHONPATH=bench python -m zoo.tflite mobilenet_v2_int8.tflite -o mobilenet_v2_int8.onnx

A reader of the flatbuffer, as far as classifiers need it, and a translation operator by operator: CONV_2D and
DEPTHWISE_CONV_2D (NHWC to NCHW, weights to OIHW), PAD (into the convolution behind it), ADD, MEAN over the map,
FULLY_CONNECTED, SOFTMAX and QUANTIZE. Every tensor keeps its scale, zero point and numbers; each operator computes on
dequantised values and its result is quantised again, as that form has it; limits that the quantised type has anyway are
left out. Input and output stay as they are, NHWC. With --unsigned activations of int8 become uint8, 128 higher.
"""

import argparse
import struct

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 17, 8
CONV, DEPTHWISE, ADD, PAD, MEAN, FULLY_CONNECTED, SOFTMAX, QUANTIZE = 3, 4, 0, 34, 40, 9, 25, 114
TYPES = {0: np.float32, 2: np.int32, 3: np.uint8, 9: np.int8}
LIMITS = {0: None, 1: (0.0, np.inf), 3: (0.0, 6.0)}  # fused activations: none, ReLU, ReLU6


# --- the flatbuffer ----------------------------------------------------------------------------------------------------

class Table:
    """A table of the file: its fields by number."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        self.fields = at - self.read("<i", at)

    def read(self, form, at):
        return struct.unpack_from(form, self.data, at)[0]

    def place(self, field):
        entry = 4 + 2 * field
        if entry >= self.read("<H", self.fields):
            return 0
        offset = self.read("<H", self.fields + entry)
        return offset and self.at + offset

    def number(self, field, form, otherwise=0):
        at = self.place(field)
        return self.read("<" + form, at) if at else otherwise

    def table(self, field):
        at = self.place(field)
        return Table(self.data, at + self.read("<I", at)) if at else None

    def vector(self, field):
        at = self.place(field)
        if not at:
            return 0, 0
        at += self.read("<I", at)
        return at + 4, self.read("<I", at)

    def array(self, field, kind):
        at, count = self.vector(field)
        return np.frombuffer(self.data, np.dtype(kind), count, at) if count else np.zeros(0, kind)

    def tables(self, field):
        at, count = self.vector(field)
        return [Table(self.data, p + self.read("<I", p)) for p in range(at, at + 4 * count, 4)]

    def text(self, field):
        return self.array(field, np.uint8).tobytes().decode()


class Tensor:
    def __init__(self, table, buffers):
        self.shape, self.name = [int(d) for d in table.array(0, "<i4")], table.text(3)
        self.kind = TYPES[table.number(1, "b")]
        parameters = table.table(4)
        self.scale = parameters.array(2, "<f4") if parameters else np.zeros(0, np.float32)
        self.zero = parameters.array(3, "<i8") if parameters else np.zeros(0, np.int64)
        self.axis = parameters.number(6, "i") if parameters else 0
        raw = buffers[table.number(2, "I")].array(0, np.uint8)
        self.data = np.frombuffer(raw.tobytes(), self.kind).reshape(self.shape) if raw.size else None


class Operator:
    def __init__(self, table, codes):
        code = codes[table.number(0, "I")]
        self.code = max(code.number(0, "b"), code.number(3, "i"))
        self.inputs, self.outputs = [int(i) for i in table.array(1, "<i4")], [int(i) for i in table.array(2, "<i4")]
        self.options = table.table(4)


class Network:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        if data[4:8] != b"TFL3":
            raise ValueError(f"{path} is no TensorFlow Lite file")
        model = Table(data, struct.unpack_from("<I", data)[0])
        buffers, graph = model.tables(4), model.tables(2)[0]
        self.tensors = [Tensor(t, buffers) for t in graph.tables(0)]
        self.operators = [Operator(o, model.tables(1)) for o in graph.tables(3)]
        self.inputs, self.outputs = graph.array(1, "<i4"), graph.array(2, "<i4")


# --- the translation ---------------------------------------------------------------------------------------------------

class Converter:
    """Values are known by tensor: its number in ONNX as quantised (NCHW where it has four dims), and its pads if a PAD
    stands before it."""

    def __init__(self, network, name, unsigned=False):
        self.net, self.name, self.unsigned = network, name, unsigned
        self.nodes, self.weights, self.names, self.pads, self.count = [], [], {}, {}, 0

    def fresh(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def constant(self, data, stem):
        name = self.fresh(stem)
        self.weights.append(numpy_helper.from_array(np.asarray(data, order="C"), name))
        return name

    def op(self, kind, *inputs, **attributes):
        name = self.fresh(kind)
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name="/" + name, **attributes))
        return name

    def parameters(self, tensor):
        shape, kind, zero = [] if tensor.scale.size == 1 else [-1], tensor.kind, tensor.zero
        if self.unsigned and kind == np.int8 and tensor.data is None:
            kind, zero = np.uint8, zero + 128
        return self.constant(tensor.scale.reshape(shape), "scale"), self.constant(zero.astype(kind).reshape(shape), "zero")

    def dequantised(self, index):
        tensor = self.net.tensors[index]
        return self.op("DequantizeLinear", self.names[index], *self.parameters(tensor))

    def quantised(self, index, value):
        self.names[index] = self.op("QuantizeLinear", value, *self.parameters(self.net.tensors[index]))

    def weight(self, index, data, axis):
        tensor = self.net.tensors[index]
        per_axis = {} if tensor.scale.size == 1 else {"axis": axis}
        return self.op("DequantizeLinear", self.constant(data, "weight"), *self.parameters(tensor), **per_axis)

    def limited(self, value, activation, index):
        limits, tensor = LIMITS[activation], self.net.tensors[index]
        if limits is None:
            return value
        ends = [float((v - tensor.zero[0]) * tensor.scale[0]) for v in (np.iinfo(tensor.kind).min, np.iinfo(tensor.kind).max)]
        if ends[0] >= limits[0] and ends[1] <= limits[1] + 1e-3 * float(tensor.scale[0]):
            return value
        if limits[1] == np.inf:
            return self.op("Relu", value)
        return self.op("Clip", value, *(self.constant(np.float32(v), "limit") for v in limits))

    def convolution(self, o, depthwise):
        x, w = self.net.tensors[o.inputs[0]], self.net.tensors[o.inputs[1]]
        # options: padding, strides (x, y), then for depthwise a multiplier before the activation; dilations last
        same, first = o.options.number(0, "b") == 0, 4 if depthwise else 3
        strides = [o.options.number(2, "i"), o.options.number(1, "i")]
        dilations = [o.options.number(first + 2, "i", 1), o.options.number(first + 1, "i", 1)]
        data = w.data.transpose(3, 0, 1, 2) if depthwise else w.data.transpose(0, 3, 1, 2)
        kernel, groups = list(data.shape[2:]), x.shape[3] if depthwise else 1
        pads = list(self.pads.get(o.inputs[0], [0, 0, 0, 0]))
        for d in range(2) if same else ():
            extent = x.shape[1 + d]
            total = max((-(-extent // strides[d]) - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - extent, 0)
            pads[d], pads[d + 2] = pads[d] + total // 2, pads[d + 2] + total - total // 2
        bias = [self.weight(o.inputs[2], self.net.tensors[o.inputs[2]].data, 0)] if len(o.inputs) > 2 else []
        y = self.op("Conv", self.dequantised(o.inputs[0]), self.weight(o.inputs[1], data, 0), *bias, kernel_shape=kernel,
                    strides=strides, dilations=dilations, pads=pads, group=groups)
        self.quantised(o.outputs[0], self.limited(y, o.options.number(first, "b"), o.outputs[0]))

    def pad(self, o):
        amounts = self.net.tensors[o.inputs[1]].data
        if amounts[0].any() or amounts[3].any():
            raise ValueError("a PAD of other dims than rows and columns")
        self.names[o.outputs[0]] = self.names[o.inputs[0]]
        self.pads[o.outputs[0]] = [int(v) for v in (amounts[1][0], amounts[2][0], amounts[1][1], amounts[2][1])]
        if any(p.code not in (CONV, DEPTHWISE) for p in self.net.operators if o.outputs[0] in p.inputs):
            raise ValueError("a PAD before something that is no convolution")

    def add(self, o):
        y = self.op("Add", self.dequantised(o.inputs[0]), self.dequantised(o.inputs[1]))
        self.quantised(o.outputs[0], self.limited(y, o.options.number(0, "b"), o.outputs[0]))

    def mean(self, o):
        if sorted(self.net.tensors[o.inputs[1]].data.tolist()) != [1, 2]:
            raise ValueError("a MEAN over other dims than rows and columns")
        y = self.op("GlobalAveragePool", self.dequantised(o.inputs[0]))
        self.quantised(o.outputs[0], y if o.options.number(0, "b") else self.op("Flatten", y, axis=1))

    def fully_connected(self, o):
        weights = self.weight(o.inputs[1], self.net.tensors[o.inputs[1]].data, 0)
        bias = [self.weight(i, self.net.tensors[i].data, 0) for i in o.inputs[2:] if i >= 0]
        y = self.op("Gemm", self.dequantised(o.inputs[0]), weights, *bias, transB=1)
        self.quantised(o.outputs[0], self.limited(y, o.options.number(0, "b"), o.outputs[0]))

    def convert(self, o):
        if o.code in (CONV, DEPTHWISE):
            return self.convolution(o, o.code == DEPTHWISE)
        if o.code in (PAD, ADD, MEAN, FULLY_CONNECTED):
            return {PAD: self.pad, ADD: self.add, MEAN: self.mean, FULLY_CONNECTED: self.fully_connected}[o.code](o)
        if o.code == SOFTMAX:
            return self.quantised(o.outputs[0], self.op("Softmax", self.dequantised(o.inputs[0]), axis=-1))
        if o.code == QUANTIZE:
            return self.quantised(o.outputs[0], self.dequantised(o.inputs[0]))
        raise ValueError(f"operator {o.code} is not translated")

    def run(self):
        inputs, outputs = [], []
        for i in self.net.inputs:
            tensor = self.net.tensors[i]
            inputs.append(helper.make_tensor_value_info("input", helper.np_dtype_to_tensor_dtype(np.dtype(tensor.kind)), tensor.shape))
            self.names[i] = self.op("Transpose", "input", perm=[0, 3, 1, 2])
        for o in self.net.operators:
            self.convert(o)
        for i in self.net.outputs:
            tensor = self.net.tensors[i]
            outputs.append(helper.make_tensor_value_info("output", helper.np_dtype_to_tensor_dtype(np.dtype(tensor.kind)), tensor.shape))
            self.nodes.append(helper.make_node("Identity", [self.names[i]], ["output"], name="/output"))
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="tilewright zoo")
        onnx.checker.check_model(model, full_check=True)
        return model


def convert(path, name="quantised", unsigned=False):
    return Converter(Network(path), name, unsigned).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--unsigned", action="store_true")
    options = parser.parse_args()
    onnx.save(convert(options.file, unsigned=options.unsigned), options.output)


if __name__ == "__main__":
    main()
