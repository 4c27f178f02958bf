"""Copies of a source in which one check is weaker, or another, than it was written."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

NAMES_THAT_REFUSE = frozenset(
    {
        *("CHECKING", "INDEXING", "TOTAL_ON_FLOATS", "UNIFORM"),
        *("_CHANGE_MORE_THAN_VALUES", "_SWITCHES", "_TELL_CHOICES_APART", "_OF_ONE_TENSOR"),
    }
)
"""Sets of names for each of which something is not allowed."""

_NEIGHBOURS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "<=",
    ast.NotEq: ">",
}
Edit: TypeAlias = tuple[ast.expr | ast.stmt, str, str]  # what is replaced, by what, and in words


@dataclass(frozen=True, slots=True)
class Mutant:
    """A source with one change.

    Attributes:
        function: the qualified name of the function that is changed; of the set, outside of all.
        line: of the change.
        change: what became of what, with a number where it does so in several places.
        source: all of it.
    """

    function: str
    line: int
    change: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """All weaker copies of a source, one by one, in the order of their lines.

    Conditions become true and false, operands of `and` and `or` are left out, bounds move by one,
    exceptions are not raised, results `True` and `False` change places, and each name is left out
    of a set of `NAMES_THAT_REFUSE`.

    Args:
        source: of a module.

    Example:
        `return a and b` gives `return a` and `return b`.
    """
    seen = Counter[tuple[str, str]]()
    for function, node in _named(ast.parse(source), ""):
        for replaced, text, change in _edits(node):
            seen[function, change] += 1
            times = seen[function, change]
            words = f"{change}, time {times}" if times > 1 else change
            yield Mutant(function, replaced.lineno, words, _replace(source, replaced, text))


def _named(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.AST]]:
    """Each node with the qualified name of the outermost function that it is in, or of the set."""
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and not isinstance(
            node, ast.FunctionDef
        ):
            name = f"{inside}.{child.name}".lstrip(".")
        elif not inside and isinstance(child, (ast.Assign, ast.AnnAssign)):
            name = ast.unparse(
                child.target if isinstance(child, ast.AnnAssign) else child.targets[0]
            )
            if name in NAMES_THAT_REFUSE and child.value is not None:
                yield from ((name, each) for each in _names(child.value))
        yield name, child
        yield from _named(child, name)


class _LeftOut(ast.Constant):
    """A name that is to be left out of a set."""


def _names(value: ast.expr) -> Iterator[ast.AST]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield ast.copy_location(_LeftOut(node.value), node)


def _edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case _LeftOut():
            yield node, "''", f"without {node.value!r}"
        case ast.If(test=test) | ast.IfExp(test=test):
            for value in ("True", "False"):
                yield test, value, f"{_short(test)} -> {value}"
        case ast.Raise():
            yield node, "pass", f"{_short(node)} -> pass"
        case ast.Return(value=ast.Constant(value=bool() as value) as constant):
            yield constant, str(not value), f"return {value} -> return {not value}"
        case ast.BoolOp(values=values):
            for left_out in values:
                kept = [f"({ast.unparse(value)})" for value in values if value is not left_out]
                joint = " and " if isinstance(node.op, ast.And) else " or "
                yield node, f"({joint.join(kept)})", f"{_short(node)} without {_short(left_out)}"
        case ast.Compare(comparators=[ast.Constant(value=str())]):
            return  # names have no neighbours
        case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _NEIGHBOURS:
            text = f"{ast.unparse(left)} {_NEIGHBOURS[type(op)]} {ast.unparse(right)}"
            yield node, f"({text})", f"{_short(node)} -> {_shortened(text)}"


def _short(node: ast.AST) -> str:
    return _shortened(ast.unparse(node))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def _replace(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """The source with other text for a node; all that follows stays on its line."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    newlines = b"\\\n" * (last - first)
    changed = [*lines[:first], head + text.encode() + b" " + newlines + tail, *lines[last + 1 :]]
    return b"".join(changed).decode()
