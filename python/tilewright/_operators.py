"""Products with an operand that is mostly zeros, known only when the arrays are there.

    y = tilewright.matmul(a, b, tile=(32, 1))               the zeros of a are looked for
    y = tilewright.matmul(a, b, mask=keep)                  or a mask over a's rows, or over all of a, says where they are
    y = tilewright.ragged_linear(x, lengths, w, bias)       rows behind a sequence's length are not computed

    y = tilewright.moe(x, experts, w1, w2, weights)         rows of x by the expert of each, two layers and a weighted sum
    y = tilewright.sparse_attention(q, k, v, mask)          keys that a mask leaves out take no part
    live = tilewright.detect(a, tile=(32, 1))               the pattern itself: which micro-tiles hold anything

    product = tilewright.SparseMatmul(tile=(32, 1))         with gradients, which reuse the pattern of the forward product
    c = product(a, b); da, db = product.backward(dc)

Each is a program of a few statements (``tilewright.compile``), planned once for its shapes and kept. Zeros are skipped, not
multiplied: 0 * inf is 0 here. Arrays that are on a GPU (torch, CuPy) are read there, and the result is written there: into `out`,
or into a new tensor where the first array can make one (torch). `detect` and SparseMatmul are for arrays of the CPU.
"""

import threading
from collections import OrderedDict
from typing import Any, Optional, Tuple

import numpy as np

from . import _arrays
from ._library import Error
from ._session import Session, _kind_of, compile

_kept: "OrderedDict[Tuple, Session]" = OrderedDict()
_lock = threading.Lock()
_most = 32


def _session(text: str, options: Tuple) -> Session:
    """The session of a program, opened once; those that were not used for longest are forgotten."""
    key = (text, options)
    with _lock:
        session = _kept.pop(key, None)
        if session is None:
            session = compile(text, **dict(options))
        _kept[key] = session
        while len(_kept) > _most:
            _kept.popitem(last=False)
    return session


def _run(text: str, feeds, threads, out, shape, otherwise=0):
    """shape: of the result, which is `otherwise` where an operand has no elements at all."""
    options = (("threads", threads),) if threads else ()
    there = [array for array in feeds.values() if isinstance(array, _OnGpu)]
    if there:
        options = (("device", f"cuda:{there[0].gpu}"),)
        if out is None and not hasattr(there[0].array, "new_empty"):
            _refuse("out", "is not given", "an array on the GPU is wanted for the result")
        out = there[0].array.new_empty(shape) if out is None else out
    if any(array.size == 0 for array in feeds.values()):
        result = np.empty(shape, next(iter(feeds.values())).dtype) if out is None else out
        result[...] = otherwise
        return result
    session = _session(text, options)
    [result] = session.run(None, {name: getattr(array, "array", array) for name, array in feeds.items()}, out=None if out is None else [out])
    return result


class _OnGpu:
    """An array that stays where it is: what a program needs to know of it."""

    def __init__(self, array: Any):
        tensor, _ = _arrays.from_caller("", "f32", array)
        self.array, self.gpu = array, tensor.device_id
        self.shape = _arrays.shape_of(tensor)
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape))
        self.dtype = _arrays.numpy_type(_arrays.TYPES[tensor.dtype])

    def reshape(self, shape) -> "_OnGpu":
        return self if self.shape == tuple(shape) else _OnGpu(self.array.reshape(shape))

    def astype(self, dtype) -> "_OnGpu":
        if self.dtype != dtype:
            _refuse("an array on the GPU", f"is {self.dtype}, {np.dtype(dtype)} is wanted")
        return self


def _refuse(where: str, message: str, hint: str = ""):
    raise Error("E0301", "usage", where, message, hint, 2)


def _kind(name: str, array) -> str:
    kind = _kind_of(array)
    if kind not in ("f32", "f16", "bf16"):
        _refuse(name, f"is {kind}, products of f32, f16 and bf16 are offered")
    return kind


def _array(x: Any) -> np.ndarray:
    """An array of NumPy, of what it takes for one, or of anything that speaks DLPack; on a GPU it stays there."""
    if not isinstance(x, np.ndarray) and _arrays.on_gpu(x):
        return _OnGpu(x)
    if isinstance(x, np.ndarray) or hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    return np.from_dlpack(x)


def _axes(rank: int) -> str:
    return " ".join(f"b{i}" for i in range(rank))


def _sizes(names: str, shape) -> str:
    return ", ".join(f"{name}={extent}" for name, extent in zip(names.split(), shape))


def matmul(a: Any, b: Any, *, mask: Optional[Any] = None, tile: Tuple[int, int] = (32, 1), threads: Optional[int] = None,
           out: Optional[Any] = None) -> Any:
    """a @ b for a sparse a of any number of leading dims and a matrix b.

    tile: extents of a micro-tile, rows x columns of a: only those that hold anything but zeros are multiplied. mask: booleans over
    a's leading dims (rows) or over all of a, false only where a is 0; without it a's own zeros are found.
    """
    a, b = _array(a), _array(b)
    if a.ndim < 2 or b.ndim != 2 or a.shape[-1] != b.shape[0]:
        _refuse("matmul", f"shapes {a.shape} and {b.shape} do not go together", "a[..., k] and b[k, n] are wanted")
    rows, columns = _tile(tile)
    kind, other = _kind("a", a), _kind("b", b)
    lead = _axes(a.ndim - 1)
    feeds, form, declared = {"A": a, "B": b}, "zeros", ""
    if mask is not None:
        mask = _array(mask)
        if mask.dtype != np.bool_ or mask.shape not in (a.shape, a.shape[:-1]):
            _refuse("mask", f"is {mask.dtype} of shape {mask.shape}", f"booleans of shape {a.shape[:-1]} or {a.shape} are wanted")
        if mask.ndim < a.ndim and a.shape[-1] in a.shape[:-1] and isinstance(mask, _OnGpu):
            _refuse("mask", f"of shape {mask.shape} may lie over other dims of a than the leading ones", f"give one of shape {a.shape}")
        if mask.ndim < a.ndim and a.shape[-1] in a.shape[:-1]:   # over which of its dims it lies must be clear from the extents
            mask = np.broadcast_to(mask[..., None], a.shape)
        feeds["M"], form = mask, "mask M"
        declared = f"input M[{lead}{' k' if mask.ndim == a.ndim else ''}] : bool\n"
    text = (f"program product({_sizes(lead, a.shape)}, k={a.shape[-1]}, n={b.shape[1]})\n{declared}"
            f"input A[{lead} k] : {kind} sparse({form}, tile {rows}, {columns})\ninput B[k n] : {other}\n"
            f"C[{lead} n] : {kind} = sum[k] A[{lead} k] * B[k n]\noutput C\n")
    return _run(text, feeds, threads, out, (*a.shape[:-1], b.shape[1]))


def ragged_linear(x: Any, lengths: Any, w: Any, bias: Optional[Any] = None, *, threads: Optional[int] = None,
                  out: Optional[Any] = None) -> Any:
    """x @ w + bias where of x[b, s, k] only the rows s < lengths[b] are there: the others are taken as zeros, whatever they hold."""
    x, w, lengths = _array(x), _array(w), _array(lengths)
    if x.ndim != 3 or w.ndim != 2 or x.shape[2] != w.shape[0] or lengths.shape != x.shape[:1]:
        _refuse("ragged_linear", f"shapes {x.shape}, {lengths.shape} and {w.shape} do not go together", "x[b, s, k], lengths[b], w[k, n] are wanted")
    if lengths.dtype.kind not in "iu":
        _refuse("lengths", f"are {lengths.dtype}", "integers are wanted")
    kind, other = _kind("x", x), _kind("w", w)
    feeds = {"X": x, "W": w, "L": (lengths if isinstance(lengths, _OnGpu) else np.minimum(lengths, x.shape[1])).astype(np.int32)}
    text = (f"program ragged({_sizes('b s k', x.shape)}, n={w.shape[1]})\ninput L[b] : i32\n"
            f"input X[b s k] : {kind} sparse(lengths L)\ninput W[k n] : {other}\n")
    if bias is None:
        text += f"Y[b s n] : {kind} = sum[k] X[b s k] * W[k n]\noutput Y\n"
    else:
        feeds["v"] = _array(bias)
        text += (f"input v[n] : {_kind('bias', feeds['v'])}\nY[b s n] = sum[k] X[b s k] * W[k n]\n"
                 f"Z[b s n] : {kind} = Y[b s n] + v[n]\noutput Z\n")
    return _run(text, feeds, threads, out, (*x.shape[:2], w.shape[1]), 0 if bias is None else _array(bias))


def moe(x: Any, experts: Any, w1: Any, w2: Any, weights: Optional[Any] = None, *, threads: Optional[int] = None,
        out: Optional[Any] = None) -> Any:
    """The sum over j of weights[t, j] * (relu(x[t] @ w1[e]) @ w2[e]) with e = experts[t, j].

    x[t, k], w1[e, k, f], w2[e, f, n]; experts[t] or experts[t, j] are integers, each in [0, e). Rows of one expert are computed
    together, wherever they lie; an expert without rows costs nothing, and none has a capacity.
    """
    x, w1, w2, experts = _array(x), _array(w1), _array(w2), _array(experts)
    if experts.ndim == 1:
        experts = experts.reshape((experts.shape[0], 1))
    if (x.ndim, w1.ndim, w2.ndim, experts.ndim) != (2, 3, 3, 2) or x.shape[1] != w1.shape[1] or w2.shape[:2] != w1.shape[::2] or (
            experts.shape[0] != x.shape[0]):
        _refuse("moe", f"shapes {x.shape}, {experts.shape}, {w1.shape} and {w2.shape} do not go together",
                "x[t, k], experts[t, j], w1[e, k, f], w2[e, f, n] are wanted")
    if experts.dtype.kind not in "iu":
        _refuse("experts", f"are {experts.dtype}", "integers are wanted")
    if weights is None:
        weights = np.ones(experts.shape, np.float32)
    weights = _array(weights).reshape(experts.shape)
    kinds = [_kind(name, a) for name, a in (("x", x), ("w1", w1), ("w2", w2), ("weights", weights))]
    text = (f"program moe({_sizes('t k', x.shape)}, j={experts.shape[1]}, {_sizes('e f n', (*w1.shape[::2], w2.shape[2]))})\n"
            f"input X[t k] : {kinds[0]}\ninput g[t j] : index(e)\ninput V[e k f] : {kinds[1]}\ninput W[e f n] : {kinds[2]}\n"
            f"input p[t j] : {kinds[3]}\nU[t j f] = sum[k] X[t k] * V[g[t, j], k, f]\nH[t j f] = max(U[t j f], 0)\n"
            f"Z[t j n] = sum[f] H[t j f] * W[g[t, j], f, n]\nY[t n] : {kinds[0]} = sum[j] Z[t j n] * p[t j]\noutput Y\n")
    return _run(text, {"X": x, "g": experts.astype(np.int64), "V": w1, "W": w2, "p": weights}, threads, out, (x.shape[0], w2.shape[2]))


class Pattern:
    """Which micro-tiles of a matrix live: `marks`, one boolean a micro-tile, and by row block how many and which columns."""

    def __init__(self, marks: np.ndarray, shape: Tuple[int, int], tile: Tuple[int, int]):
        self.marks, self.shape, self.tile = marks, shape, tile

    @property
    def live(self) -> float:
        """The share of micro-tiles that live."""
        return float(self.marks.mean()) if self.marks.size else 0.0

    @property
    def counts(self) -> np.ndarray:
        return self.marks.sum(axis=1, dtype=np.uint32)

    def slots(self, group: int) -> np.ndarray:
        return np.flatnonzero(self.marks[group]).astype(np.uint32)

    def elements(self) -> np.ndarray:
        """A boolean an element: whether its micro-tile lives."""
        rows, columns = self.shape
        return np.repeat(np.repeat(self.marks, self.tile[0], 0), self.tile[1], 1)[:rows, :columns]


def detect(a: Any, *, tile: Tuple[int, int] = (32, 1), threads: Optional[int] = None) -> Pattern:
    """The live micro-tiles of a matrix: those that hold anything but 0 and -0 (no number is not zero)."""
    a = _array(a)
    rows, columns = _tile(tile)
    if isinstance(a, _OnGpu):
        _refuse("detect", "a is on a GPU", "move it to the CPU")
    if a.ndim != 2:
        _refuse("detect", f"a has {a.ndim} dims", "a matrix is wanted")
    kind, shape = _kind("a", a), (-(-a.shape[0] // rows), -(-a.shape[1] // columns))
    if a.size == 0:
        return Pattern(np.zeros(shape, np.bool_), a.shape, (rows, columns))
    text = (f"program detect(m={a.shape[0]}, k={a.shape[1]}, i={shape[0]}, j={shape[1]}, r={rows}, c={columns})\n"
            f"input A[m k] : {kind}\nL[i j] = any[r c] A[{rows}*i+r, {columns}*j+c else 0] != 0\noutput L\n")
    marks = _run(text, {"A": a}, threads, None, shape)
    return Pattern(marks, a.shape, (rows, columns))


def _tile(tile) -> Tuple[int, int]:
    rows, columns = (int(x) for x in tile)
    if rows < 1 or columns < 1:
        _refuse("tile", f"is {rows} x {columns}")
    return rows, columns


def sparse_attention(q: Any, k: Any, v: Any, mask: Any, *, scale: Optional[float] = None, threads: Optional[int] = None,
                     out: Optional[Any] = None) -> Any:
    """softmax(q @ k.T * scale) @ v over the keys that mask[..., q, k] lets through; a query without any gives 0.

    q[.., s, d], k[.., t, d], v[.., t, e] of any equal leading dims; mask[s, t], shared, or with the leading dims.
    scale: 1 / sqrt(d) by default.
    """
    q, k, v, mask = (_array(x) for x in (q, k, v, mask))
    lead = q.shape[:-2]
    if min(q.ndim, k.ndim, v.ndim) < 2 or k.shape[:-2] != lead or v.shape[:-2] != lead or q.shape[-1] != k.shape[-1] or (
            k.shape[-2] != v.shape[-2]):
        _refuse("sparse_attention", f"shapes {q.shape}, {k.shape} and {v.shape} do not go together",
                "q[.., s, d], k[.., t, d], v[.., t, e] are wanted")
    grid = (q.shape[-2], k.shape[-2])
    if mask.dtype != np.bool_ or mask.shape not in (grid, lead + grid):
        _refuse("mask", f"is {mask.dtype} of shape {mask.shape}", f"booleans of shape {grid} or {lead + grid} are wanted")
    kinds = [_kind(name, a) for name, a in (("q", q), ("k", k), ("v", v))]
    b, over = _axes(len(lead)), _axes(len(lead)) if mask.ndim > 2 else ""
    factor = float(scale) if scale is not None else 1.0 / float(np.sqrt(max(q.shape[-1], 1)))
    text = (f"program masked({_sizes(f'{b} s d', q.shape)}, t={k.shape[-2]}, e={v.shape[-1]})\n"
            f"input Q[{b} s d] : {kinds[0]}\ninput K[{b} t d] : {kinds[1]}\ninput V[{b} t e] : {kinds[2]}\ninput M[{over} s t] : bool\n"
            f"U[{b} s t] = sum[d] Q[{b} s d] * K[{b} t d]\n"
            f"S[{b} s t] = {factor!r} * U[{b} s t]\n"
            f"a[{b} s] = max[t] S[{b} s t] where M[{over} s t]\n"
            f"P[{b} s t] = exp(S[{b} s t] - a[{b} s]) where M[{over} s t]\n"
            f"l[{b} s] = sum[t] P[{b} s t]\n"
            f"Y[{b} s e] = sum[t] P[{b} s t] * V[{b} t e]\n"
            f"O[{b} s e] : {kinds[0]} = select(l[{b} s] > 0, Y[{b} s e] / l[{b} s], 0)\noutput O\n")
    return _run(text, {"Q": q, "K": k, "V": v, "M": mask}, threads, out, (*lead, q.shape[-2], v.shape[-1]))


class SparseMatmul:
    """c = a @ b for a sparse matrix a, and the gradients of a and b from that of c.

    The pattern is found once, in the forward product; both gradients read it: b's is a.T @ dc over the live micro-tiles of a, a's is
    dc @ b.T at the live micro-tiles only, and 0 elsewhere. A mask that changes from step to step costs nothing but that pass.
    """

    def __init__(self, *, tile: Tuple[int, int] = (32, 1), threads: Optional[int] = None):
        self.tile, self.threads = _tile(tile), threads
        self._saved = None

    def __call__(self, a: Any, b: Any, mask: Optional[Any] = None) -> Any:
        a, b = _array(a), _array(b)
        if isinstance(a, _OnGpu) or isinstance(b, _OnGpu):
            _refuse("SparseMatmul", "an operand is on a GPU", "move it to the CPU, or call matmul")
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            _refuse("SparseMatmul", f"shapes {a.shape} and {b.shape} do not go together", "a[m, k] and b[k, n] are wanted")
        if mask is None:
            mask = detect(a, tile=self.tile, threads=self.threads).elements()
        else:
            mask = _array(mask)
            if mask.dtype != np.bool_ or mask.shape != a.shape:
                _refuse("mask", f"is {mask.dtype} of shape {mask.shape}", f"booleans of shape {a.shape} are wanted")
        mask = np.ascontiguousarray(mask)
        self._saved = (a, b, mask)
        return matmul(a, b, mask=mask, tile=self.tile, threads=self.threads)

    def backward(self, dc: Any) -> Tuple[Any, Any]:
        """The gradients of a and b; a's is 0 where its micro-tiles were."""
        if self._saved is None:
            _refuse("SparseMatmul", "has no forward product to go back from")
        a, b, mask = self._saved
        dc = _array(dc)
        if dc.shape != (a.shape[0], b.shape[1]):
            _refuse("dc", f"has shape {dc.shape}", f"{(a.shape[0], b.shape[1])} is wanted")
        return self.gradient_of_a(dc, b, mask), self.gradient_of_b(dc, a, mask)

    def gradient_of_b(self, dc, a, mask):
        sizes = f"m={a.shape[0]}, k={a.shape[1]}, n={dc.shape[1]}"
        text = (f"program gradient({sizes})\ninput M[m k] : bool\n"
                f"input A[m k] : {_kind('a', a)} sparse(mask M, tile {self.tile[0]}, {self.tile[1]})\ninput G[m n] : {_kind('dc', dc)}\n"
                f"D[k n] : {_kind('a', a)} = sum[m] A[m k] * G[m n]\noutput D\n")
        return _run(text, {"M": mask, "A": a, "G": dc}, self.threads, None, (a.shape[1], dc.shape[1]))

    def gradient_of_a(self, dc, b, mask):
        sizes = f"m={dc.shape[0]}, k={b.shape[0]}, n={dc.shape[1]}"
        text = (f"program gradient({sizes})\n"
                f"input M[m k] : f32 sparse(zeros, tile {self.tile[0]}, {self.tile[1]})\ninput G[m n] : {_kind('dc', dc)}\n"
                f"input B[k n] : {_kind('b', b)}\nU[m k] = sum[n] G[m n] * B[k n]\n"
                f"D[m k] : {_kind('b', b)} = U[m k] * M[m k]\noutput D\n")
        return _run(text, {"M": mask.astype(np.float32), "G": dc, "B": b}, self.threads, None, mask.shape)
