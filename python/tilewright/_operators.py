"""Products with an operand that is mostly zeros, known only when the arrays are there.

    y = tilewright.matmul(a, b, tile=(32, 1))               the zeros of a are looked for
    y = tilewright.matmul(a, b, mask=keep)                  or a mask over a's rows, or over all of a, says where they are
    y = tilewright.ragged_linear(x, lengths, w, bias)       rows behind a sequence's length are not computed

    y = tilewright.moe(x, experts, w1, w2, weights)         rows of x by the expert of each, two layers and a weighted sum

Each is a program of one or two statements (``tilewright.compile``), planned once for its shapes and kept. Zeros are skipped, not
multiplied: 0 * inf is 0 here.
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
    if any(array.size == 0 for array in feeds.values()):
        result = np.empty(shape, next(iter(feeds.values())).dtype) if out is None else out
        result[...] = otherwise
        return result
    session = _session(text, (("threads", threads),) if threads else ())
    [result] = session.run(None, feeds, out=None if out is None else [out])
    return result


def _refuse(where: str, message: str, hint: str = ""):
    raise Error("E0301", "usage", where, message, hint, 2)


def _kind(name: str, array) -> str:
    kind = _kind_of(array)
    if kind not in ("f32", "f16", "bf16"):
        _refuse(name, f"is {kind}, products of f32, f16 and bf16 are offered")
    return kind


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
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim < 2 or b.ndim != 2 or a.shape[-1] != b.shape[0]:
        _refuse("matmul", f"shapes {a.shape} and {b.shape} do not go together", "a[..., k] and b[k, n] are wanted")
    rows, columns = (int(x) for x in tile)
    if rows < 1 or columns < 1:
        _refuse("tile", f"is {rows} x {columns}")
    kind, other = _kind("a", a), _kind("b", b)
    lead = _axes(a.ndim - 1)
    feeds, form, declared = {"A": a, "B": b}, "zeros", ""
    if mask is not None:
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape not in (a.shape, a.shape[:-1]):
            _refuse("mask", f"is {mask.dtype} of shape {mask.shape}", f"booleans of shape {a.shape[:-1]} or {a.shape} are wanted")
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
    x, w, lengths = np.asarray(x), np.asarray(w), np.asarray(lengths)
    if x.ndim != 3 or w.ndim != 2 or x.shape[2] != w.shape[0] or lengths.shape != x.shape[:1]:
        _refuse("ragged_linear", f"shapes {x.shape}, {lengths.shape} and {w.shape} do not go together", "x[b, s, k], lengths[b], w[k, n] are wanted")
    if lengths.dtype.kind not in "iu":
        _refuse("lengths", f"are {lengths.dtype}", "integers are wanted")
    kind, other = _kind("x", x), _kind("w", w)
    feeds = {"X": x, "W": w, "L": np.minimum(lengths, x.shape[1]).astype(np.int32)}
    text = (f"program ragged({_sizes('b s k', x.shape)}, n={w.shape[1]})\ninput L[b] : i32\n"
            f"input X[b s k] : {kind} sparse(lengths L)\ninput W[k n] : {other}\n")
    if bias is None:
        text += f"Y[b s n] : {kind} = sum[k] X[b s k] * W[k n]\noutput Y\n"
    else:
        feeds["v"] = np.asarray(bias)
        text += (f"input v[n] : {_kind('bias', feeds['v'])}\nY[b s n] = sum[k] X[b s k] * W[k n]\n"
                 f"Z[b s n] : {kind} = Y[b s n] + v[n]\noutput Z\n")
    return _run(text, feeds, threads, out, (*x.shape[:2], w.shape[1]), 0 if bias is None else np.asarray(bias))


def moe(x: Any, experts: Any, w1: Any, w2: Any, weights: Optional[Any] = None, *, threads: Optional[int] = None,
        out: Optional[Any] = None) -> Any:
    """The sum over j of weights[t, j] * (relu(x[t] @ w1[e]) @ w2[e]) with e = experts[t, j].

    x[t, k], w1[e, k, f], w2[e, f, n]; experts[t] or experts[t, j] are integers, each in [0, e). Rows of one expert are computed
    together, wherever they lie; an expert without rows costs nothing, and none has a capacity.
    """
    x, w1, w2, experts = np.asarray(x), np.asarray(w1), np.asarray(w2), np.asarray(experts)
    if experts.ndim == 1:
        experts = experts[:, None]
    if (x.ndim, w1.ndim, w2.ndim, experts.ndim) != (2, 3, 3, 2) or x.shape[1] != w1.shape[1] or w2.shape[:2] != w1.shape[::2] or (
            experts.shape[0] != x.shape[0]):
        _refuse("moe", f"shapes {x.shape}, {experts.shape}, {w1.shape} and {w2.shape} do not go together",
                "x[t, k], experts[t, j], w1[e, k, f], w2[e, f, n] are wanted")
    if experts.dtype.kind not in "iu":
        _refuse("experts", f"are {experts.dtype}", "integers are wanted")
    if weights is None:
        weights = np.ones(experts.shape, np.float32)
    weights = np.asarray(weights).reshape(experts.shape)
    kinds = [_kind(name, a) for name, a in (("x", x), ("w1", w1), ("w2", w2), ("weights", weights))]
    text = (f"program moe({_sizes('t k', x.shape)}, j={experts.shape[1]}, {_sizes('e f n', (*w1.shape[::2], w2.shape[2]))})\n"
            f"input X[t k] : {kinds[0]}\ninput g[t j] : index(e)\ninput V[e k f] : {kinds[1]}\ninput W[e f n] : {kinds[2]}\n"
            f"input p[t j] : {kinds[3]}\nU[t j f] = sum[k] X[t k] * V[g[t, j], k, f]\nH[t j f] = max(U[t j f], 0)\n"
            f"Z[t j n] = sum[f] H[t j f] * W[g[t, j], f, n]\nY[t n] : {kinds[0]} = sum[j] Z[t j n] * p[t j]\noutput Y\n")
    return _run(text, {"X": x, "g": experts.astype(np.int64), "V": w1, "W": w2, "p": weights}, threads, out, (x.shape[0], w2.shape[2]))
