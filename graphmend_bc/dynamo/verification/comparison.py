"""Compare what two runs gave and left: values, types, memory, identity."""

from __future__ import annotations

import cmath
import collections
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy
import torch

from graphmend_bc.reporting.counts import many, verb
from graphmend_bc.reporting.verification import Difference
from graphmend_bc.runtime.same_text import RELATIVE, same_text

MOST: Final = 8
"""Differences of one call that are told."""

_WHOLE: Final = (bool, int, str, bytes, type(None), range, slice, torch.dtype, torch.device)
_SHARED: Final = (type, ModuleType, FunctionType, BuiltinFunctionType)
_ORDERED: Final = (list, tuple, collections.deque)
_NODE: Final = re.compile(r"grad_fn=<\w+>")
_ABSOLUTE: Final = 1e-5


@dataclass(slots=True)
class Comparison:
    """A walk through two structures at once.

    Attributes:
        found: differences.
        partners: for objects of the one, those of the other, by `id`, both ways.
        kept: these objects, which might be made by asking for them, so that no `id` is given anew.
        tensors: those of both that were met, in the same order.
    """

    found: list[Difference] = field(default_factory=list)
    partners: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    kept: list[Any] = field(default_factory=list)
    tensors: tuple[list[torch.Tensor], list[torch.Tensor]] = field(default_factory=lambda: ([], []))

    def compare(self, what: str, want: Any, got: Any) -> None:
        """Compare two values, and all that is in them.

        Args:
            what: names them.
            want: eager Python's.
            got: the mended call's.
        """
        left = [(what, want, got)]
        while left and len(self.found) < MOST:
            here, one, other = left.pop()
            if one is not other:
                left += reversed([*self._step(here, one, other)])

    def compare_memory(self) -> None:
        """Compare which of the tensors that were met share memory."""
        ones, others = (_shares(tensors) for tensors in self.tensors)
        if ones != others:
            pairs = [(i, a, b) for i, (a, b) in enumerate(zip(ones, others, strict=True)) if a != b]
            share = verb(len(pairs), "shares", "share")
            tensors = f"{many(len(pairs), 'tensor')} {share} memory"
            self.tell("memory", f"{tensors} with others than in eager")

    def tell(self, what: str, detail: str) -> None:
        """Note a difference."""
        self.found.append(Difference(what, detail))

    def _step(self, what: str, want: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
        """Compare two values themselves; gives what is in them."""
        if type(want) is not type(got):
            self.tell(what, f"{type(want).__name__} in eager, {type(got).__name__} mended")
        elif isinstance(want, (float, complex, *_WHOLE)) or _is_numpy(want):
            self._compare_plain(what, want, got)
        elif isinstance(want, _SHARED):
            self._compare_shared(what, want, got)
        elif not self._is_new(what, want, got):
            return
        elif isinstance(want, torch.Tensor):
            self._compare_tensors(what, want, got)
            if want.is_leaf and got.is_leaf:
                yield f"{what}.grad", want.grad, got.grad
            yield from self._attributes(what, want, got)
        elif isinstance(want, MethodType):
            yield f"{what}.__self__", want.__self__, got.__self__
        else:
            yield from self._parts(what, want, got)

    def _is_new(self, what: str, want: Any, got: Any) -> bool:
        """Whether a pair of objects is met for the first time; tells of one with other partners."""
        ones, others = self.partners
        known, back = ones.get(id(want)), others.get(id(got))
        if known is None and back is None:
            ones[id(want)], others[id(got)] = id(got), id(want)
            self.kept += want, got
            return True
        if (known, back) != (id(got), id(want)) and not _is_value(want):
            self.tell(what, "it is another object than in eager")
        return (known, back) != (id(got), id(want))

    def _compare_plain(self, what: str, want: Any, got: Any) -> None:
        if isinstance(want, (float, complex)) and not isinstance(want, numpy.generic):
            close = cmath.isclose(want, got, rel_tol=RELATIVE, abs_tol=_ABSOLUTE)
            same = close or (want != want and got != got)
        elif isinstance(want, (numpy.ndarray, numpy.generic)):
            same = _same_arrays(want, got)
        else:
            same = want == got
        if not same:
            self.tell(what, f"{_short(want)} in eager, {_short(got)} mended")

    def _compare_shared(self, what: str, want: Any, got: Any) -> None:
        code = getattr(want, "__code__", None)
        if want is not got and (code is None or code is not got.__code__):
            self.tell(what, f"{_short(want)} in eager, {_short(got)} mended")

    def _compare_tensors(self, what: str, want: torch.Tensor, got: torch.Tensor) -> None:
        self.tensors[0].append(want)
        self.tensors[1].append(got)
        for name in ("dtype", "device", "layout", "shape", "requires_grad", "is_leaf"):
            one, other = getattr(want, name), getattr(got, name)
            if one != other:
                self.tell(what, f"{name} is {one} in eager, {other} mended")
                return
        if want.layout is torch.strided and _strides(want) != _strides(got):
            self.tell(what, f"strides are {want.stride()} in eager, {got.stride()} mended")
        one, other = want.detach(), got.detach()
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError:
            self.tell(what, _worst(one, other))

    def _parts(self, what: str, want: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(want, _ORDERED):
            if len(want) != len(got):
                self.tell(what, f"{many(len(want), 'item')} in eager, {len(got)} mended")
                return
            for i, (one, other) in enumerate(zip(want, got, strict=True)):
                yield f"{what}[{i}]", one, other
        elif isinstance(want, Mapping):
            yield from self._items(what, want, got)
        elif isinstance(want, (set, frozenset)) and not _same_sets(want, got):
            self.tell(what, f"{_short(want)} in eager, {_short(got)} mended")
        if isinstance(want, BaseException):
            yield f"{what}.args", want.args, got.args
        yield from self._attributes(what, want, got)

    def _attributes(self, what: str, want: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
        dicts = getattr(want, "__dict__", None), getattr(got, "__dict__", None)
        if dicts[0] is not None and not self._is_new(f"{what}.__dict__", *dicts):
            return
        ones, others = _attributes(want), _attributes(got)
        names = ones.keys() ^ others.keys()
        if names and (isinstance(want, torch.Tensor) or not _makes_own_state(want)):
            self.tell(what, f"only one of eager and mended has {', '.join(sorted(names))}")
        for name in ones.keys() & others.keys():
            yield f"{what}.{name}", ones[name], others[name]

    def _items(
        self, what: str, want: Mapping[Any, Any], got: Mapping[Any, Any]
    ) -> Iterator[tuple[str, Any, Any]]:
        ones, others = [*want], [*got]
        if [*map(_key, ones)] != [*map(_key, others)]:
            self.tell(what, f"{_short(ones)} in eager, {_short(others)} mended")
            return
        for one, other in zip(ones, others, strict=True):
            yield f"{what}[{one!r}]", want[one], got[other]


def same_output(want: str, got: str) -> bool:
    """Whether two outputs are the same, but for the rounding of numbers that were computed.

    The copy of a tensor that autograd has computed has a node of its own.
    """
    return same_text(*(_NODE.sub("", text) for text in (want, got)))


def _is_value(value: Any) -> bool:
    """Whether nobody asks which object a value is."""
    return isinstance(value, (tuple, frozenset, MethodType)) or not (
        hasattr(value, "__dict__") or isinstance(value, (*_ORDERED, dict, set, torch.Tensor))
    )


def _is_numpy(value: Any) -> bool:
    return isinstance(value, (numpy.ndarray, numpy.generic))


def _same_arrays(want: Any, got: Any) -> bool:
    if want.dtype != got.dtype or want.shape != got.shape:
        return False
    if want.dtype.kind not in "fc":
        return bool(numpy.array_equal(want, got))
    return bool(numpy.allclose(got, want, rtol=RELATIVE, atol=_ABSOLUTE, equal_nan=True))


def _same_sets(want: Any, got: Any) -> bool:
    return len(want) == len(got) and sorted(map(repr, map(_key, want))) == sorted(
        map(repr, map(_key, got))
    )


def _key(value: Any) -> Any:
    """A key of a dict as it is compared: a copy of an object is as good as the object."""
    plain = isinstance(value, (str, int, float, tuple, type(None), type))
    return value if plain else type(value)


def _attributes(value: Any) -> dict[str, Any]:
    own = getattr(value, "__dict__", None) or {}
    found = {name: kept for name, kept in own.items() if not _is_dynamos(name)}
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _is_dynamos(name: object) -> bool:
    """Whether Dynamo keeps something under the name, on a tensor of the program's."""
    return str(name).startswith("_dynamo")


def _makes_own_state(value: Any) -> bool:
    """Whether a class says itself what a copy of an object has."""
    kind = type(value)
    own = getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)
    return own or hasattr(kind, "__setstate__") or hasattr(kind, "__deepcopy__")


def _strides(tensor: torch.Tensor) -> list[int]:
    """The strides that can be told: not those of dimensions with one element."""
    if not tensor.numel():
        return []
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1]


def _shares(tensors: Sequence[torch.Tensor]) -> list[int]:
    """For each tensor, the position of the first that has the same memory."""
    first: dict[Any, int] = {}
    found = []
    for position, tensor in enumerate(tensors):
        strided = tensor.layout is torch.strided and tensor.numel()
        key = tensor.untyped_storage().data_ptr() if strided else (position,)
        found.append(first.setdefault(key, position))
    return found


def _worst(want: torch.Tensor, got: torch.Tensor) -> str:
    """How much two tensors of the same form differ."""
    one, other = (t.to_dense() if t.layout is not torch.strided else t for t in (want, got))
    wide = torch.complex128 if one.is_complex() else torch.float64
    apart = (one.to(wide) - other.to(wide)).abs()
    wrong = ~((one == other) | ((one != one) & (other != other)))
    differ = f"{many(one.numel(), 'value')} {verb(one.numel(), 'differs', 'differ')}"
    return f"{int(wrong.sum())} of {differ}, by at most {float(apart.max()):.6g}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
