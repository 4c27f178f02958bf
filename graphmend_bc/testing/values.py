"""Values, exceptions and log records in a form in which two runs can be compared."""

from __future__ import annotations

import collections
import itertools
import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy
import torch

DATA: Final = (
    *(torch.Tensor, numpy.ndarray, list, dict, set, collections.deque),
    *(bool, int, float, complex, str, bytes, tuple, frozenset, type(None), range),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Types whose values are compared; of other objects only the class is."""


def shown(value: Any) -> Any:
    """A value in comparable form: all that can be seen of data, of objects their class.

    Args:
        value: any value; containers are gone through.

    Example:
        >>> shown([1.0, torch.zeros(2)])
        ('list', [('float', '1.0'), ('torch.float32', (2,), (1,), '[0.0, 0.0]', False, 'Tensor')])
    """
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        data = value.detach()
        bits = repr(data.tolist() if data.layout is torch.strided else str(data))
        shape, stride = tuple(value.shape), value.stride()
        return str(value.dtype), shape, stride, bits, value.requires_grad, kind
    if isinstance(value, numpy.ndarray):
        return kind, str(value.dtype), value.shape, repr(value.tolist())
    if isinstance(value, (list, tuple, collections.deque)):
        return kind, [shown(item) for item in value]
    if isinstance(value, dict):
        return kind, [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return kind, sorted(repr(shown(item)) for item in value)
    if isinstance(value, type):
        return kind, value.__qualname__
    return (kind, repr(value)) if isinstance(value, (numpy.generic, *DATA)) else kind


def sharing(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The pairs of tensors that share memory, by their places in the sequence."""
    places = [t.untyped_storage().data_ptr() if t.numel() else -i for i, t in enumerate(tensors, 1)]
    pairs = itertools.combinations(range(len(tensors)), 2)
    return [(i, j) for i, j in pairs if places[i] == places[j]]


def same_objects(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The pairs of tensors that are one object, by their places in the sequence."""
    pairs = itertools.combinations(range(len(tensors)), 2)
    return [(i, j) for i, j in pairs if tensors[i] is tensors[j]]


def raised(error: BaseException | None) -> Any:
    """An exception with what it was caused by, and the class of what was handled then."""
    if error is None:
        return None
    context = type(error.__context__).__name__
    return type(error).__name__, repr(error.args), str(error), context, raised(error.__cause__)


class Records(logging.Handler):
    """Keeps log records in comparable form.

    Args:
        into: the list to which they are added.
    """

    def __init__(self, into: list[object]) -> None:
        super().__init__()
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        place = (
            record.pathname,
            record.lineno,
            record.funcName,
            record.module,
            record.thread == threading.get_ident(),
        )
        text = (record.name, record.levelname, record.getMessage(), record.msg, repr(record.args))
        trouble = record.exc_info and (record.exc_info[0], repr(record.exc_info[1]))
        extra = sorted((k, repr(v)) for k, v in vars(record).items() if k not in _RECORD_NAMES)
        self.into.append((*text, *place, trouble, record.stack_info, extra))


_RECORD_NAMES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}
