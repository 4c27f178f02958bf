"""What kernels refuse although fake tensors accept it, compared with kernels that really ran."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from graphmend_bc.legality.kernels import (
    has_kernel,
    is_refused,
    is_same_view,
    may_fail,
    may_overlap,
    writes_whole,
)
from graphmend_bc.legality.record import OpRecord, written_by
from tests.legality.test_gradients import Recording

NAMES = {"torch": torch, "F": F}


def operands(device: str) -> dict[str, Any]:
    x = torch.ones(3, device=device)
    return {**NAMES, "x": x, "d": x.double(), "h": x.half(), "i": x.long(), "b": x.bool()}


def fails(source: str) -> bool:
    try:
        eval(source, operands("cpu"))
    except (NotImplementedError, RuntimeError):
        return True
    return False


def accepted(source: str) -> list[OpRecord]:
    """The operators of an expression that ran without kernels."""
    names, mode = operands("meta"), Recording()
    with mode:
        eval(source, names)
    return mode.records


@pytest.mark.parametrize(
    "source",
    [
        "b.argmax()",
        "torch.heaviside(x, d)",
        "F.layer_norm(x, (3,), d, d)",
        "i.mul_(x)",
        "i.addcmul_(x, x)",
        "x.masked_fill_(i, 1.0)",
        "h.fill_(1e6)",
        "i.fill_(float('inf'))",
        "x - True",
        "x[1:].add_(x[:-1])",
        "x[:1].expand(3).add_(1)",
    ],
)
def test_what_kernels_refuse_may_fail(source: str) -> None:
    assert fails(source)
    assert any(map(may_fail, accepted(source)))


@pytest.mark.parametrize(
    "source",
    [
        "x.argmax()",
        "i.clamp_(i)",
        "i.bitwise_and(i)",
        "torch.heaviside(x, x)",
        "i.mul(x)",
        "x.mul_(i)",
        "x.mul_(d)",
        "i.copy_(x)",
        "b.copy_(x)",
        "x.masked_fill_(b, 1.0)",
        "x.masked_fill(b, 1)",
        "h.fill_(1e4)",
        "x.clone()",
        "torch.full((2,), 1e4)",
        "x[1:].add_(x[1:])",
        "x[1:].add_(x[:1])",
        "x[1:].add(x[:-1])",
        "x.to(torch.uint16).clone()",
    ],
)
def test_what_kernels_take_does_not_fail(source: str) -> None:
    assert not fails(source)
    assert not any(map(may_fail, accepted(source)))


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("b.argmax()", True),
        ("x.argmax()", False),
        ("F.batch_norm(d.view(1, 3), x, x)", True),
        ("F.batch_norm(d.view(1, 3), d, d)", False),
        ("F.batch_norm(h.view(1, 3), x, x)", False),
        ("torch.heaviside(d, x)", True),
        ("d + x", False),
        ("x + 1", False),
        ("x - True", True),
        ("h.fill_(1e6)", True),
    ],
)
def test_dtypes_and_numbers_that_are_refused(source: str, refused: bool) -> None:
    assert fails(source) is refused
    assert any(map(is_refused, accepted(source))) is refused


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.float8_e5m2])
def test_dtypes_of_which_not_much_is_known(dtype: torch.dtype) -> None:
    """They are copied; `sin` of them has no kernel."""
    x = torch.ones(3).to(dtype)
    with Recording() as mode:
        x.clone().view(3)
        with pytest.raises(NotImplementedError):
            x.add(x).frac()
    assert all(map(has_kernel, mode.records[:2]))
    assert not has_kernel(OpRecord(torch.ops.aten.frac.default, (x,), {}, x))


# Numbers

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex64, torch.complex128),
]
NUMBERS = [
    *(True, 0, -1, 127, 128, 255, 256, -129, 2**31, 2**63 - 1, -(2**63)),
    *(0.5, 65504.0, 65520.0, 1e39, -1e39, 1e300, math.inf, -math.inf, math.nan),
]
ENV = ShapeEnv()
SIZE = ENV.create_unbacked_symint()
SYMBOLS = {
    "integer": (SIZE, [-(2**63), -1, 0, 2**63 - 1]),
    "float": (ENV.create_unbacked_symfloat(), [0.5, -1e300, math.inf, math.nan]),
    "truth": (SIZE > 3, [True, False]),
}


def holds(dtype: torch.dtype, number: Any) -> bool:
    try:
        torch.full((2,), number, dtype=dtype)
    except (RuntimeError, TypeError):
        return False
    return True


def filled(dtype: torch.dtype, number: object) -> OpRecord:
    full = torch.ops.aten.full.default
    return OpRecord(full, ([2], number), {"dtype": dtype}, torch.empty(2, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_a_dtype_holds(dtype: torch.dtype, number: object) -> None:
    if dtype is torch.uint8 and number in (-1, -129):  # which wrap
        assert may_fail(filled(dtype, number))
    else:
        assert bool(may_fail(filled(dtype, number))) is not holds(dtype, number)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("number", [1j, 1e300j])
def test_complex_numbers(dtype: torch.dtype, number: complex) -> None:
    assert may_fail(filled(dtype, number)) or holds(dtype, number)
    assert not may_fail(filled(torch.complex128, number))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_number_of_python(dtype: torch.dtype) -> None:
    third = Fraction(1, 3)
    assert not holds(dtype, third)
    assert may_fail(filled(dtype, third)) or dtype is torch.bool  # of which all have a truth


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("symbol", "numbers"), SYMBOLS.values(), ids=SYMBOLS.keys())
def test_symbols_of_which_a_dtype_holds_all(
    dtype: torch.dtype, symbol: object, numbers: list[object]
) -> None:
    holds_all = all(holds(dtype, number) for number in numbers)
    if isinstance(symbol, torch.SymInt) and dtype.is_complex:
        assert holds_all  # it is not known to
    else:
        assert bool(may_fail(filled(dtype, symbol))) is not holds_all


# Memory

BASE, SQUARE = torch.arange(1.0, 9.0), torch.ones(2, 2)
VIEWS = {
    "first": BASE[:4],
    "first again": BASE[:4],
    "last": BASE[4:],
    "middle": BASE[3:7],
    "other": torch.ones(4),
    "repeated": BASE[:1].expand(4),
}


def add(one: torch.Tensor, other: torch.Tensor) -> OpRecord:
    return OpRecord(torch.ops.aten.add_.Tensor, (one, other), {}, one)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(VIEWS, repeat=2)))
def test_what_may_overlap(one: str, other: str) -> None:
    BASE.copy_(torch.arange(1.0, 9.0))
    target, operand = VIEWS[one], VIEWS[other]
    expected = target + operand
    try:
        target.add_(operand)
        agrees = torch.equal(target, expected)
    except RuntimeError:
        agrees = False
    if other == "repeated":  # which is read while it is written, or before
        assert may_overlap(add(target, operand)) or agrees
    else:
        assert may_overlap(add(target, operand)) is not agrees


def test_memory_apart_is_not_compared() -> None:
    one, other = torch.ones(2, 2), torch.ones(2, 2).t()
    assert not may_overlap(add(one, other))
    assert not may_overlap(add(other, one))


def test_every_second_element() -> None:
    """It is not asked which elements lie between."""
    assert may_overlap(add(BASE[::2], BASE[1::2]))


def test_places_that_are_symbols() -> None:
    """No guard is added; what has the same text is the same."""
    with FakeTensorMode(shape_env=ShapeEnv()):
        size = torch.empty(9).nonzero().shape[0]
        base = torch.empty(99)
        known, long = base[:4], base.as_strided((size,), (1,), 0)
        far, again = (base.as_strided((4,), (1,), size) for _ in range(2))
    for one, other in itertools.permutations((known, long, far), 2):
        if one is not long:  # of which torch itself would ask whether it overlaps
            assert may_overlap(add(one, other))
            assert not is_same_view(one, other)
    assert not may_overlap(add(far, again))


# Writes to what has a size that is a symbol


class Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Asks of each operator that writes whether it writes the whole target; it does not run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.answers: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func._schema.is_mutable:
            return func(*args, **(kwargs or {}))
        record = OpRecord(func, tuple(args), kwargs or {}, None)
        self.answers += [writes_whole(record, target) for target in written_by(record)]
        return args[0]


def zeros(*shape: int | torch.SymInt) -> torch.Tensor:
    return torch.zeros(shape)


def places(*shape: int | torch.SymInt) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


WHOLE = [
    "z(s).add_(1)",
    "z(s).add_(z(s))",
    "z(s).add_(z(1))",
    "z(s).add_(z())",
    "z(2, s).add_(z(s))",
    "z(2, s).add_(z(2, 1))",
    "z(s).copy_(z(s))",
    "z(s).sigmoid_()",
    "z(s).index_put_((i(3),), z(3))",
    "(lambda a: a.add_(a))(z(s))",
    "(lambda a: a.view(s).add_(a))(z(s))",
    "(lambda a, b: (a.add_(b), b.add_(a)))(z(s, s), z(s, s).t())",
    "z(s).scatter_(0, i(s), 1.0)",
    "z(s).scatter_(0, i(s), z(s))",
    "z(s).scatter_(0, i(t), 1.0)",
    "(lambda a, b: (a.scatter_add_(0, i(s), b), b.scatter_add_(0, i(s), a)))(z(s), z(s))",
]
NOT_WHOLE = [
    "z(s).add_(z(t))",
    "z(1).add_(z(s))",
    "z(2, 1).add_(z(2, s))",
    "z(s).add_(z(1, s))",
    "z(s).copy_(z(t))",
    "z(1).expand(s).add_(1)",
    "z(s).masked_scatter_(torch.ones(1, dtype=torch.bool), z(2))",
    "z(s).index_fill_(0, i(1) + 1, 1.0)",
    "(lambda a: a.add_(a.t()))(z(s, s))",
    "z(s).scatter_(0, i(s), z(t))",
    "(lambda a: a.scatter_(0, i(s), a))(z(s))",
]


def outcomes(source: str) -> Iterator[bool]:
    """Whether it runs, for some sizes."""
    for s, t in itertools.product((1, 2, 3), repeat=2):
        try:
            eval(source, {"torch": torch, "z": zeros, "i": places, "s": s, "t": t})
            yield True
        except (IndexError, RuntimeError):
            yield False


def answers(source: str) -> list[bool]:
    writes = Writes()
    with FakeTensorMode(shape_env=ShapeEnv()):
        s, t = (torch.empty(9).nonzero().shape[0] for _ in range(2))
        with writes:
            eval(source, {"torch": torch, "z": zeros, "i": places, "s": s, "t": t})
    return writes.answers


@pytest.mark.parametrize("source", WHOLE)
def test_writes_that_fail_for_no_size(source: str) -> None:
    assert all(outcomes(source))
    assert set(answers(source)) == {True}


@pytest.mark.parametrize("source", NOT_WHOLE)
def test_writes_that_fail_for_a_size(source: str) -> None:
    assert not all(outcomes(source))
    assert answers(source) == [False]


def test_no_guard_is_asked_of_a_stride() -> None:
    assert len(answers("z(9).as_strided((2,), (s,)).add_(1)")) == 1
