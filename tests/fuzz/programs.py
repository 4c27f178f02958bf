"""Generated programs: a function `f(x, y, z, k)`, what it uses, and the calls to make."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from tests.fuzz import aliases
from tests.fuzz.expressions import fill
from tests.fuzz.grammar import GROUPS, RARE_GROUPS
from tests.fuzz.scope import Scope
from tests.fuzz.statements import block

_NONE = frozenset[str]()


@dataclass(frozen=True)
class Program:
    """A program and how it is called.

    Attributes:
        source: a module that defines `f`.
        calls: the arguments of each call, as the text of a tuple.
        backend: for `torch.compile`.
        grad: run a backward pass from what `f` returns.
        way: how it is called, a key of `tests.fuzz.ways.WAYS`.
    """

    source: str
    calls: tuple[str, ...]
    backend: str
    grad: bool
    way: str = "in turn"

    def arguments(self) -> list[tuple[Any, ...]]:
        """The arguments of each call."""
        return [eval(call, {"torch": torch, "nan": float("nan")}) for call in self.calls]

    @property
    def changes(self) -> bool:
        """Whether the surroundings change between the calls."""
        return "\ndef change(number):" in self.source

    @property
    def ends_objects(self) -> bool:
        """Whether objects with finalisers are made: rewritten code ends those of an arm with the arm.

        No such function is mended; see docs/semantics.md.
        """
        return "class Ends" in self.source

    def test(self, name: str = "test_found") -> str:
        """A test of the program, ready to be pasted into a file of tests."""
        source = textwrap.indent(self.source, " " * 8).rstrip()
        calls = "".join(f"\n            {call}," for call in self.calls)
        return (
            f'def {name}() -> None:\n    nan = float("nan")\n    check(\n        """\n{source}\n        """,\n'
            f"        [{calls}\n        ],\n        mends=None,\n        declines=None,\n        breaks=None,\n"
            f'        orders=1,\n        backend="{self.backend}",\n        grad={self.grad},\n    )\n'
        )


PRELUDE = {
    "contextlib": "import contextlib",
    "math": "import math",
    "logger": 'logger = logging.getLogger("program")\nlogger.setLevel(logging.INFO)',
    "told": "def told(value, name='first'):\n    print(name)\n    return value",
    "Truth": (
        "class Truth:\n    def __init__(self, value):\n        self.value = value\n\n"
        "    def __bool__(self):\n        print('truth')\n        return bool(self.value)"
    ),
    "items": "items = []",
    "store": "store = {}",
    "Trouble": "class Trouble(Exception):\n    pass",
    "Noted": (
        "class Noted:\n    def __enter__(self):\n        items.append('in')\n\n"
        "    def __exit__(self, kind, error, trace):\n        items.append(kind is None)"
    ),
    "box": (
        "class Box:\n    count = 0\n    value = torch.ones(3)\n\n    def twice(self, x):\n"
        "        if x.sum() > self.count:\n            self.value = x * 2\n        return self.value + x\n\n"
        "box = Box()"
    ),
}
"""What the forms of the grammar name; a program has the parts that it uses."""


def backends() -> st.SearchStrategy[str]:
    """A name for `torch.compile`, or rarely one that AOTAutograd is in."""
    return st.sampled_from(["eager"] * 7 + ["aot_eager"])


@st.composite
def programs(draw: Any, also: frozenset[str] = _NONE, but: frozenset[str] = _NONE) -> Program:
    """Programs, from an empty function up to some fifty lines.

    Args:
        also: groups of forms that a program certainly has.
        but: groups that it has not.
    """
    groups = {group for group in GROUPS if draw(st.booleans())}
    groups |= {group for group in RARE_GROUPS if draw(st.integers(0, 3)) == 3}
    groups = (groups | also) - but
    grad = "gradients" in groups
    if grad and draw(st.integers(0, 3)) > 0:  # else backward refuses most programs
        groups -= {"in place"}
    shared = Scope(frozenset(groups), set())
    parts: list[str] = []
    if "calls" in groups:
        parts.append(draw(function("def helper(x, k=2):", "xk", groups - {"calls"}, shared)))
    if "net" in groups:
        parts.append(_NET + textwrap.indent(
            draw(function("def forward(self, x):", "x", groups - {"calls", "net"}, shared)),
            "    ",
        ) + "\nnet = Net()")  # fmt: skip
    names = "xyzka" if aliases.GROUP in groups else "xyzk"
    header = f"def f({', '.join(names)}):"
    parts.append(draw(function(header, names, groups, shared, 6)))
    source = module_of("\n".join(parts))
    if grad and groups & {"in place", aliases.GROUP}:  # a leaf with a gradient must not be written
        source = source.replace(header, f"{header}\n    x, y = (x * 1, y * 1)")
    return Program(source + "\n", draw(_calls(groups, grad)), draw(backends()), grad)


def module_of(text: str) -> str:
    """The text of a module, with what it names of `PRELUDE` before it."""
    needed = [part for name, part in PRELUDE.items() if re.search(rf"(?<!\.)\b{name}\b", text)]
    if "items" in "".join(needed) and PRELUDE["items"] not in needed:
        needed.insert(0, PRELUDE["items"])
    return ast.unparse(ast.parse("\n".join([*needed, text])))


_NET = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.weight = nn.Parameter(torch.ones(3))\n"
    "        self.register_buffer('seen', torch.zeros(3))\n"
    "        self.norm, self.count = nn.BatchNorm1d(3), 0\n\n"
)


@st.composite
def function(
    draw: Any, header: str, parameters: str, groups: set[str], shared: Scope, most: int = 2
) -> str:
    is_f = most > 2
    scope = shared.inner(
        groups=frozenset(groups),
        bound=set(parameters),
        assigned=set(),
        depth=3 if is_f else 1,
        gives_vector=not is_f,
    )
    scope.bound |= set("yzk")
    lines: list[str] = []
    if is_f:
        for group, line in _FIRST.items():
            if group in groups:
                lines.append(f"    {line}")
                scope.bind(line[0])
    body = draw(block(scope, most=most))
    end = fill(draw, scope, draw(st.sampled_from(RETURNS if is_f else RETURNS[:1])), 1)
    lines += [*body, f"    {end}"]
    missing = [
        f"    {name} = {value}"
        for name, value in LOCALS.items()
        if name not in parameters and re.search(rf"\b{name}\b", "\n".join(lines))
    ]
    return "\n".join([header, *missing, *lines])


LOCALS = {"y": "torch.stack([x, -x])", "z": "torch.tensor([0, 1, 2])", "k": "2"}
"""What the grammar's forms want besides a vector, for functions that are given none."""


_FIRST = {"calls": "a = helper(x)", "net": "b = net(x)"}
"""So that what is defined is used."""

RETURNS = (
    "return {vector}",
    "return {vector_name}, {vector_name}",
    "return {vector_name}, {matrix_name}, {number_name}",
    "return {whole_name}, {thing}",
    "return [{vector}, {matrix}]",
)

VECTORS = (
    "[1.0, 2.0, 3.0]",
    "[-1.0, -2.0, -3.0]",
    "[0.0, 0.0, 0.0]",
    "[0.5, -0.25, 4.0]",
    "[nan, 1.0, -1.0]",
    "[30.0, -2.0, 0.125]",
)
WHOLES = ("[0, 1, 2]", "[2, 2, 0]", "[-1, 0, 5]", "[0, 0, 0]")


@st.composite
def _calls(draw: Any, groups: set[str], grad: bool) -> tuple[str, ...]:
    """Two to four calls, or ten; the first two have tensors of different signs."""
    dtype = draw(st.sampled_from(["float32", "float64", "float16"])) if "dtypes" in groups else ""
    suffix = (f", dtype=torch.{dtype}" if dtype not in ("", "float32") else "") + (
        ", requires_grad=True" if grad else ""
    )
    lengths = st.sampled_from([3, 3, 1, 2, 4]) if "lengths" in groups else st.just(3)
    vectors = draw(st.permutations(VECTORS[:2]))
    least, most = (8, 8) if "many calls" in groups else (0, 2)
    vectors += draw(st.lists(st.sampled_from(VECTORS), min_size=least, max_size=most))
    calls = []
    for vector in vectors:
        n = draw(lengths)
        vector = _of_length(vector, n)
        one, other = (_of_length(draw(st.sampled_from(VECTORS)), n) for _ in range(2))
        rows = f"[{one}, {other}]"
        whole = _of_length(draw(st.sampled_from(WHOLES)), n)
        k = draw(st.sampled_from(["2", "0.5", "-1"]))
        if aliases.GROUP in groups:
            form = draw(st.sampled_from(aliases.WITH_GRADIENT if grad else aliases.CALLS))
            tensors = (f"torch.tensor({values}{suffix})" for values in (vector, rows))
            calls.append(aliases.argument(form, *tensors, f"torch.tensor({whole})", k))
            continue
        if "shared" in groups and not grad and draw(st.booleans()):
            row = draw(st.sampled_from(["y[0]", "y[1]", "y.flatten()[1:4]"]))
            given = f"(lambda y: ({row}, y, torch.tensor({whole}), {k}))"
            calls.append(f"{given}(torch.tensor([{vector}, {vector}]{suffix}))")
            continue
        calls.append(
            f"(torch.tensor({vector}{suffix}), torch.tensor({rows}{suffix}), torch.tensor({whole}), {k})"
        )
    return tuple(calls)


def _of_length(numbers: str, n: int) -> str:
    """The text of a list, cut or continued."""
    items = numbers.strip("[]").split(", ")
    return f"[{', '.join((items * 2)[:n])}]"
