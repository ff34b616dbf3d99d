"""Runs models with tilewright and with ONNX Runtime and compares outputs, intermediates and answers: see README.md."""

import argparse
import json
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from cases import ROOT, all_cases, trained_cases, zoo

sys.path.insert(0, str(ROOT / "python"))

HUGE = 1e30  # masks are added as numbers like -3.4e38: they are compared exactly, not by norm


# --- the two sides -----------------------------------------------------------------------------------------------------

def onnxruntime_side(model, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, threads=2):
    """model: a path or bytes -> a function from feeds to a list of arrays, in the order of the graph's outputs."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.graph_optimization_level = level
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def tilewright_side(model, sizes, threads):
    import tilewright
    session = tilewright.Session(model, device="cpu", sizes=sizes, threads=threads)
    return lambda feeds: [np.asarray(a) for a in session.run(None, feeds)]


def make_side(options, model, sizes):
    if options.self:
        return onnxruntime_side(model, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, options.threads)
    return tilewright_side(model, sizes, options.threads)


def symbol_values(model, feeds):
    """Values for the symbolic dimensions; one without a usable name is called INPUT.AXIS."""
    values = {}
    for value in model.graph.input:
        if value.name not in feeds:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            extent = feeds[value.name].shape[axis]
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            named = dim.dim_param and dim.dim_param != "?"
            values[dim.dim_param if named else f"{value.name}.{axis}"] = extent
    return values


# --- exposing intermediates --------------------------------------------------------------------------------------------

def exposed(model, feeds):
    """A copy of the model with every intermediate as an output, typed as ONNX Runtime finds it, and the outputs' names.
    Extents stay open: those of one run need not be those of the next."""
    copy = zoo.verify.expose(model)
    session = zoo.verify.session(copy)
    names = [o.name for o in session.get_outputs()]
    arrays = session.run(names, feeds)
    declared = {o.name for o in model.graph.output}
    kept = [o for o in copy.graph.output if o.name in declared]
    del copy.graph.output[:]
    copy.graph.output.extend(kept)
    for name, array in zip(names, arrays):
        if name not in declared:
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            copy.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, [None] * array.ndim))
    return copy, [o.name for o in copy.graph.output]


# --- comparing ---------------------------------------------------------------------------------------------------------

def difference(ours, theirs):
    """norm(ours - theirs) / norm(theirs) in fp64; infinite where shapes, dtypes, integers or masked places differ."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return np.inf
    if theirs.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.abs(b) < HUGE
    if not np.array_equal(finite, np.abs(a) < HUGE) or not np.array_equal(np.sign(a[~finite]), np.sign(b[~finite])):
        return np.inf
    error, norm = np.linalg.norm(a[finite] - b[finite]), np.linalg.norm(b[finite])
    return 0.0 if error == 0 else float(error / max(norm, 1e-30))


def worst(names, ours, theirs):
    """The largest difference and its tensor's name."""
    found = [(difference(a, b), name) for name, a, b in zip(names, ours, theirs)]
    return max(found, key=lambda pair: (pair[0] != pair[0], pair[0]), default=(0.0, ""))


def answers(array, by_row):
    """Argmaxes of the whole array, or of its rows."""
    rows = np.asarray(array).reshape(-1, array.shape[-1]) if by_row else np.asarray(array).reshape(1, -1)
    return rows, rows.argmax(1)


def compare_answer(ours, theirs, by_row):
    """(whether the argmaxes are equal, near-ties). Another place counts as equal where their value there is as large as their
    largest, up to the largest difference between ours and theirs in that row: saturated maps have many such places. Each is
    told, as a text."""
    (mine, a), (rows, b) = answers(ours, by_row), answers(theirs, by_row)
    if a.shape != b.shape:
        return False, []
    ties = []
    for i in np.flatnonzero(a != b):
        gap, error = rows[i, b[i]] - rows[i, a[i]], np.abs(mine[i] - rows[i]).max()
        if not gap <= error:
            return False, ties
        ties.append(f"row {i}: {a[i]} and {b[i]} are {gap:.1e} apart, the error is {error:.1e}")
    return True, ties


def wanted_answers(theirs, by_row):
    """Eight different answers of 16, or as many as there are classes."""
    rows, _ = answers(theirs, by_row)
    return min(8, rows.shape[1]) if len(rows) == 1 else 8


def compare_batch(case, model, path, batch, options, row):
    """Outputs of the untouched model on random and real inputs, answers, then every intermediate of the exposed model."""
    inputs = [case.feeds(model, batch, 7)] + ([case.real(model, batch)] if case.real else [])
    sizes = symbol_values(model, inputs[0])
    ours, theirs = make_side(options, str(path), sizes), onnxruntime_side(str(path), threads=options.threads)
    keep_worst(row, "output", batch, [o.name for o in model.graph.output], ours, theirs, inputs)
    if batch == 1:
        compare_answers(case, model, ours, theirs, options, row)
    if options.intermediates:
        copy, names = exposed(model, inputs[0])
        data = copy.SerializeToString()
        row["tensors"] = len(names)
        ours, theirs = make_side(options, data, sizes), onnxruntime_side(data, threads=options.threads)
        keep_worst(row, "inner", batch, names, ours, theirs, inputs)


def keep_worst(row, what, batch, names, ours, theirs, inputs):
    for feeds, kind in zip(inputs, ("random", "real")):
        error, name = worst(names, ours(feeds), theirs(feeds))
        if not error <= row[what][0]:
            row[what] = (error, f"{name}, {kind} input, batch {batch}")


def compare_answers(case, model, ours, theirs, options, row):
    """Argmaxes over 16 single inputs: equal, and enough different ones."""
    different = set()
    for i in range(16):
        feeds = case.single(model, i)
        a, b = ours(feeds)[case.output], theirs(feeds)[case.output]
        equal, ties = compare_answer(a, b, case.by_row)
        row["equal"] += equal and difference(a, b) <= options.tolerance
        row["ties"] += [f"input {i}, {tie}" for tie in ties]
        different.add(tuple(answers(b, case.by_row)[1].tolist()))
    row["distinct"], wanted = len(different), wanted_answers(b, case.by_row)
    if row["equal"] < 16 or row["distinct"] < wanted:
        row["why"].append(f"answers: {row['equal']} of 16 equal, {row['distinct']} different, {wanted} wanted")


def run_case(case, options):
    row = {"name": case.name, "output": (0.0, ""), "inner": (0.0, ""), "tensors": 0, "equal": 0, "distinct": 0, "ties": [],
           "why": []}
    start = time.perf_counter()
    try:
        path = case.path()
        model = onnx.load(path)
        row["nodes"], row["opset"] = len(model.graph.node), model.opset_import[0].version
        if options.intermediates and case.name in zoo.NETWORKS:
            zoo.verify.check(model, {"sequence": 16, "past": 48} if case.name == "gpt2_small" else {"sequence": 96})
        for batch in case.batches:
            compare_batch(case, model, path, batch, options, row)
        for what in ("output", "inner"):
            if not row[what][0] <= options.tolerance:
                row["why"].append(f"{what} {row[what][1]}: {row[what][0]:.2e}")
    except Exception as error:  # the row says what went wrong; the other models still run
        row["why"].append(f"{type(error).__name__}: {error}")
    row["seconds"] = time.perf_counter() - start
    return row


# --- the table ---------------------------------------------------------------------------------------------------------

def print_row(row):
    if not print_row.header:
        print(f"{'model':20s} {'opset':>5s} {'nodes':>5s} {'tensors':>7s} {'output':>8s} {'inner':>8s} {'equal':>5s} "
              f"{'different':>9s} {'seconds':>7s}")
        print_row.header = True
    print(f"{row['name']:20s} {row.get('opset', 0):5d} {row.get('nodes', 0):5d} {row['tensors']:7d} "
          f"{row['output'][0]:8.1e} {row['inner'][0]:8.1e} {row['equal']:5d} {row['distinct']:9d} {row['seconds']:7.1f}"
          + ("  FAILED" if row["why"] else ""))
    for tie in row.get("ties", []):
        print("    near-tie: " + tie)
    for why in row["why"]:
        print("    " + why[:2000])
    sys.stdout.flush()


print_row.header = False


def in_child(name, options):
    """One model in a process of its own, so that a crash or a leak is that model's alone."""
    command = [sys.executable, __file__, *sys.argv[1:], "--child", name]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    try:
        return json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"name": name, "output": (0.0, ""), "inner": (0.0, ""), "tensors": 0, "equal": 0, "distinct": 0,
                "seconds": 0.0, "why": [f"the process ended with {child.returncode} and no result"]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models, or the groups networks, pairs, trained (default: all three)")
    parser.add_argument("--long", action="store_true", help="networks at their natural sizes instead of 96")
    parser.add_argument("--size", type=int, default=96, help="size of the networks' inputs (default 96)")
    parser.add_argument("--self", action="store_true",
                        help="instead of tilewright, ONNX Runtime with all its optimisations: the noise of fp32 itself")
    parser.add_argument("--no-intermediates", dest="intermediates", action="store_false")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser, parser.parse_args()


def main():
    parser, options = arguments()
    cases = all_cases(None if options.long else options.size)
    if options.child:
        print(json.dumps(run_case(cases[options.child], options)))
        return 0
    groups = {"networks": zoo.NETWORKS, "pairs": zoo.PAIRS, "trained": [c.name for c in trained_cases()]}
    names = [n for given in options.names or groups for n in groups.get(given, [given])]
    unknown = [n for n in names if n not in cases]
    if unknown:
        parser.error(f"no model called {', '.join(unknown)}; there are {', '.join(groups)}, {', '.join(cases)}")
    failed = 0
    for name in names:
        row = in_child(name, options)
        print_row(row)
        failed += bool(row["why"])
    print(f"{len(names) - failed} of {len(names)} models agree within {options.tolerance:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
