"""Every operator's range is sound: what real tensors hold lies in it, of whatever dtype they are.

The operators run on real tensors. Before each, the range of an operand is anything that its numbers
lie in; after it, all numbers of its results must lie in theirs.
"""

from __future__ import annotations

import ast
import logging
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.value_ranges import ValueRanges

from graphmend_bc.legality import ops
from graphmend_bc.legality.arithmetic import RULES
from graphmend_bc.legality.integers import is_integral
from graphmend_bc.legality.ranges import Ranges
from graphmend_bc.legality.record import OpRecord

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]

OPERATORS = {
    "views": "x.view(2, 3).t().contiguous(), x.view(3, 2).permute(1, 0)[0, None].squeeze(0).expand(2, 3)",
    "more views": "x.detach(), torch.ops.aten.alias(x), x.unsqueeze(0).transpose(0, 1), x.unfold(0, 2, 1), x.view(2, 3).diagonal()",
    "even more views": "x.split(2), x.split([2, 4]), x.unbind(), x.view(2, 3).select(1, n % 3), torch.ops.aten._reshape_alias(x, [3], [2])",
    "unsafe view": "torch.ops.aten._unsafe_view(x, [3, 2]), torch.ops.aten.lift_fresh(x)",
    "bits": "x.view(torch.uint8), x.view(torch.int8)",
    "copies": "x.clone(), x.flip(0), x.repeat(2), x.roll(1), x[torch.tensor([1, 0])], x[1:3], x.index_select(0, torch.tensor([2]))",
    "selections": "x.gather(0, torch.tensor([1, 2])), x.masked_select(x > 0), x[x > n]",
    "constants": "torch.zeros(2), torch.ones_like(x), x.new_zeros(2), torch.zeros_like(x), x.new_ones(2), torch.ones(3, dtype=x.dtype)",
    "full": "torch.full((2,), n, dtype=x.dtype)",
    "full like": "torch.full_like(x, n), x.new_full((2,), n)",
    "scalar": "torch.scalar_tensor(n, dtype=x.dtype)",
    "positions": "x.argmax(), x.argmin(0), x.argsort(), x.view(2, 3).max(1), x.view(2, 3).min(0), x.sort(), x.view(2, 3).topk(2)",
    "largest": "x.max(), x.min(), torch.max(x, x)",
    "to": "x.to(y.dtype), x.bool()",
    "to float": "(x + 0.5).to(y.dtype)",
    "arange": "torch.arange(n % 5, 7, dtype=x.dtype), torch.arange(n % 7), torch.arange(n, n + 3)",
    "arange by steps": "torch.arange(n, n + 5, 2), torch.arange(n, n - 5, -1)",
    "cat": "torch.cat([x, y]), torch.stack([x, x]), torch.stack([x, y.to(x.dtype)])",
    "where": "torch.where(x > 0, x, y), torch.where(x > 0, x, n), torch.where(x > 0, x, y[0])",
    "add": "x + y, x + n, n + x, x + y[0], torch.add(x, y, alpha=2)",
    "sub": "x - y, x - n, n - x, x - y[0]",
    "mul": "x * y, x * n, x * y[0]",
    "equal": "x == y, x == n, x == y[0], x != y, x != n, x != y[0]",
    "less": "x < y, x < n, x < y[0], x >= y, x >= n, x >= y[0]",
    "greater": "x > y, x > n, x > y[0], x <= y, x <= n, x <= y[0]",
    "minimum": "torch.minimum(x, y), torch.minimum(x, y[0])",
    "maximum": "torch.maximum(x, y), torch.maximum(x, y[0])",
    "clamp": "x.clamp(n, m), x.clamp(n), x.clamp(max=n)",
    "clamp one side": "x.clamp_min(n), x.clamp_max(n)",
    "clamp by tensors": "x.clamp(y), x.clamp_max(y[0])",
    "remainder": "x % n, x % m",
    "remainder by a tensor": "x % y, n % x",
}

COMPOSITE = {
    "argsort",
    "chunk",
    "contiguous",
    "movedim",
    "mT",
    "narrow",
    "numpy_T",
}  # run as others of these
NOT_OF_INTEGERS = {"view_as_complex", "view_as_real"}


@pytest.fixture(autouse=True)
def no_rule_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises is taken for one that knows nothing; here it is a fault."""

    def fail(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(logging.getLogger("graphmend_bc"), "exception", fail)


class Note(TorchDispatchMode):
    """Learns ranges as a trace does."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.ranges = ranges
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        record = OpRecord(func, tuple(args), kwargs or {}, result)
        try:
            self.ranges.note(record)
        except Exception as error:
            raise AssertionError(record) from error
        self.seen.add(record.name)
        self.observe(record)
        return result

    def observe(self, record: OpRecord) -> None:
        """Called for every operator."""


class Watch(Note):
    """Compares them with what the results hold."""

    def observe(self, record: OpRecord) -> None:
        for tensor in filter(is_integral, record.results()):
            if tensor.numel():
                found, holds = self.ranges.of(tensor), (int(tensor.min()), int(tensor.max()))
                assert found.lower <= holds[0], (record, found)
                assert holds[1] <= found.upper, (record, found)


@st.composite
def tensors(draw: st.DrawFn, ranges: Ranges) -> torch.Tensor:
    """Six numbers of any dtype, and a range in which they are known to lie."""
    dtype = draw(st.sampled_from(DTYPES))
    low, high = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    some = st.integers(-4, 4) | st.sampled_from([low, high, 44, 90, 127, 128, 255, 256, 300])
    near = some.filter(lambda number: low <= number <= high)
    numbers = draw(st.lists(near, min_size=1, max_size=2))
    tensor = torch.tensor((numbers * 6)[:6], dtype=dtype)
    bounds = [*numbers, *draw(st.lists(near, max_size=2))]
    ranges._known[tensor] = ValueRanges(min(bounds), max(bounds))
    return tensor


NUMBERS = (
    st.booleans()
    | st.integers(-5, 7)
    | st.sampled_from([-300, -200, -129, 127, 128, 200, 255, 256, 2**31])
)


@pytest.mark.parametrize("source", OPERATORS.values(), ids=OPERATORS.keys())
def test_what_tensors_hold_lies_in_their_range(source: str) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        ranges = Ranges()
        names: dict[str, Any] = {
            "x": data.draw(tensors(ranges), "x"),
            "y": data.draw(tensors(ranges), "y"),
            "n": data.draw(NUMBERS, "n"),
            "m": data.draw(NUMBERS, "m"),
            "torch": torch,
        }
        for expression in ast_parts(source):
            with Watch(ranges):
                try:
                    eval(expression, dict(names))
                except (RuntimeError, TypeError, ZeroDivisionError):
                    pass  # eager raises: there is no result to be wrong about

    holds()


def ast_parts(source: str) -> list[str]:
    parts = ast.parse(f"[{source}]", mode="eval").body
    assert isinstance(parts, ast.List)
    return [ast.unparse(part) for part in parts.elts]


def test_every_operator_of_the_table_was_run() -> None:
    names: dict[str, Any] = {"torch": torch, "n": 1, "m": 2}
    with Watch(Ranges()) as watch:
        for expression in ast_parts(", ".join(OPERATORS.values())):
            x = torch.arange(1, 7)
            eval(expression, names | {"x": x, "y": x + 0})
    assert set(RULES) - watch.seen - COMPOSITE - NOT_OF_INTEGERS == set()


def test_positions_of_a_symbolic_size_that_a_dtype_may_not_hold() -> None:
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        size = torch.empty(9).nonzero().shape[0]
        ranges = Ranges()

        with Note(ranges):
            whole = torch.arange(size)
            narrow = whole.to(torch.int8)
            joined = torch.cat([whole, whole])
            more = whole + 1
        assert ranges.is_within(whole, 0, size)
        assert ranges.is_within(joined[1:], 0, size) is False  # not seen: outside of `Note`
        assert ranges.is_within(joined, 0, size)
        assert not ranges.is_within(narrow, 0, size)
        assert ranges.of(narrow).lower == -128
        assert not ranges.is_within(more, 0, size)
        assert ranges.is_within(more, 1, 2**63)


@pytest.mark.parametrize(
    "source",
    [
        "torch.maximum(torch.full((3,), 4, dtype=torch.uint8), torch.full((), -1))",
        "torch.minimum(torch.full((3,), 90, dtype=torch.int8), torch.full((), 300))",
        "torch.full((3,), -3, dtype=torch.int8) % 128",
        "torch.full((3,), 44, dtype=torch.int8) == torch.full((), 300)",
        "torch.full((3,), 44, dtype=torch.int8) < torch.full((), 300)",
        "torch.full((3,), 90, dtype=torch.uint8).clamp(min=-1)",
        "torch.full((3,), 90, dtype=torch.uint8).clamp_min(-1)",
        "torch.full((3,), 90).clamp(max=True), torch.full((3,), 90).clamp(min=False)",
    ],
)
def test_operand_that_the_kernel_makes_another_number(source: str) -> None:
    with Watch(Ranges()) as watch:
        eval(source)
    assert watch.seen


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3), (-(2**63), -(2**63)), ([7], 7), (True, 1), (0.5, None), (1j, None), ([], None)],
)
def test_constants(value: Any, number: int | None) -> None:
    with FakeTensorMode():
        tensor = torch.tensor(value)
    assert Ranges().number_in(tensor) == number
    assert number is None or torch.tensor(value).tolist() in (number, [number])


def test_constant_without_elements() -> None:
    with FakeTensorMode():
        empty = torch.tensor([], dtype=torch.int64)
    assert Ranges().of(empty) == ValueRanges(-(2**63), 2**63 - 1)


class Ask(Note):  # type: ignore[no-untyped-call]
    """Asks of each operator that takes indices whether they are in bounds, before it runs."""

    def __init__(self) -> None:
        super().__init__(Ranges())
        self.answers: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        record = OpRecord(func, tuple(args), kwargs or {}, None)
        if record.name.strip("_") in ops.INDEXING:
            try:
                self.answers.append(self.ranges.are_within(record))
            except Exception as error:
                raise AssertionError(record) from error
        return super().__torch_dispatch__(func, types, args, kwargs)


CUBE, SCALAR = torch.zeros(2, 9, 3), torch.tensor(5.0)
MASK = torch.ones(2, 9, dtype=torch.bool)
INDICES = {
    "after a mask": ("CUBE[MASK, torch.arange(2, 3)]", "CUBE[MASK, torch.arange(8, 9)]"),
    "after a mask of bytes": (
        "CUBE[MASK.byte(), torch.arange(2, 3)]",
        "CUBE[MASK.byte(), torch.arange(8, 9)]",
    ),
    "before a mask": ("CUBE[torch.arange(1, 2), MASK[0]]", "CUBE[torch.arange(2, 3), MASK[0]]"),
    "negative": ("CUBE[torch.arange(-2, 2)]", "CUBE[torch.arange(-3, 2)]"),
    "none of them": ("CUBE[torch.empty(0, dtype=torch.int64)]", "CUBE[torch.arange(3)]"),
    "second dimension": ("CUBE[:, torch.arange(9)]", "CUBE[:, torch.arange(10)]"),
    "of a number": ("", "SCALAR.gather(0, torch.tensor(1))"),
}


@pytest.mark.parametrize(("good", "bad"), INDICES.values(), ids=INDICES.keys())
def test_indices_that_are_known_to_be_in_bounds(good: str, bad: str) -> None:
    with Ask() as ask:
        eval(good or "None")
        with pytest.raises((IndexError, RuntimeError)):
            eval(bad)
    assert ask.answers == [True, False][not good :]


def test_indices_into_a_size_that_is_a_symbol() -> None:
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        size = torch.empty(9).nonzero().shape[0]
        table = torch.empty(size, 3)
        with Ask() as ask:
            table[torch.arange(size)]
            table[torch.arange(1, size)]
            table[torch.arange(9)]
            table[torch.arange(size) - 1]  # which counts from the end
    assert ask.answers == [True, True, False, False]


def test_a_constant_of_which_torch_knows_no_least() -> None:
    with FakeTensorMode():
        constant = torch.tensor(3, dtype=torch.uint64)
    assert Ranges().of(constant) == ValueRanges(0, 2**64 - 1)


def test_an_operator_of_another_library_with_a_known_name() -> None:
    library = torch.library.Library("gm_ranges", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("zeros_like(Tensor x) -> Tensor")
    library.impl("zeros_like", lambda x: x + 7, "CompositeExplicitAutograd")
    x, ranges = torch.arange(1), Ranges()
    result = torch.ops.gm_ranges.zeros_like(x)
    ranges.note(OpRecord(torch.ops.gm_ranges.zeros_like.default, (x,), {}, result))
    assert result.item() == 7
    assert ranges.of(result).upper >= 7
