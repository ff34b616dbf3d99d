"""Attention as exporters write it (MatMul, Mul, mask, Softmax, MatMul) against ONNX Runtime: alternating in one process of the tool
(onnxruntime: a child of it), after `tilewright verify` has compared the results of the same graph at a small length.

    python bench/attention.py --tool build/tilewright --models build/models [--threads 2] [--lengths 2048 8192] [--cases full causal]

Cases: full; causal (a comparison of two Ranges, Where with -inf); decode (one query, --cache keys); bert (the zoo's BERT-base
at 384 tokens). Ratios are of medians, theirs over ours: above 1 we are faster. For decode the bytes of keys and values
a second are printed too. With --torch, where torch is at hand, full and causal are compared with its scaled_dot_product_attention too,
in this process by turns through the Python package (TILEWRIGHT_LIBRARY, PYTHONPATH=python).
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def attention(path, heads, queries, keys, depth, causal):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    turned = node("Transpose", ["K"], "K_turned", perm=[0, 1, 3, 2])
    scores = node("Mul", [node("MatMul", ["Q", turned], "products"), constant("scale", np.float32(depth**-0.5))], "scaled")
    if causal:
        one = constant("one", np.int64(1))
        first = constant("first", np.int64(keys - queries))
        rows = node("Range", [first, constant("keys", np.int64(keys)), one], "rows")
        columns = node("Range", [constant("zero", np.int64(0)), "keys", one], "columns")
        rows = node("Unsqueeze", [rows, constant("last", np.array([1], np.int64))], "rows_apart")
        seen = node("LessOrEqual", [columns, rows], "seen")
        scores = node("Where", [seen, scores, constant("nothing", np.float32(-np.inf))], "masked")
    node("MatMul", [node("Softmax", [scores], "weights", axis=-1), "V"], "O")
    sides = {"Q": queries, "K": keys, "V": keys}
    value = lambda name, n: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, heads, n, depth])
    graph = helper.make_graph(nodes, path.stem, [value(n, s) for n, s in sides.items()], [value("O", queries)], constants)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def bert(folder):
    path = folder / "bert_base_384.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "zoo", "bert_base", "--size", "384", "--batch", "1", "-o", str(path)],
                       env={"PYTHONPATH": str(HERE)}, check=True, stdout=subprocess.DEVNULL)
    return path


def tool(arguments, *words):
    done = subprocess.run([arguments.tool, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tilewright {words[0]} {words[1]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(arguments, name, path, small, goal, moved=0):
    threads = ["--threads", arguments.threads, "--python", sys.executable, "--json", "--quiet"]
    tool(arguments, "verify", small, *threads, "--against", "onnxruntime")
    done = tool(arguments, "bench", path, *threads, "--vs", "onnxruntime", "--iterations", arguments.iterations)
    ours, theirs = done["latency_seconds"]["median"], done["peer"]["latency_seconds"]["median"]
    rate = f"{moved / ours / 1e9:8.1f} GB/s" if moved else ""
    print(f"{name:14} {ours * 1e3:9.2f} ms {theirs * 1e3:9.2f} ms {theirs / ours:6.2f} {goal:6} {rate}", flush=True)


def beside_torch(arguments, case, n):
    import statistics
    import time

    import numpy as np
    import tilewright
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(7)
    where = " where index(x) <= index(q)" if case == "causal" else ""
    text = (f"program p(h={arguments.heads}, q={n}, x={n}, d={arguments.depth})\ninput Q[h q d], K[h x d], V[h x d] : f32\n"
            f"S[h q x] = sum[d] Q[h q d] * K[h x d] / sqrt(d)\nP[h q x] = softmax[x] S[h q x]{where}\nO[h q d] = sum[x] P[h q x] * V[h x d]\noutput O\n")
    q, k, v = (torch.randn(1, arguments.heads, n, arguments.depth) for _ in range(3))
    session = tilewright.compile(text, threads=arguments.threads)
    feeds = {name: x[0].numpy() for name, x in (("Q", q), ("K", k), ("V", v))}
    ours = lambda: session.run(None, feeds)[0]
    theirs = lambda: scaled_dot_product_attention(q, k, v, is_causal=case == "causal")
    apart = np.linalg.norm(ours() - theirs()[0].numpy()) / np.linalg.norm(theirs()[0].numpy())
    if not apart < 1e-5:
        sys.exit(f"{case} {n}: apart from torch by {apart:.1e}")
    times = [], []
    for _ in range(arguments.iterations + 2):
        for list_, call in zip(times, (ours, theirs)):
            begin = time.perf_counter()
            call()
            list_.append(time.perf_counter() - begin)
    a, b = (statistics.median(list_[2:]) for list_ in times)
    print(f"{case + ' ' + str(n):14} {a * 1e3:9.2f} ms {b * 1e3:9.2f} ms {b / a:6.2f} {'0.9':6} torch {torch.__version__}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--cases", nargs="+", default=["full", "causal", "decode", "bert"])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--cache", type=int, default=8192)
    parser.add_argument("--torch", action="store_true", help="beside torch instead of ONNX Runtime: full and causal")
    a = parser.parse_args()
    print(f"{a.heads} heads of {a.depth}, fp32, {a.threads} threads, medians of {a.iterations} runs, alternating")
    print(f"{'case':14} {'ours':>12} {'torch' if a.torch else 'onnxruntime':>12} {'ratio':>6} {'goal':>6}")
    for case in a.cases:
        if a.torch:
            for n in a.lengths if case in ("full", "causal") else ():
                beside_torch(a, case, n)
            continue
        if case == "bert":
            row(a, "bert 384", bert(a.models), bert(a.models), 1.0)
            continue
        lengths = [a.cache] if case == "decode" else a.lengths
        for n in lengths:
            queries = 1 if case == "decode" else n
            made = lambda q, k: attention(a.models / f"attention_{case}_{q}_{k}.onnx", a.heads, q, k, a.depth, case == "causal")
            path, small = made(queries, n), made(min(queries, 300), 300)
            moved = 2 * 4 * a.heads * n * a.depth if case == "decode" else 0
            row(a, f"{case} {n}", path, small, {"full": 1.3, "causal": 2.0}.get(case, ""), moved)


if __name__ == "__main__":
    main()
