"""The C interface (include/tilewright/tilewright.h) through ctypes."""

import ctypes
import json
import os
from pathlib import Path

MAX_DIMS = 8


class Error(Exception):
    """What went wrong: code ("E0301"), kind ("usage"), where (a tensor, a file:line), message, hint."""

    def __init__(self, code: str = "", kind: str = "", where: str = "", message: str = "", hint: str = "", status: int = 5):
        self.code, self.kind, self.where, self.message, self.hint, self.status = code, kind, where, message, hint, status
        text = f"{code} {where}: {message}" if where else f"{code} {message}"
        super().__init__(f"{text} ({hint})" if hint else text)

    def __reduce__(self):
        return Error, (self.code, self.kind, self.where, self.message, self.hint, self.status)


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_DIMS), ("stride", ctypes.c_int64 * MAX_DIMS), ("data", ctypes.c_void_p),
                ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("capacity", ctypes.c_int64)]


class Option(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Source(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("is_text", ctypes.c_int), ("options", ctypes.POINTER(Option)), ("option_count", ctypes.c_size_t),
                ("constants", ctypes.POINTER(Tensor)), ("constant_count", ctypes.c_size_t)]


def _candidates():
    """Where the library may be: named by the environment, inside the wheel, in the build folder of a source tree."""
    named = os.environ.get("TILEWRIGHT_LIBRARY")
    if named:
        return [Path(named)]
    here = Path(__file__).resolve().parent
    build = os.environ.get("BUILD")
    folders = [here, *([Path(build)] if build else []), here.parents[1] / "build"]
    return [folder / "libtilewright.so" for folder in folders]


def _load() -> ctypes.CDLL:
    paths = _candidates()
    path = next((p for p in paths if p.exists()), None)
    if path is None:
        raise ImportError(f"libtilewright.so is in none of {', '.join(str(p) for p in paths)}; "
                          "build it, or set TILEWRIGHT_LIBRARY to its path")
    library = ctypes.CDLL(str(path))
    session, text, tensors = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Tensor)
    for name, result, arguments in [
        ("tw_version", text, []),
        ("tw_last_error", text, []),
        ("tw_open_source", ctypes.c_int, [ctypes.POINTER(Source), ctypes.POINTER(session)]),
        ("tw_describe", ctypes.c_int, [session, text, ctypes.POINTER(ctypes.c_void_p)]),
        ("tw_shape", ctypes.c_int, [session, tensors, ctypes.c_size_t, tensors, ctypes.c_size_t]),
        ("tw_run", ctypes.c_int, [session, tensors, ctypes.c_size_t, tensors, ctypes.c_size_t, ctypes.c_void_p]),
        ("tw_time", ctypes.c_int, [session, ctypes.c_int, ctypes.POINTER(ctypes.c_double)]),
        ("tw_free", None, [ctypes.c_void_p]),
        ("tw_close", None, [session]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def version() -> str:
    return library.tw_version().decode()


def check(status: int) -> None:
    """Raises the failure that a call has returned."""
    if status != 0:
        raise Error(**json.loads(library.tw_last_error().decode("utf-8", "replace")))


def describe(handle: ctypes.c_void_p, what: str):
    text = ctypes.c_void_p()
    check(library.tw_describe(handle, what.encode(), ctypes.byref(text)))
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library.tw_free(text)
