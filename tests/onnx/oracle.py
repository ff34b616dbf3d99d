"""Compares our reader of ONNX files with the onnx package, on random models.

    python tests/onnx/oracle.py path/to/dump_model [--models 200] [--mutations 3000] [--seed 1]
    python tests/onnx/oracle.py --corpus tests/fuzz/corpus/onnx        writes the seeds of the fuzzer

Three comparisons, each of whole dumps: models as the package writes them (all element types and encodings, attributes of
every kind, external data, functions, types); damaged ones, where all that we accept must mean what protobuf says it means;
and functions put in, against onnx.inliner, equal up to names.
"""

import argparse
import collections
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.inliner
from onnx import AttributeProto, TensorProto, helper

T = TensorProto
BITS = {T.FLOAT: 32, T.UINT8: 8, T.INT8: 8, T.UINT16: 16, T.INT16: 16, T.INT32: 32, T.INT64: 64, T.BOOL: 8, T.FLOAT16: 16,
        T.DOUBLE: 64, T.UINT32: 32, T.UINT64: 64, T.COMPLEX64: 64, T.COMPLEX128: 128, T.BFLOAT16: 16, 17: 8, 18: 8, 19: 8,
        20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2, 27: 6, 28: 6}
TYPED = {T.FLOAT: "float_data", T.COMPLEX64: "float_data", T.DOUBLE: "double_data", T.COMPLEX128: "double_data",
         T.INT64: "int64_data", T.UINT32: "uint64_data", T.UINT64: "uint64_data"}
NAMES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
         10: "float16", 11: "float64", 16: "bfloat16"}


# ---- what a model should be dumped as ----

def hex_of(text):
    return (text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)).hex()


def domain_of(domain):
    return "" if domain == "ai.onnx" else domain


def f32_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def tensor_bytes(t, folder):
    data = stored_bytes(t, folder)
    return bytes(min(b, 1) for b in data) if t.data_type == T.BOOL else data


def stored_bytes(t, folder):
    if t.data_location == T.EXTERNAL:
        entry = {e.key: e.value for e in t.external_data}
        with open(os.path.join(folder, entry["location"]), "rb") as file:
            file.seek(int(entry.get("offset") or 0))
            return file.read((int(np.prod(t.dims, dtype=np.int64)) * BITS[t.data_type] + 7) // 8)
    field = TYPED.get(t.data_type, "int32_data")
    values = list(getattr(t, field))
    if t.data_type == T.STRING:
        return b""
    if len(t.raw_data) or not values:
        data = bytes(t.raw_data)
    elif field == "float_data":
        data = np.array(values, dtype="<f4").tobytes()
    elif field == "double_data":
        data = np.array(values, dtype="<f8").tobytes()
    else:
        width = max(BITS[t.data_type], 8) // 8
        if t.data_type == T.BOOL:
            values = [int(v != 0) for v in values]
        data = b"".join((v & ((1 << 8 * width) - 1)).to_bytes(width, "little") for v in values)
    return data


def dump_tensor(t, folder):
    location = {e.key: e.value for e in t.external_data}.get("location", "") if t.data_location == T.EXTERNAL else ""
    return {"name": hex_of(t.name), "element": t.data_type, "dims": list(t.dims), "bytes": tensor_bytes(t, folder).hex(),
            "strings": [hex_of(s) for s in t.string_data], "external": hex_of(location)}


def element_name(code):
    if code in NAMES:
        return NAMES[code]
    return T.DataType.Name(code).lower() if code in T.DataType.values() else f"type {code}"


def type_name(tp):
    kind = tp.WhichOneof("value")
    if kind == "tensor_type":
        return f"tensor({element_name(tp.tensor_type.elem_type)})" if tp.tensor_type.elem_type else "untyped"
    if kind == "sequence_type":
        return f"sequence({inner_name(tp.sequence_type, 'elem_type')})"
    if kind == "optional_type":
        return f"optional({inner_name(tp.optional_type, 'elem_type')})"
    if kind == "map_type":
        key = f"{element_name(tp.map_type.key_type)}, " if tp.map_type.HasField("key_type") else ""
        return f"map({key}{inner_name(tp.map_type, 'value_type')})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({element_name(tp.sparse_tensor_type.elem_type) if tp.sparse_tensor_type.elem_type else 'undefined'})"
    return "opaque" if kind else "untyped"


def inner_name(message, field):
    return type_name(getattr(message, field)) if message.HasField(field) else "?"


def dump_type(tp):
    if tp.WhichOneof("value") not in ("tensor_type", None):
        return {"element": 0, "ranked": False, "dims": [], "unsupported": hex_of(type_name(tp))}
    tensor = tp.tensor_type
    dims = []
    for d in tensor.shape.dim:
        kind = d.WhichOneof("value")
        dims.append([max(d.dim_value, -1), ""] if kind == "dim_value" else [-1, hex_of(d.dim_param) if kind else ""])
    return {"element": tensor.elem_type, "ranked": tensor.HasField("shape"), "dims": dims, "unsupported": ""}


def attribute_value(a, kind, scope):
    A = AttributeProto
    folder = scope.folder
    return {A.FLOAT: lambda: f32_bits(a.f), A.INT: lambda: a.i, A.STRING: lambda: hex_of(a.s),
            A.TENSOR: lambda: dump_tensor(a.t, folder), A.GRAPH: lambda: dump_graph(a.g, scope),
            A.FLOATS: lambda: [f32_bits(v) for v in a.floats], A.INTS: lambda: list(a.ints),
            A.STRINGS: lambda: [hex_of(s) for s in a.strings], A.TENSORS: lambda: [dump_tensor(t, folder) for t in a.tensors],
            A.GRAPHS: lambda: [dump_graph(g, scope) for g in a.graphs], A.TYPE_PROTO: lambda: dump_type(a.tp),
            A.TYPE_PROTOS: lambda: [dump_type(t) for t in a.type_protos]}.get(kind, lambda: None)()


def dump_attribute(a, scope):
    fields = [("f", 1), ("i", 2), ("s", 3), ("t", 4), ("g", 5), ("floats", 6), ("ints", 7), ("strings", 8), ("tensors", 9),
              ("graphs", 10), ("sparse_tensor", 11), ("sparse_tensors", 12), ("tp", 13), ("type_protos", 14)]
    kind = a.type
    if kind == 0:
        present = [k for f, k in fields if f in {d.name for d, _ in a.ListFields()}]
        kind = present[0] if len(present) == 1 else 0
    value = None if a.ref_attr_name else attribute_value(a, kind, scope)
    return {"name": hex_of(a.name), "ref": hex_of(a.ref_attr_name), "kind": kind, "value": value}


Scope = collections.namedtuple("Scope", "folder opsets")


def dump_node(n, scope):
    return {"name": hex_of(n.name), "op": hex_of(n.op_type), "domain": hex_of(domain_of(n.domain)), "overload": hex_of(n.overload),
            "opset": scope.opsets.get(domain_of(n.domain), 0), "inputs": [hex_of(x) for x in n.input],
            "outputs": [hex_of(x) for x in n.output], "attributes": [dump_attribute(a, scope) for a in n.attribute]}


def dump_graph(g, scope):
    def infos(values):
        return [{"name": hex_of(v.name), "type": dump_type(v.type)} for v in values]
    return {"name": hex_of(g.name), "nodes": [dump_node(n, scope) for n in g.node],
            "initializers": [dump_tensor(t, scope.folder) for t in g.initializer], "inputs": infos(g.input),
            "outputs": infos(g.output), "values": infos(g.value_info), "sparse": [hex_of(s.values.name) for s in g.sparse_initializer]}


def opset_map(imports):
    return {domain_of(o.domain): o.version for o in imports}


def opset_list(imports):
    return [[hex_of(d), v] for d, v in opset_map(imports).items()]


def dump_function(f, scope):
    inner = Scope(scope.folder, {**scope.opsets, **opset_map(f.opset_import)})
    return {"name": hex_of(f.name), "domain": hex_of(domain_of(f.domain)), "overload": hex_of(f.overload),
            "inputs": [hex_of(x) for x in f.input], "outputs": [hex_of(x) for x in f.output],
            "attributes": [hex_of(x) for x in f.attribute], "defaults": [dump_attribute(a, inner) for a in f.attribute_proto],
            "nodes": [dump_node(n, inner) for n in f.node], "opsets": opset_list(f.opset_import)}


def dump_model(m, folder):
    scope = Scope(folder, opset_map(m.opset_import))
    opsets = opset_list(m.opset_import)
    if not opsets and m.ir_version < 3:
        scope, opsets = Scope(folder, {"": 1}), [["", 1]]
    return {"ir_version": m.ir_version, "model_version": m.model_version, "producer": hex_of(m.producer_name),
            "producer_version": hex_of(m.producer_version), "domain": hex_of(m.domain), "opsets": opsets,
            "metadata": [[hex_of(e.key), hex_of(e.value)] for e in m.metadata_props], "training": len(m.training_info) > 0,
            "graph": dump_graph(m.graph, scope), "functions": [dump_function(f, scope) for f in m.functions]}


# ---- random models ----

class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.count = 0

    def name(self, stem="v"):
        self.count += 1
        return self.r.choice([f"{stem}{self.count}", f"/block/{stem}.{self.count}", f"{stem}é€{self.count}"])

    def dims(self):
        return [self.r.choice([0, 1, 1, 2, 3, 5]) for _ in range(self.r.randrange(4))]

    def tensor(self, name=None, encoding=None):
        r, t = self.r, T()
        t.name = self.name("w") if name is None else name
        t.data_type = r.choice(list(BITS) + [T.STRING])
        t.dims.extend(self.dims())
        count = int(np.prod(t.dims, dtype=np.int64))
        if t.data_type == T.STRING:
            t.string_data.extend(r.randbytes(r.randrange(5)) for _ in range(count))
            return t
        data = r.randbytes((count * BITS[t.data_type] + 7) // 8)
        if t.data_type == T.BOOL:
            data = bytes(b % 2 for b in data)
        encoding = encoding or r.choice(["raw", "typed"])
        if encoding == "raw" or BITS[t.data_type] == 6:
            t.raw_data = data
            return t
        field = TYPED.get(t.data_type, "int32_data")
        if field in ("float_data", "double_data"):
            data = np.random.default_rng(r.randrange(1 << 30)).standard_normal(len(data)).astype("<f8").tobytes()[:len(data)]
            code = "<f4" if field == "float_data" else "<f8"
            getattr(t, field).extend(np.frombuffer(data, dtype=code).tolist())
        else:
            width = max(BITS[t.data_type], 8) // 8
            signed = t.data_type in (T.INT8, T.INT16, T.INT32, T.INT64)
            getattr(t, field).extend(int.from_bytes(data[i:i + width], "little", signed=signed) for i in range(0, len(data), width))
        return t

    def type(self, depth=0):
        r = self.r
        choice = r.randrange(10 if depth < 2 else 6)
        if choice < 6:
            elem = r.choice([1, 1, 7, 10, 16, 9, 21])
            if choice == 0:
                return helper.make_tensor_type_proto(elem, None)
            return helper.make_tensor_type_proto(elem, [r.choice([1, 7, -1, 1 << 40, "n", "batch é", None]) for _ in range(r.randrange(5))])
        if choice == 6:
            return helper.make_sequence_type_proto(self.type(depth + 1))
        if choice == 7:
            return helper.make_optional_type_proto(self.type(depth + 1))
        if choice == 8:
            return helper.make_map_type_proto(r.choice([T.STRING, T.INT64]), self.type(depth + 1))
        return helper.make_sparse_tensor_type_proto(r.choice([1, 7]), [2, 3])

    def info(self, name):
        v = helper.make_value_info(name, self.type())
        v.doc_string = self.r.choice(["", "text"])
        return v

    def attribute(self, depth):
        r, a, A = self.r, AttributeProto(), AttributeProto
        a.name = self.name("a")
        kinds = [A.FLOAT, A.INT, A.STRING, A.TENSOR, A.FLOATS, A.INTS, A.STRINGS, A.TENSORS, A.TYPE_PROTO, A.TYPE_PROTOS, A.SPARSE_TENSOR]
        a.type = r.choice(kinds + ([A.GRAPH, A.GRAPHS] if depth < 2 else []))
        n = r.randrange(4)
        if a.type == A.FLOAT: a.f = r.gauss(0, 1)
        if a.type == A.INT: a.i = r.randrange(-(1 << 63), 1 << 63)
        if a.type == A.STRING: a.s = r.randbytes(n)
        if a.type == A.TENSOR: a.t.CopyFrom(self.tensor())
        if a.type == A.GRAPH: a.g.CopyFrom(self.graph(depth + 1))
        if a.type == A.FLOATS: a.floats.extend(r.gauss(0, 1) for _ in range(n))
        if a.type == A.INTS: a.ints.extend(r.choice([-1, 0, 1, 1 << 40, -(1 << 63)]) for _ in range(n))
        if a.type == A.STRINGS: a.strings.extend(r.randbytes(3) for _ in range(n))
        if a.type == A.TENSORS: a.tensors.extend(self.tensor() for _ in range(n))
        if a.type == A.GRAPHS: a.graphs.extend(self.graph(depth + 1) for _ in range(n))
        if a.type == A.TYPE_PROTO: a.tp.CopyFrom(self.type())
        if a.type == A.TYPE_PROTOS: a.type_protos.extend(self.type() for _ in range(n))
        if a.type == A.SPARSE_TENSOR: a.sparse_tensor.CopyFrom(self.sparse("s"))
        return a

    def sparse(self, name):
        values = helper.make_tensor(name, T.FLOAT, [1], [2.0])
        return helper.make_sparse_tensor(values, helper.make_tensor("", T.INT64, [1], [3]), [5])

    def node(self, depth, known):
        r, n = self.r, onnx.NodeProto()
        n.op_type = r.choice(["Conv", "Add", "Thing"])
        n.domain = r.choice(["", "", "ai.onnx", "com.microsoft", "unknown"])
        n.name = r.choice(["", self.name("n")])
        n.overload = r.choice(["", "", "o1"])
        n.doc_string = r.choice(["", "why"])
        n.input.extend(r.choice(known + [""]) for _ in range(r.randrange(4)))
        n.output.extend(self.name() for _ in range(r.randrange(3)))
        n.attribute.extend(self.attribute(depth) for _ in range(r.randrange(3)))
        if r.random() < 0.2:
            n.metadata_props.add(key="k", value="v")
        known.extend(n.output)
        return n

    def graph(self, depth=0):
        r, g = self.r, onnx.GraphProto()
        g.name = self.name("g")
        known = [self.name("x") for _ in range(1 + r.randrange(3))]
        g.input.extend(self.info(x) for x in known)
        g.initializer.extend(self.tensor() for _ in range(r.randrange(6 if depth == 0 else 2)))
        g.node.extend(self.node(depth, known) for _ in range(r.randrange(6 if depth == 0 else 2)))
        g.output.extend(self.info(x) for x in r.sample(known, 1))
        g.value_info.extend(self.info(x) for x in r.sample(known, 1))
        if r.random() < 0.2:
            g.sparse_initializer.append(self.sparse("sparse"))
            g.quantization_annotation.add(tensor_name="x")
        return g

    def function(self):
        f = onnx.FunctionProto()
        f.name, f.domain, f.overload = self.name("F"), self.r.choice(["my", "", "ai.onnx"]), self.r.choice(["", "o"])
        f.input.extend(["a", "b"][:self.r.randrange(3)])
        known = list(f.input) or ["z"]
        f.node.extend(self.node(1, known) for _ in range(self.r.randrange(1, 4)))
        reference = f.node[0].attribute.add()
        reference.name, reference.type, reference.ref_attr_name = "ref", AttributeProto.FLOAT, "alpha"
        f.output.extend(known[-1:])
        f.attribute.append("alpha")
        f.attribute_proto.append(helper.make_attribute("beta", 2))
        f.opset_import.append(helper.make_opsetid("", self.r.choice([11, 17])))
        f.doc_string = "doc"
        return f

    def model(self):
        r, m = self.r, onnx.ModelProto()
        m.ir_version = r.choice([3, 7, 8, 10])
        m.producer_name, m.producer_version, m.domain, m.model_version = "oracle", "1é", "org.example", r.choice([0, 5])
        m.doc_string = "doc"
        m.graph.CopyFrom(self.graph())
        m.opset_import.append(helper.make_opsetid(r.choice(["", "ai.onnx"]), r.choice([7, 13, 21])))
        if r.random() < 0.5:
            m.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        m.metadata_props.add(key="author", value="é")
        m.functions.extend(self.function() for _ in range(r.randrange(3)))
        if r.random() < 0.1:
            m.training_info.add()
        return m


# ---- the comparisons ----

def run_dump(tool, paths, flags=()):
    result = subprocess.run([tool, *flags], input="\n".join(paths) + "\n", capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{tool} ended with {result.returncode}: {result.stderr[-2000:]}")
    lines = result.stdout.splitlines()
    assert len(lines) == len(paths), (len(lines), len(paths))
    return [json.loads(line) for line in lines]


def difference(a, b, at="model"):
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((d for d in (difference(a[k], b[k], f"{at}.{k}") for k in a) if d), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for d in (difference(x, y, f"{at}[{i}]") for i, (x, y) in enumerate(zip(a, b))) if d), None)
    if a == b:
        return None
    a, b = str(a), str(b)
    start = max(len(os.path.commonprefix([a, b])) - 20, 0)
    return f"{at}, from character {start}: ours {a[start:start + 100]}, expected {b[start:start + 100]}"


def quiet(bits):
    return bits | 0x400000 if bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF else bits


def quieted(dump):
    """Signalling NaNs made quiet, as they become on their way through a Python float."""
    if isinstance(dump, list):
        return [quieted(d) for d in dump]
    if not isinstance(dump, dict):
        return dump
    dump = {k: quieted(v) for k, v in dump.items()}
    if dump.get("element") in (T.FLOAT, T.COMPLEX64) and "bytes" in dump:
        words = np.frombuffer(bytes.fromhex(dump["bytes"]), dtype="<u4").tolist()
        dump["bytes"] = np.array([quiet(w) for w in words], dtype="<u4").tobytes().hex()
    if dump.get("kind") == AttributeProto.FLOAT and dump["value"] is not None:
        dump["value"] = quiet(dump["value"])
    if dump.get("kind") == AttributeProto.FLOATS and dump["value"] is not None:
        dump["value"] = [quiet(v) for v in dump["value"]]
    return dump


def error_text(dump):
    return bytes.fromhex(dump["text"]).decode("utf-8", "replace")


def externalise(m, maker, folder, stem):
    """Moves tensors into files beside the model, the way the format says, without the package's own writer."""
    for t in list(m.graph.initializer) + [a.t for n in m.graph.node for a in n.attribute if a.type == AttributeProto.TENSOR]:
        if t.data_type == T.STRING or not t.raw_data or maker.r.random() < 0.3:
            continue
        location, offset = f"{stem}.{maker.r.randrange(2)}.data", 0
        with open(os.path.join(folder, location), "ab") as file:
            file.write(b"\xee" * maker.r.randrange(9))
            offset = file.tell()
            file.write(t.raw_data)
        t.external_data.add(key="location", value=location)
        t.external_data.add(key="offset", value=str(offset))
        t.external_data.add(key="length", value=str(len(t.raw_data)))
        t.ClearField("raw_data")
        t.data_location = T.EXTERNAL


def compare_written(tool, count, seed, folder):
    paths, expected = [], []
    for i in range(count):
        maker = Maker(seed * 100003 + i)
        m = maker.model()
        if i % 3 == 0:
            externalise(m, maker, folder, f"m{i}")
        paths.append(os.path.join(folder, f"m{i}.onnx"))
        with open(paths[-1], "wb") as file:
            file.write(m.SerializeToString())
        expected.append(dump_model(m, folder))
    tensors = 0
    for path, ours, want in zip(paths, run_dump(tool, paths), expected):
        if "error" in ours:
            sys.exit(f"{path}: {error_text(ours)}")
        if wrong := difference(ours, want):
            sys.exit(f"{path}: {wrong}")
        tensors += json.dumps(want).count('"bytes"')
    print(f"written models: {count} equal, with {tensors} tensors")
    return paths


def damaged(data, r):
    data = bytearray(data)
    for _ in range(r.randrange(1, 3)):
        at = r.randrange(len(data))
        kind = r.randrange(4)
        if kind == 0: data[at] ^= 1 << r.randrange(8)
        if kind == 1: data[at] = r.randrange(256)
        if kind == 2: del data[at]
        if kind == 3: data[at:at] = data[r.randrange(len(data)):][:r.randrange(20)]
    return bytes(data)


def compare_damaged(tool, count, seed, folder, sources):
    r = random.Random(seed)
    sources = [p for p in sources if os.path.getsize(p) < 4000] or sources
    paths = []
    for i in range(count):
        with open(r.choice(sources), "rb") as file:
            data = damaged(file.read(), r)
        paths.append(os.path.join(folder, f"damaged{i}.onnx"))
        with open(paths[-1], "wb") as file:
            file.write(data)
    outcome = collections.Counter()
    for path, ours in zip(paths, run_dump(tool, paths)):
        with open(path, "rb") as file:
            data = file.read()
        m = onnx.ModelProto()
        try:
            m.ParseFromString(data)
            parsed = True
        except Exception:  # protobuf's own DecodeError
            parsed = False
        # What lies in messages that we pass over (annotations, training) may be broken without our seeing it.
        outcome[("only protobuf accepts" if parsed else "both refuse") if "error" in ours else
                ("both accept" if parsed else "broken where we do not look")] += 1
        if "error" in ours or not parsed:
            continue
        if wrong := difference(quieted(ours), quieted(dump_model(m, folder))):
            sys.exit(f"{path}: {wrong}")
    print(f"damaged models: {dict(outcome)}")


def function_model(r):
    """A model whose functions call each other, with attributes passed on; deeper ones are defined later."""
    m = onnx.ModelProto(ir_version=8)
    m.opset_import.append(helper.make_opsetid("", 17))
    m.opset_import.append(helper.make_opsetid("my", 1))
    depth = r.randrange(1, 4)
    for level in range(depth):
        nodes, known = [], ["a", "b"]
        for i in range(r.randrange(1, 4)):
            out = f"t{i}"
            if level + 1 < depth and r.random() < 0.5:
                n = helper.make_node(f"F{level + 1}", [r.choice(known), r.choice(known)], [out], domain="my")
            else:
                n = helper.make_node(r.choice(["Add", "Mul", "LeakyRelu"]), [r.choice(known), r.choice(known)], [out])
            if r.random() < 0.6:
                a = n.attribute.add()
                a.name, a.type, a.ref_attr_name = "alpha", AttributeProto.FLOAT, "alpha"
            nodes.append(n)
            known.append(out)
        m.functions.append(helper.make_function("my", f"F{level}", ["a", "b"], [known[-1]], nodes,
                                                [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)], ["alpha"]))
    known = ["x", "y"]
    for i in range(r.randrange(1, 5)):
        op = r.choice(["F0", "Add"])
        n = helper.make_node(op, [r.choice(known), r.choice(known)], [f"v{i}"], domain="my" if op == "F0" else "")
        if r.random() < 0.7:
            n.attribute.append(helper.make_attribute("alpha", r.random()))
        m.graph.node.append(n)
        known.append(f"v{i}")
    m.graph.name = "g"
    for x in ("x", "y"):
        m.graph.input.append(helper.make_tensor_value_info(x, T.FLOAT, [2]))
    m.graph.output.append(helper.make_tensor_value_info(known[-1], T.FLOAT, [2]))
    return m


def canonical(graph):
    """The nodes with their values numbered in the order of their appearance."""
    numbers = {}
    def number(name):
        return numbers.setdefault(name, len(numbers)) if name else -1
    return [(n["op"], n["opset"], [number(x) for x in n["inputs"]], [number(x) for x in n["outputs"]],
             sorted((a["name"], a["kind"], str(a["value"])) for a in n["attributes"])) for n in graph["nodes"]]


def compare_functions(tool, count, seed, folder):
    paths, expected = [], []
    for i in range(count):
        m = function_model(random.Random(seed * 7919 + i))
        paths.append(os.path.join(folder, f"f{i}.onnx"))
        with open(paths[-1], "wb") as file:
            file.write(m.SerializeToString())
        expected.append(dump_model(onnx.inliner.inline_local_functions(m), folder))
    for path, ours, want in zip(paths, run_dump(tool, paths, ["--inline", "--sort"]), expected):
        if "error" in ours:
            sys.exit(f"{path}: {error_text(ours)}")
        assert not ours["functions"]
        if wrong := difference(canonical(ours["graph"]), canonical(want["graph"])):
            sys.exit(f"{path}: {wrong}")
    print(f"functions put in: {count} equal")


def write_corpus(folder):
    os.makedirs(folder, exist_ok=True)
    seeds = {}
    for i in range(400):
        data = Maker(i).model().SerializeToString()
        if len(data) < 700 + 40 * len(seeds):
            seeds[f"model{len(seeds):02}.onnx"] = data
        if len(seeds) == 14:
            break
    for i in range(6):
        seeds[f"functions{i}.onnx"] = function_model(random.Random(i)).SerializeToString()
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    print(f"{len(seeds)} seeds, {sum(map(len, seeds.values()))} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?", help="the dump_model executable")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--mutations", type=int, default=3000)
    parser.add_argument("--functions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus")
    args = parser.parse_args()
    if args.corpus:
        return write_corpus(args.corpus)
    if not args.tool:
        parser.error("the path of dump_model is missing")
    print(f"seed {args.seed}, onnx {onnx.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        paths = compare_written(args.tool, args.models, args.seed, folder)
        compare_damaged(args.tool, args.mutations, args.seed, folder, paths)
        compare_functions(args.tool, args.functions, args.seed, folder)


if __name__ == "__main__":
    main()
