"""Looks at a written model: deviations of its intermediates, and how many answers 16 random inputs give."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

MASKED = -1e4  # values at or below this are masks, not activations


def random_inputs(model, count, seed, sizes=None):
    """Inputs for each graph input by its dtype; integers are token ids or, when the name says so, masks of ones.
    Axis 0 becomes count; sizes gives the other symbolic dimensions, 32 where it does not."""
    sizes = sizes or {}
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [sizes.get(d.dim_param, 32) if d.dim_param else d.dim_value for d in tensor.shape.dim]
        dims[0] = count
        if tensor.elem_type == onnx.TensorProto.FLOAT:
            feeds[value.name] = rng.standard_normal(dims, np.float32)
        elif "mask" in value.name:
            feeds[value.name] = np.ones(dims, np.int64)
        else:
            feeds[value.name] = rng.integers(0, 2 if "type" in value.name else 1000, dims)
    return feeds


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def expose(model):
    """A copy of the model in which every intermediate is an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    have = {o.name for o in copy.graph.output}
    for node in copy.graph.node:
        copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in node.output if n and n not in have)
    return copy


def is_activation(value):
    """Not: integers, gates and probabilities (all in 0..1), and statistics (an extent of one, as reductions leave)."""
    return (value.dtype == np.float32 and value.ndim > 1 and 1 not in value.shape[1:]
            and not (value.min() >= 0 and value.max() <= 1))


def rescalings(model):
    """Names of nodes' outputs that are not judged because they are an activation in other units, which is judged itself:
    powers (also times a number), and what is only ever multiplied or divided by one number, as raw attention scores."""
    scalars, skipped, readers = scalars_of(model), set(), {}
    for node in model.graph.node:
        scales = node.op_type in ("Mul", "Div") and any(n in scalars for n in node.input)
        if node.op_type == "Pow" or scales and any(n in skipped for n in node.input):
            skipped.update(node.output)
        for name in node.input:
            readers.setdefault(name, []).append(scales)
    return skipped | {name for name, scaled in readers.items() if all(scaled)}


def scalars_of(model):
    """Names of constants with one element."""
    found = {t.name for t in model.graph.initializer if int(np.prod(t.dims)) == 1}
    for node in model.graph.node:
        if node.op_type == "Constant" and int(np.prod(node.attribute[0].t.dims)) == 1:
            found.add(node.output[0])
    return found


def fixed_batch(model):
    """The batch that the file fixes, or 0."""
    return model.graph.input[0].type.tensor_type.shape.dim[0].dim_value


def deviations(model, sizes=None):
    """(name, op, standard deviation) of each intermediate that is an activation."""
    skipped = rescalings(model)
    feeds = random_inputs(model, fixed_batch(model) or 4, 1, sizes)
    exposed = session(expose(model))
    producer = {n: node for node in model.graph.node for n in node.output}
    fed = set(feeds)
    for node in model.graph.node:  # what depends on no input is a constant
        if fed & set(node.input):
            fed |= set(node.output)
    names = [o.name for o in exposed.get_outputs() if o.name in fed]
    for name, value in zip(names, exposed.run(names, feeds)):
        if name not in skipped and is_activation(value):
            yield name, producer[name].op_type, float(value[value > MASKED].std())


def answers(model, sizes=None, count=16):
    """The argmax of the first output for each of `count` random inputs."""
    run = session(model)
    batch = fixed_batch(model) or count
    first = [run.run([run.get_outputs()[0].name], random_inputs(model, batch, 2 + seed, sizes))[0]
             for seed in range(-(-count // batch))]
    return np.concatenate(first)[:count].reshape(count, -1).argmax(1)


def check(model, sizes=None):
    """Raises AssertionError when the model breaks the zoo's promise; returns the range of deviations and the answers."""
    found = list(deviations(model, sizes))
    bad = [f"{name} ({op}) {std:.3f}" for name, op, std in found if not 0.3 <= std <= 3]
    assert not bad, f"{model.graph.name}: deviation outside 0.3..3: " + ", ".join(bad)
    distinct = len(set(answers(model, sizes).tolist()))
    assert distinct >= 8, f"{model.graph.name}: only {distinct} different argmaxes over 16 inputs"
    return min(s for _, _, s in found), max(s for _, _, s in found), distinct
