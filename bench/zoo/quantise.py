"""Turns a float network of the zoo into one in eight bits: QuantizeLinear and DequantizeLinear round every operator that gains by it.

    PYTHONPATH=bench python -m zoo.quantise mobilenet_v2 --size 96 -o mobilenet_v2_q.onnx

Ranges of activations are what seeded images give (16 of them, run by ONNX Runtime); they become uint8 with a zero point, or int8
with --signed. Weights of Conv and Gemm are int8, a scale a filter, symmetric; biases int32 with the scale that their sums have. A
Relu or Clip between a convolution and a rounding is left out: the range of the rounded numbers does what it does. Batch norms must
be folded.
"""

import argparse

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import SIZES, build, verify
from .builder import images

CONTRACTIONS = ("Conv", "Gemm")
QUANTISED = CONTRACTIONS + ("Add", "Mul", "GlobalAveragePool", "AveragePool", "MaxPool", "ReduceMean", "Concat", "HardSwish", "HardSigmoid")
LIMITS = ("Relu", "Clip")
EPS = 1e-8


def ranges(model, feeds):
    """Least and largest value of every float tensor, 0 included."""
    copy = verify.expose(model)
    session = verify.session(copy)
    found = {}
    for value, array in zip(session.get_outputs(), session.run(None, feeds)):
        if array.dtype == np.float32 and array.size:
            found[value.name] = (min(0.0, float(array.min())), max(0.0, float(array.max())))
    for name, array in feeds.items():
        found[name] = (min(0.0, float(array.min())), max(0.0, float(array.max())))
    return found


class Quantiser:
    def __init__(self, model, found, signed):
        self.model, self.found, self.signed = model, found, signed
        self.weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
        self.nodes, self.made, self.parameters, self.quantised, self.exact = [], [], {}, {}, {}
        self.readers, self.makers = {}, {o: n for n in model.graph.node for o in n.output}
        for node in model.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def constant(self, data, name):
        self.made.append(numpy_helper.from_array(np.asarray(data, order="C"), name))
        return name

    def op(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name="/" + output, **attributes))
        return output

    def activation(self, name):
        """Scale and zero point of an activation, as names."""
        if name not in self.parameters:
            low, high = self.found[name]
            scale = np.float32(max(high - low, EPS) / 255)
            zero = int(np.clip(np.rint(-low / scale), 0, 255))
            data = np.array(zero - 128, np.int8) if self.signed else np.array(zero, np.uint8)
            self.parameters[name] = (self.constant(scale, name + ".scale"), self.constant(data, name + ".zero"), scale)
        return self.parameters[name]

    def quantise(self, name):
        """The tensor in eight bits."""
        if name not in self.quantised:
            scale, zero, _ = self.activation(name)
            self.quantised[name] = self.op("QuantizeLinear", [self.exact.get(name, name), scale, zero], name + ".q")
        return self.quantised[name]

    def dequantised(self, name, reader):
        """As a float again, for one reader."""
        scale, zero, _ = self.activation(name)
        return self.op("DequantizeLinear", [self.quantise(name), scale, zero], f"{name}.{reader}")

    def weight(self, node, name):
        """A weight of a convolution or a Gemm, a scale a filter."""
        data = self.weights[name].astype(np.float32)
        axis = 1 if node.op_type == "Gemm" and not self.attribute(node, "transB") else 0
        others = tuple(i for i in range(data.ndim) if i != axis)
        scale = np.maximum(np.abs(data).max(others) / 127, EPS).astype(np.float32)
        shape = [-1 if i == axis else 1 for i in range(data.ndim)]
        whole = np.clip(np.rint(data / scale.reshape(shape)), -127, 127).astype(np.int8)
        stem = node.output[0] + ".weight"
        names = [self.constant(whole, stem), self.constant(scale, stem + ".scale"), self.constant(np.zeros(scale.shape, np.int8), stem + ".zero")]
        return self.op("DequantizeLinear", names, stem + ".float", axis=axis), scale

    def bias(self, node, name, scale):
        whole = np.rint(self.weights[name].astype(np.float64) / scale).clip(-2**31, 2**31 - 1).astype(np.int32)
        stem = node.output[0] + ".bias"
        names = [self.constant(whole, stem), self.constant(scale.astype(np.float32), stem + ".scale"), self.constant(np.zeros(scale.shape, np.int32), stem + ".zero")]
        return self.op("DequantizeLinear", names, stem + ".float", axis=0)

    @staticmethod
    def attribute(node, name):
        return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), 0)

    def implied(self, node):
        """Whether a limit only stands between a contraction and roundings."""
        maker = self.makers.get(node.input[0]) if node.op_type in LIMITS else None
        return (maker is not None and maker.op_type in CONTRACTIONS and len(self.readers[node.input[0]]) == 1
                and all(r.op_type in QUANTISED for r in self.readers.get(node.output[0], [node])))

    def convert(self, node):
        if self.implied(node):
            self.exact[node.output[0]] = node.input[0]
            return
        inputs = list(node.input)
        if node.op_type in QUANTISED:
            reader, scale = node.output[0], None
            for i, name in enumerate(inputs):
                if node.op_type in CONTRACTIONS and i == 1 and name in self.weights:
                    inputs[i], scale = self.weight(node, name)
                elif node.op_type in CONTRACTIONS and i == 2 and name in self.weights and scale is not None:
                    inputs[i] = self.bias(node, name, self.activation(node.input[0])[2] * scale)
                elif name in self.found and name not in self.weights:
                    inputs[i] = self.dequantised(name, reader + (f".{i}" if list(node.input).count(name) > 1 else ""))
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        self.nodes.append(copy)

    def run(self):
        for node in self.model.graph.node:
            self.convert(node)
        # What leaves the network went through eight bits too.
        for output in self.model.graph.output:
            for node in self.nodes:
                node.output[:] = [output.name + ".exact" if o == output.name else o for o in node.output]
                node.input[:] = [output.name + ".exact" if i == output.name else i for i in node.input]
            self.found[output.name + ".exact"] = self.found[output.name]
            scale, zero, _ = self.activation(output.name + ".exact")
            self.op("DequantizeLinear", [self.quantise(output.name + ".exact"), scale, zero], output.name)
        used = {i for n in self.nodes for i in n.input}
        graph = helper.make_graph(self.nodes, self.model.graph.name + "_q", self.model.graph.input, self.model.graph.output,
                                  [w for w in self.model.graph.initializer if w.name in used] + self.made)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version, producer_name="tilewright zoo")
        onnx.checker.check_model(model, full_check=True)
        return model


def quantise(name, size=None, batch=1, signed=False):
    size = SIZES[name] if size is None else size
    model = build(name, size, 16)
    probe = {model.graph.input[0].name: images(np.random.default_rng(1), 16, size)}
    found = ranges(model, probe)
    return Quantiser(build(name, size, batch), found, signed).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--size", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    onnx.save(quantise(options.name, options.size, options.batch, options.signed), options.output)


if __name__ == "__main__":
    main()
