"""Bytecode as text, as it was before and after a rewrite. It keeps no code object alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import CodeType
from typing import Any, Final

from bytecode.instr import UNSET, CellVar, FreeVar

from graphmend_bc.code.analysis.blocks import Block, Graph, build, reachable
from graphmend_bc.code.listing import Op, decode
from graphmend_bc.runtime.code_id import CodeId, identity_of
from graphmend_bc.runtime.primitives import Primitive

_MOST_OPS: Final = 2000
"""Instructions of a code object whose text is kept; of a longer one there is none."""

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(...))
"""Types of constants whose `repr` runs no code of the program's."""

_MOST_BITS: Final = 4096
"""Of an int that is shown; Python refuses to write much longer ones."""

_WIDTH: Final = 48
"""Characters of a constant that are shown."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        offset: its byte offset.
        line: of the source; 0 if it is not known.
        text: its name and argument. A jump names the block it goes to.
        key: the text without the block, by which two codes are compared.
    """

    offset: int
    line: int
    text: str
    key: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way out of a block.

    Attributes:
        target: the index of the block that follows.
        kind: "next", "jump" or "raise".
    """

    target: int
    kind: str


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """A run of instructions that is entered at its first and left at its last.

    Attributes:
        index: its place in the code.
        instructions: in their order.
        ways: out of it.
    """

    index: int
    instructions: tuple[Instruction, ...]
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class CodeText:
    """A code object as text.

    Attributes:
        name: the qualified name of the function.
        blocks: those that control may reach; none if the code is too long to be kept.
        size: how many instructions it has.
    """

    name: str
    blocks: tuple[BasicBlock, ...]
    size: int

    @property
    def instructions(self) -> list[Instruction]:
        """Of all blocks, in the order of the code."""
        return [one for block in self.blocks for one in block.instructions]


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A code object before and after a rewrite; both are the same if it is mended as it is.

    Attributes:
        code: which function it is.
        filename, lineno: where the function begins.
        before: as CPython compiled it.
        after: as Dynamo traced it.
        arms: the functions that were made of parts of it.
    """

    code: CodeId
    filename: str
    lineno: int
    before: CodeText
    after: CodeText
    arms: tuple[CodeText, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """False if Dynamo traced the code as CPython compiled it."""
        return self.before != self.after

    @classmethod
    def of(cls, code: CodeType, written: CodeType) -> CodeChange:
        """The change from a code object to what was written in its place.

        Args:
            code: the original.
            written: the rewritten code.
        """
        old = {constant for constant in code.co_consts if isinstance(constant, CodeType)}
        return cls(
            identity_of(code),
            code.co_filename,
            code.co_firstlineno,
            text_of(code),
            text_of(written),
            tuple(text_of(arm) for arm in _new_functions(written, old)),
        )


@dataclass(slots=True)
class Rewritten:
    """A code object in which something was mended. It becomes text when somebody asks for it.

    Attributes:
        code: which function it is.
        codes: gives the original and what was written in its place; None once they are gone.
        _change: the text, once it was asked for.
    """

    code: CodeId
    codes: Callable[[], tuple[CodeType, CodeType] | None]
    _change: CodeChange | None = None

    @classmethod
    def of(cls, change: CodeChange) -> Rewritten:
        """What is text already.

        Args:
            change: the text.
        """
        return cls(change.code, _gone, change)

    @property
    def change(self) -> CodeChange | None:
        """Both codes as text; None if the program has the original no more."""
        if self._change is None and (codes := self.codes()) is not None:
            self._change = CodeChange.of(*codes)
        return self._change

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has the text, as that has no codes."""
        return Rewritten, (self.code, _gone, self.change)


def _gone() -> None:
    """What is left of codes in another process."""


def text_of(code: CodeType) -> CodeText:
    """A code object as text.

    Args:
        code: any code object.

    Example:
        >>> [block.index for block in text_of((lambda x: 1 if x else 2).__code__).blocks]
        [0, 1, 2]
    """
    graph = build(decode(code))
    size = len(graph.listing.ops)
    if size > _MOST_OPS:
        return CodeText(code.co_qualname, (), size)
    reached = reachable.__wrapped__(graph)  # what is kept would keep the code alive
    alive = [block for block in graph.blocks if block.index in reached]
    places = {block.index: place for place, block in enumerate(alive)}
    return CodeText(code.co_qualname, tuple(_block(graph, b, places) for b in alive), size)


def _new_functions(written: CodeType, old: set[CodeType]) -> Iterator[CodeType]:
    for constant in written.co_consts:
        if isinstance(constant, CodeType) and constant not in old:
            yield constant
            yield from _new_functions(constant, old)


def _block(graph: Graph, block: Block, places: dict[int, int]) -> BasicBlock:
    ways = [Way(places[e.target], "jump" if e.jump else "next") for e in block.successors]
    if block.handler is not None:
        ways.append(Way(places[block.handler], "raise"))
    shown = tuple(_instruction(op, graph, places) for op in graph.ops(block) if op.name != "CACHE")
    return BasicBlock(places[block.index], shown, tuple(ways))


def _instruction(op: Op, graph: Graph, places: dict[int, int]) -> Instruction:
    line = (op.location.lineno if op.location is not None else None) or 0
    key = f"{op.name} {_argument(op)}".rstrip()
    text = key
    if op.target is not None:
        place = places.get(graph.block_of(op.target).index)
        text = key if place is None else f"{key} to b{place}"
    return Instruction(op.offset, line, text, key)


def _argument(op: Op) -> str:
    arg = op.arg
    if arg is UNSET:
        return ""
    if op.name in ("LOAD_CONST", "RETURN_CONST", "KW_NAMES", "LOAD_SMALL_INT"):
        return _constant(arg)
    if isinstance(arg, tuple):
        return ", ".join(map(_name, arg))
    return _name(arg)


def _name(arg: Any) -> str:
    if isinstance(arg, (CellVar, FreeVar)):
        return str(arg.name)
    return arg.name if isinstance(arg, Enum) else str(arg)


def _constant(value: object) -> str:
    if isinstance(value, Primitive):
        return f"<{type(value).__name__} for line {value.site.lineno}>"
    if isinstance(value, CodeType):
        return f"<code of {value.co_name}>"
    parts = value if isinstance(value, (tuple, frozenset)) else (value,)
    if not all(type(part) in _PLAIN for part in parts):
        return f"<{type(value).__name__}>"
    if any(isinstance(part, int) and part.bit_length() > _MOST_BITS for part in parts):
        return "<a large int>"
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
