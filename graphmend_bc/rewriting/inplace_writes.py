"""In-place methods of tensors that objects hold, such as `self.total.add_(x)`.

Such a tensor was there before the function, as a rule, so an arm that is not taken must not write
to it. The bytecode shows it before the arm is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphmend_bc.code.listing import Op, name_of

_READS: Final = ("LOAD_ATTR", "LOAD_METHOD")
_VIEWS: Final = frozenset({"H", "T", "data", "grad", "imag", "mH", "mT", "real"})
"""Attributes of tensors: `x.data.add_(1)` of a local may write to a tensor of the graph."""


def attribute_written_inplace(ops: Sequence[Op]) -> str:
    """The name of an attribute whose tensor is written in place; empty if there is none.

    Args:
        ops: instructions, in the order of the code.

    Example:
        >>> from graphmend_bc.code.analysis.blocks import graph_of
        >>> def f(self, x):
        ...     self.total.add_(x)
        >>> attribute_written_inplace(graph_of(f.__code__).listing.ops)
        'total'
    """
    path: list[str] = []
    for op in ops:
        if op.name not in _READS:
            path = []
            continue
        name = name_of(op.arg)
        if _is_in_place(name) and (held := [part for part in path if part not in _VIEWS]):
            return held[-1]
        path.append(name)
    return ""


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and not name.endswith("__")
