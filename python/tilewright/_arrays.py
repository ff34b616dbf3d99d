"""Arrays of NumPy and of anything that speaks DLPack or has a __cuda_array_interface__ as tw_tensor, and back."""

import ctypes
from typing import Any, Optional, Tuple

import numpy as np

from ._library import MAX_DIMS, Error, Tensor

try:  # NumPy has no bfloat16 and no 8-bit floats of its own
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# In the order of tw_dtype.
TYPES = ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i32", "i64", "bool"]
_NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i8": np.int8, "u8": np.uint8, "i32": np.int32,
          "i64": np.int64, "bool": np.bool_}
_NARROW = {"bf16": ("bfloat16", np.uint16), "f8e4m3": ("float8_e4m3fn", np.uint8), "f8e5m2": ("float8_e5m2", np.uint8)}


def numpy_type(name: str) -> np.dtype:
    """The NumPy dtype of a type; bf16 and f8 are ml_dtypes' where it is installed, else their bits as integers."""
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    narrow, bits = _NARROW[name]
    return np.dtype(getattr(ml_dtypes, narrow)) if ml_dtypes else np.dtype(bits)


# ---- DLPack without a framework: the capsule's struct says where the elements are


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_DL_CPU, _DL_CUDA, _DL_CUDA_HOST = 1, 2, 3
_CPU, _CUDA = 0, 1  # of tw_tensor
DEFAULT_STREAM = 1  # as the driver, DLPack and the CUDA array interface call the default stream
_DL_TYPES = {(2, 64): "f64", (2, 32): "f32", (2, 16): "f16", (4, 16): "bf16", (0, 8): "i8", (1, 8): "u8", (0, 32): "i32",
             (0, 64): "i64", (6, 8): "bool"}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def on_gpu(array: Any) -> bool:
    """Whether an array says that it is on a GPU."""
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[0]) == _DL_CUDA
    return hasattr(array, "__cuda_array_interface__")


def _from_dlpack(array: Any, name: str, stream: Optional[int]) -> Tuple[Tensor, Any]:
    kind_of_device, number = getattr(array, "__dlpack_device__", lambda: (_DL_CPU, 0))()
    on_gpu = int(kind_of_device) == _DL_CUDA
    if int(kind_of_device) not in (_DL_CPU, _DL_CUDA, _DL_CUDA_HOST):
        raise Error("E0301", "usage", name, f"the array is on DLPack device {(int(kind_of_device), int(number))}, only arrays of "
                    "the CPU and of CUDA are taken", "move it to the CPU", 2)
    # The owner makes that stream wait for what is still to come into the array.
    capsule = array.__dlpack__(stream=stream or DEFAULT_STREAM) if on_gpu else array.__dlpack__()
    # The managed tensor begins with the tensor. The capsule is not consumed: its owner frees it when we let it go.
    t = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    kind = _DL_TYPES.get((t.code, t.bits)) if t.lanes == 1 else None
    if kind is None:
        raise Error("E0301", "usage", name, f"DLPack type (code {t.code}, {t.bits} bits) is not supported", status=2)
    shape = [t.shape[d] for d in range(t.ndim)]
    strides = [t.strides[d] for d in range(t.ndim)] if t.strides else None
    gpu = int(number) if on_gpu else None
    return describe_memory(name, kind, shape, strides, (t.data or 0) + t.byte_offset, gpu), (capsule, array)


def _from_cuda_interface(array: Any, name: str) -> Tuple[Tensor, Any]:
    """Memory of the GPU whose session it is given to: the interface does not tell which one."""
    facts = array.__cuda_array_interface__
    dtype = np.dtype(facts["typestr"])
    kind = next((k for k in _NUMPY if dtype == numpy_type(k)), None)
    if kind is None:
        raise Error("E0301", "usage", name, f"type {facts['typestr']} is not supported", status=2)
    strides = facts.get("strides")
    if strides is not None:
        strides = [s // dtype.itemsize for s in strides]
    number = getattr(getattr(array, "device", None), "id", 0)
    return describe_memory(name, kind, list(facts["shape"]), strides, facts["data"][0], int(number)), array


def describe_memory(name: str, kind: str, shape, strides, address: int, gpu: Optional[int] = None) -> Tensor:
    """A tw_tensor over memory of somebody else. strides: in elements; None: dense."""
    if len(shape) > MAX_DIMS:
        raise Error("E0301", "usage", name, f"has {len(shape)} dims, at most {MAX_DIMS} are possible", status=2)
    if strides is None:
        strides, step = [0] * len(shape), 1
        for d in reversed(range(len(shape))):
            strides[d], step = step, step * shape[d]
    tensor = Tensor(name=name.encode(), dtype=TYPES.index(kind), ndim=len(shape), data=address)
    if gpu is not None:
        tensor.device, tensor.device_id = _CUDA, gpu
    tensor.shape[: len(shape)] = shape
    tensor.stride[: len(shape)] = strides
    return tensor


def _type_of(array: np.ndarray, wanted: str, name: str) -> str:
    dtype = array.dtype.newbyteorder("=")
    for kind in ([wanted] if wanted in _NARROW else []) + list(_NUMPY):
        if dtype == numpy_type(kind) or (kind in _NARROW and dtype == _NARROW[kind][1]):
            return kind
    for kind in _NARROW:  # another narrow type than the one that is wanted: the library says so
        if ml_dtypes and dtype == numpy_type(kind):
            return kind
    raise Error("E0301", "usage", name, f"the array is of dtype {array.dtype}, {wanted} is wanted",
                f"convert it: array.astype(numpy.{numpy_type(wanted)})", 2)


def from_caller(name: str, wanted: str, array: Any, output: bool = False, stream: Optional[int] = None) -> Tuple[Tensor, Any]:
    """A tw_tensor over the caller's array, and what must stay alive while it is used."""
    if not isinstance(array, np.ndarray):
        if hasattr(array, "__dlpack__") and not isinstance(array, np.generic):
            return _from_dlpack(array, name, stream)
        if hasattr(array, "__cuda_array_interface__"):
            return _from_cuda_interface(array, name)
        if output:
            raise Error("E0301", "usage", name, "an output must be a NumPy array, speak DLPack or have a __cuda_array_interface__", status=2)
        array = np.asarray(array)
        if array.dtype != numpy_type(wanted) and array.dtype.kind in "fiub":  # numbers and lists have no dtype of their own
            array = array.astype(numpy_type(wanted))
    kind = _type_of(array, wanted, name)
    if output and not array.flags.writeable:
        raise Error("E0301", "usage", name, "the output array is read-only", status=2)
    if not array.dtype.isnative or any(s % array.itemsize for s in array.strides):
        if output:
            raise Error("E0301", "usage", name, "the output array's byte order or strides cannot be used", status=2)
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    strides = [s // array.itemsize for s in array.strides]
    return describe_memory(name, kind, array.shape, strides, array.ctypes.data), array


def empty(shape, kind: str) -> np.ndarray:
    return np.empty(tuple(shape), numpy_type(kind))


def shape_of(tensor: Tensor) -> Tuple[int, ...]:
    return tuple(tensor.shape[: tensor.ndim])


def first_rows(array: Any, tensor: Tensor, copy: bool) -> Any:
    """The results in an array that had room for more: a view of them, or an array of their size."""
    array = array if hasattr(array, "__getitem__") else np.from_dlpack(array)
    rows = array[tuple(slice(0, extent) for extent in shape_of(tensor))]
    return rows.copy() if copy and rows.size < array.size else rows


def tensor_array(tensors) -> Optional[ctypes.Array]:
    return (Tensor * len(tensors))(*tensors) if tensors else None
