"""What in a function looks like a graph break. A heuristic: nothing knows what is a tensor here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphmend_bc.scanning.instructions import Code, Instruction

_ASKED = frozenset(
    {"all", "allclose", "any", "equal", "isfinite", "isinf", "isnan", "isneginf", "isposinf"}
    | {"item", "max", "mean", "min", "norm", "sum"}
)
"""Methods of tensors, and functions of torch, that are asked for a truth value most often."""

_NO_TENSORS = frozenset({"np", "numpy", "math", "os", "pd", "random"})
_IDENTITY = frozenset({"is", "is not", "is-not", "in", "not in", "not-in"})
_LEVELS = frozenset({"critical", "debug", "error", "exception", "info", "log", "warn", "warning"})
_READS = frozenset({"item", "numpy", "tolist"})
_SIZES = frozenset({"masked_select", "nonzero", "unique", "unique_consecutive"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_SILENT = frozenset({"CACHE", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME"})

STRATEGIES = {
    "if": ("where", "cond", "speculate"),
    "while": ("while_loop", "hoist", "speculate"),
    "assert": ("speculate",),
    "read": ("capture", "hoist"),
    "size": ("capture", "hoist"),
    "print": ("defer",),
    "log": ("defer",),
    "breakpoint": (),
}
"""What mending tries for each kind, the cheapest first; nothing where it declines."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place that looks like a graph break.

    Attributes:
        line: where it is.
        function: the function's name, behind the names around it.
        kind: a key of `STRATEGIES`.
        what: the name that gives it away, such as `sum` or `print`.
    """

    line: int
    function: str
    kind: str
    what: str

    @property
    def strategies(self) -> tuple[str, ...]:
        return STRATEGIES[self.kind]


def suspects(codes: Sequence[Code]) -> list[Suspect]:
    """Likely graph breaks of a file, none if it does not import torch.

    Args:
        codes: the file's code objects.

    Returns:
        One for each line, function and kind, by line. A value that is read for a condition counts
        as the condition only.
    """
    if not any(_imports_torch(code) for code in codes):
        return []
    found: dict[tuple[int, str, str], Suspect] = {}
    for code in codes:
        if code.is_function:
            for one in [*_conditions(code), *_calls(code)]:
                found.setdefault((one.line, one.function, one.kind), one)
    asked = {(line, name) for line, name, kind in found if kind in ("if", "while", "assert")}
    kept = [s for s in found.values() if s.kind != "read" or (s.line, s.function) not in asked]
    return sorted(kept, key=lambda one: (one.line, one.function, one.kind))


def _imports_torch(code: Code) -> bool:
    return any(
        op.opname == "IMPORT_NAME" and op.name.partition(".")[0] == "torch"
        for op in code.instructions
    )


def _conditions(code: Code) -> Iterator[Suspect]:
    ops = [op for op in code.instructions if op.opname not in _SILENT]
    whiles = _while_lines(ops)
    for index, op in enumerate(ops):
        what = _asked_before(ops, index) if _is_conditional(op) else ""
        if not what:
            continue
        kind = "while" if op.line in whiles else "if"
        after = ops[index + 1] if index + 1 < len(ops) else op
        if after.opname == "LOAD_ASSERTION_ERROR" or after.name == "AssertionError":
            kind = "assert"
        yield Suspect(op.line, code.name, kind, what)


def _is_conditional(op: Instruction) -> bool:
    return op.target >= 0 and "IF_" in op.opname and "NONE" not in op.opname


def _asked_before(ops: Sequence[Instruction], jump: int) -> str:
    """The reduction in the statement that ends at a jump; empty if there is none."""
    test = ops[jump - 1]
    if test.opname in ("IS_OP", "CONTAINS_OP") or test.name in _IDENTITY:
        return ""
    for index in range(jump - 1, 0, -1):
        op = ops[index]
        if op.opname.startswith("STORE_") or op.opname == "POP_TOP" or op.target >= 0:
            return ""
        tensor = ops[index - 1].name not in _NO_TENSORS
        if op.opname in _ATTRIBUTES and op.name in _ASKED and tensor:
            return op.name
    return ""


def _while_lines(ops: Sequence[Instruction]) -> frozenset[int]:
    """Lines of the conditions of `while`: a jump leads back to them, or from them to the body."""
    lines = {op.offset: op.line for op in ops}
    found = set()
    for op in ops:
        if 0 <= op.target < op.offset and op.target in lines:
            header = lines[op.target]
            if header > op.line:
                found.add(op.line)
            elif not _is_conditional(op):
                found.add(header)
    fors = {op.line for op in ops if op.opname == "FOR_ITER"}
    return frozenset(found - fors)


def _calls(code: Code) -> Iterator[Suspect]:
    ops = [op for op in code.instructions if op.opname not in _SILENT]
    for before, op, after in zip([ops[0], *ops], ops, [*ops[1:], ops[-1]], strict=False):
        kind = ""
        if op.opname in _GLOBALS and op.name in ("breakpoint", "print"):
            kind = op.name
        elif op.opname in _ATTRIBUTES:
            kind = _kind_of_method(before, op, after)
        if kind:
            yield Suspect(op.line, code.name, kind, op.name)


def _kind_of_method(before: Instruction, op: Instruction, after: Instruction) -> str:
    if op.name in _LEVELS and ("log" in before.name.lower() or before.name == "warnings"):
        return "log"
    if before.name in _NO_TENSORS:
        return ""
    if op.name in _READS and after.opname.startswith("CALL"):
        return "read"
    return "size" if op.name in _SIZES else ""
