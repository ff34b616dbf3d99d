"""tilewright: fused kernels for tensor programs.

    import numpy as np, tilewright
    session = tilewright.Session("net.onnx")
    [y] = session.run(None, {"x": np.zeros((1, 3, 224, 224), np.float32)})
    print(session.plan["totals"], session.explain())

    double = tilewright.compile("program double(n)\\ninput X[n] : f32\\nY[n] = 2 * X[n]\\noutput Y\\n")
    [y] = double.run(None, {"X": np.arange(4, dtype=np.float32)})

    c = tilewright.matmul(a, b, tile=(32, 1))           # a is mostly zeros; see _operators.py

Everything is computed by the shared library; this package only hands arrays over, without copying those that are dense.
"""

from ._library import Error, version
from ._operators import Pattern, SparseMatmul, detect, matmul, moe, ragged_linear, sparse_attention
from ._session import Session, TensorInfo, compile

__all__ = ["Error", "Pattern", "Session", "SparseMatmul", "TensorInfo", "compile", "detect", "matmul", "moe", "ragged_linear",
           "sparse_attention"]
__version__ = version()
