"""Sessions: a model, planned and packed, that runs on arrays of the caller."""

import ctypes
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _arrays
from ._library import Error, Option, Source, Tensor, check, describe, library

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: its shape holds numbers, and the text of sizes that are free.

    counted: dims whose extents depend on values and are known only after a run; shape has the greatest.
    """

    name: str
    type: str  # "f32", "f16", "bf16", "i64", "bool", ...
    shape: Tuple[Union[int, str], ...]
    counted: Tuple[int, ...] = ()

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype; for bf16 and f8 that of ml_dtypes where it is installed, else of their bits."""
        return _arrays.numpy_type(self.type)


class Session:
    """A model that is ready to run.

    path_or_bytes: an .onnx model or a .tw program: a path, or its bytes. device: "cpu", "cuda" or "cuda:N". sizes: values of free sizes;
    a size that is not given follows the shapes of the arrays, and each new combination is planned once. threads:
    0 or None for one a physical core. constants: arrays for weights that a program declares, or for inputs that never
    change. Further options by name: isa, machine, without, program.

    A session may be used from several threads; its runs take turns. close() waits for them.
    """

    def __init__(self, path_or_bytes: Union[Path, bytes, bytearray, memoryview], device: str = "cpu",
                 sizes: Optional[Mapping[str, int]] = None, threads: Optional[int] = None, *,
                 constants: Optional[Mapping[str, Any]] = None, **options: Any):
        self._handle: Optional[ctypes.c_void_p] = None
        self._idle = threading.Condition()
        self._users = 0
        is_bytes = isinstance(path_or_bytes, (bytes, bytearray, memoryview))
        source = Source(is_text=-1)
        if is_bytes:
            content = bytes(path_or_bytes)
            source.bytes, source.size = ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p), len(content)
        else:
            source.path = os.fsencode(path_or_bytes)
        self._open(source, _options(device, sizes, threads, options), constants or {})

    @classmethod
    def _of_text(cls, text: str, options: List[Tuple[str, str]], constants: Mapping[str, Any]) -> "Session":
        session = cls.__new__(cls)
        session._handle, session._idle, session._users = None, threading.Condition(), 0
        content = text.encode()
        source = Source(is_text=1, size=len(content), bytes=ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p))
        session._open(source, options, constants)
        return session

    def _open(self, source: Source, options: List[Tuple[str, str]], constants: Mapping[str, Any]) -> None:
        listed = (Option * len(options))(*[Option(k.encode(), v.encode()) for k, v in options])
        source.options, source.option_count = listed, len(options)
        kept = [_arrays.from_caller(name, _kind_of(array), array) for name, array in constants.items()]
        given = _arrays.tensor_array([tensor for tensor, _ in kept])
        if given:
            source.constants, source.constant_count = given, len(kept)
        handle = ctypes.c_void_p()
        check(library.tw_open_source(ctypes.byref(source), ctypes.byref(handle)))
        self._handle = handle
        self._inputs = [_info(row) for row in describe(handle, "inputs")]
        self._outputs = [_info(row) for row in describe(handle, "outputs")]

    # ---- what it is

    def get_inputs(self) -> List[TensorInfo]:
        """The inputs that run wants, in order."""
        return list(self._inputs)

    def get_outputs(self) -> List[TensorInfo]:
        """The outputs, in order."""
        return list(self._outputs)

    @property
    def plan(self) -> Dict[str, Any]:
        """The kernels with their tiles, bytes and predicted times, for the sizes of the last run or the default ones."""
        with self._using() as handle:
            return describe(handle, "plan")

    def explain(self) -> str:
        """Why: roles, laws, refusals, loops and leaves of each kernel, as text."""
        with self._using() as handle:
            return describe(handle, "explain")["text"]

    # ---- running

    def run(self, output_names: Optional[Sequence[str]], feeds: Mapping[str, Any], *,
            out: Optional[Sequence[Any]] = None, stream: Any = None) -> List[Any]:
        """The outputs of these names (None: all), for arrays by input name.

        Arrays are NumPy's or speak DLPack; any strides are taken, dense ones are not copied. out: arrays to write into, one an
        output; they are what is returned. Where extents depend on values, they must have room for the most, and what is
        returned are their first rows.

        On a GPU arrays may be on it, as those of torch and CuPy are (DLPack or __cuda_array_interface__), or on the CPU, and are
        copied. Outputs come back as NumPy arrays unless `out` says otherwise. stream: a CUDA stream (its number, or an object
        with `cuda_stream` or `ptr`): the run comes behind what is in it and, where all arrays are on the GPU, is only started.
        """
        wanted = self._wanted(output_names)
        if out is not None and len(out) != len(wanted):
            raise Error("E0301", "usage", "out", f"{len(out)} arrays are given for {len(wanted)} outputs", status=2)
        kinds = {i.name: i.type for i in self._inputs}
        queue = _stream_number(stream)
        given, alive = [], []
        for name, array in feeds.items():
            tensor, owner = _arrays.from_caller(name, kinds.get(name, "f32"), array, stream=queue)
            given.append(tensor), alive.append(owner)
        inputs = _arrays.tensor_array(given)
        with self._using() as handle:
            results, outputs = self._outputs_for(handle, inputs, len(given), wanted, out, queue)
            check(library.tw_run(handle, inputs, len(given), outputs, len(wanted), queue))
        return [_arrays.first_rows(array, outputs[i], copy=out is None) if wanted[i].counted else array
                for i, array in enumerate(results)]

    def _wanted(self, names: Optional[Sequence[str]]) -> List[TensorInfo]:
        if names is None:
            return self._outputs
        if isinstance(names, str):
            names = [names]
        known = {o.name: o for o in self._outputs}
        for name in names:
            if name not in known:
                raise Error("E0301", "usage", name, "the model has no output of this name", f"it has {', '.join(known)}", 2)
        return [known[name] for name in names]

    def gpu_seconds(self, runs: int = 20) -> List[float]:
        """On a GPU, after a run: the same again so many times, without copies; the seconds of each by the GPU's clock."""
        times = (ctypes.c_double * runs)()
        with self._using() as handle:
            check(library.tw_time(handle, runs, times))
        return list(times)

    def _outputs_for(self, handle, inputs, count, wanted, out, stream):
        if out is not None:
            pairs = [_arrays.from_caller(o.name, o.type, array, True, stream) for o, array in zip(wanted, out)]
            return list(out), _arrays.tensor_array([tensor for tensor, _ in pairs])
        outputs = _arrays.tensor_array([Tensor(name=o.name.encode()) for o in wanted])
        check(library.tw_shape(handle, inputs, count, outputs, len(wanted)))
        results = [_arrays.empty(_arrays.shape_of(outputs[i]), o.type) for i, o in enumerate(wanted)]
        for i, array in enumerate(results):
            outputs[i].data = array.ctypes.data
        return results, outputs

    # ---- lifetime

    @contextmanager
    def _using(self):
        with self._idle:
            if self._handle is None:
                raise Error("E0301", "usage", "session", "the session is closed", status=2)
            self._users += 1
            handle = self._handle
        try:
            yield handle
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    def close(self) -> None:
        """Frees the memory, when all runs of other threads have ended. Closing twice is fine."""
        with self._idle:
            handle, self._handle = self._handle, None
            self._idle.wait_for(lambda: self._users == 0)
        if handle is not None:
            library.tw_close(handle)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self._handle is None else ""
        return f"<tilewright.Session {[i.name for i in self._inputs]} -> {[o.name for o in self._outputs]}{state}>"


def compile(text: str, *, program: Optional[str] = None, device: str = "cpu", sizes: Optional[Mapping[str, int]] = None,
            threads: Optional[int] = None, constants: Optional[Mapping[str, Any]] = None, **options: Any) -> Session:
    """A session of a text program (.tw); program: which one of several, by name."""
    if program is not None:
        options["program"] = program
    return Session._of_text(text, _options(device, sizes, threads, options), constants or {})


def _options(device, sizes, threads, others) -> List[Tuple[str, str]]:
    options = [("device", str(device))]
    if threads is not None:
        options.append(("threads", str(int(threads))))
    options += [(f"size.{name}", str(int(value))) for name, value in (sizes or {}).items()]
    for key, value in others.items():
        text = ",".join(value) if isinstance(value, (list, tuple)) else str(value)
        options.append((key, text))
    return options


def _stream_number(stream: Any) -> Optional[int]:
    """As tw_run wants it: the default stream, which is 0 elsewhere, has a number there, and None is no stream."""
    if stream is None:
        return None
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    return int(stream) or _arrays.DEFAULT_STREAM


def _kind_of(array: Any) -> str:
    """The type that an array says it has; a list is taken as f32."""
    dtype = getattr(array, "dtype", None)
    if isinstance(dtype, np.dtype):
        for kind in _arrays.TYPES:
            if dtype == _arrays.numpy_type(kind):
                return kind
    return "f32"


def _info(row: Dict[str, Any]) -> TensorInfo:
    return TensorInfo(row["name"], row["type"], tuple(row["shape"]), tuple(row.get("counted", ())))
