"""The same network in 16 bits: weights, constants, inputs and outputs of f32 become f16; sums stay the business of who runs it."""

import numpy as np
from onnx import TensorProto, numpy_helper

KEPT = {"Resize": (1, 2)}                     # operands that stay f32


def half(model):
    """Changes the model in place and returns it."""
    graph = model.graph
    kept = {node.input[i] for node in graph.node for i in KEPT.get(node.op_type, ()) if i < len(node.input)}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in kept:
            tensor.CopyFrom(rounded(tensor))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
            constant = attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT
            if constant and not kept.intersection(node.output):
                attribute.t.CopyFrom(rounded(attribute.t))
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def rounded(tensor):
    limit = np.finfo(np.float16).max
    data = np.clip(numpy_helper.to_array(tensor), -limit, limit).astype(np.float16)
    return numpy_helper.from_array(data, tensor.name)
