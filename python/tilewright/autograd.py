"""Sparse products in torch's autograd; torch is needed only when one is made.

    from tilewright.autograd import sparse_matmul
    c = sparse_matmul(a, b, tile=(32, 1))            # tensors on the CPU; c.backward(...) reaches a and b
    c = sparse_matmul(weight, x, mask=weight.abs() > threshold)   # a pruning step: the mask may be another one in each

The gradient of a is 0 in micro-tiles that hold nothing (or that the mask leaves out), as for a weight that is pruned.
"""

import functools
from typing import Any, Optional, Tuple

from ._operators import SparseMatmul


def _numpy(tensor: Any):
    return tensor.detach().numpy()


@functools.lru_cache(maxsize=None)
def _function(torch: Any):
    """The torch.autograd.Function; torch: the module."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, mask, tile, threads):
            product = SparseMatmul(tile=tile, threads=threads)
            c = product(_numpy(a), _numpy(b), None if mask is None else _numpy(mask))
            ctx.product = product
            return torch.from_numpy(c)

        @staticmethod
        def backward(ctx, dc):
            da, db = ctx.product.backward(_numpy(dc))
            return torch.from_numpy(da), torch.from_numpy(db), None, None, None

    return Product


def sparse_matmul(a: Any, b: Any, *, mask: Optional[Any] = None, tile: Tuple[int, int] = (32, 1), threads: Optional[int] = None,
                  torch: Any = None) -> Any:
    """a @ b with gradients for both. torch: the module to use; None: it is imported."""
    if torch is None:
        import torch
    return _function(torch).apply(a, b, mask, tile, threads)
