"""Little programs with marks, so that an answer about blocks fits in a line.

A statement that is just a capital name, like `A`, marks the block it is in: it compiles to a load and a pop
on every version. Answers speak of marks, as block numbers differ between versions:

    check_parents(immediate_dominators, '''
    def f(c):
        A
        if c:
            B
        C
    ''', "B<A C<A")
"""

from __future__ import annotations

import sys
import sysconfig
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphmend_bc.code.analysis.blocks import EXIT, Graph, build
from graphmend_bc.code.assemble import assemble, relist
from graphmend_bc.code.header import Header
from graphmend_bc.code.listing import decode


def function(source: str, **names: Any) -> FunctionType:
    """The last function that a program defines at its top."""
    space: dict[str, Any] = {**names}
    exec(compile(textwrap.dedent(source), "<program>", "exec", dont_inherit=True), space)
    made = [value for value in space.values() if isinstance(value, FunctionType)]
    return made[-1]


def graph_of(source: str) -> Graph:
    return build(decode(function(source).__code__))


def mark_ops(graph: Graph) -> dict[str, int]:
    """Index of the op that loads it, by mark, in alphabetical order."""
    found = {}
    for op in graph.listing.ops:
        name = op.arg[1] if op.name == "LOAD_GLOBAL" else None
        if isinstance(name, str) and len(name) == 1 and name.isupper():
            assert name not in found, f"mark {name} compiled to two places"
            found[name] = op.index
    return dict(sorted(found.items()))


def marks(graph: Graph) -> dict[str, int]:
    """Block index by mark."""
    return {name: graph.block_of(index).index for name, index in mark_ops(graph).items()}


def nearest_marks(graph: Graph, parents: Mapping[int, int | None]) -> str:
    """For each mark, the nearest other mark up a tree of blocks: "B<A C<A"; "end" stands for EXIT."""
    name_of = {block: name for name, block in marks(graph).items()}
    answers = []
    for name, block in sorted(marks(graph).items()):
        current = parents[block]
        while current is not None and current != EXIT and current not in name_of:
            current = parents[current]
        if current is not None:
            answers.append(f"{name}<{'end' if current == EXIT else name_of[current]}")
    return " ".join(answers)


def check_parents(
    analysis: Callable[[Graph], Mapping[int, int | None]], source: str, want: str
) -> None:
    graph = graph_of(source)
    assert nearest_marks(graph, analysis(graph)) == want


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and all those in its constants."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from codes_in(value)


def reassembled(code: CodeType) -> CodeType:
    """A code object and all those in its constants, assembled again from their ops."""
    code = assemble(Header.of(code), relist(decode(code))).code
    inner = [reassembled(v) if isinstance(v, CodeType) else v for v in code.co_consts]
    return code.replace(co_consts=tuple(inner))


def standard_library(*, every: int) -> Iterator[CodeType]:
    """All code objects of every n-th module of the standard library, its tests included."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = [path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts]
    return _compiled(files[::every])


def installed_packages(*, every: int) -> Iterator[CodeType]:
    """All code objects of every n-th module of what is installed beside torch, and of torch."""
    root = Path(sysconfig.get_paths()["purelib"])
    return _compiled(sorted(root.rglob("*.py"))[::every])


def _compiled(files: Iterable[Path]) -> Iterator[CodeType]:
    for path in files:
        try:
            with tokenize.open(path) as file, warnings.catch_warnings(action="ignore"):
                module = compile(file.read(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue  # made to be wrong, for tests of the compiler, or a template
        yield from codes_in(module)


def observe(call: Callable[[], Any]) -> tuple[str, Any]:
    """How a call ends: what it returns, or the type and arguments of what it raises."""
    try:
        return "returned", call()
    except Exception as error:
        return "raised", (type(error), error.args)


Seen = Callable[[int, FrameType], None]


def trace_ops(call: Callable[[], Any], code: CodeType, seen: Seen) -> None:
    """Run a call; tell byte offset and frame before each instruction of a code object's frames."""
    (_monitor if hasattr(sys, "monitoring") else _trace)(call, code, seen)


def _monitor(call: Callable[[], Any], code: CodeType, seen: Seen) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, event = monitoring.DEBUGGER_ID, monitoring.events.INSTRUCTION
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, event, lambda _, offset: seen(offset, sys._getframe(1)))
    monitoring.set_local_events(tool, code, event)
    try:
        call()
    finally:
        monitoring.set_local_events(tool, code, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


def _trace(call: Callable[[], Any], code: CodeType, seen: Seen) -> None:
    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode":
            seen(frame.f_lasti, frame)
        return local

    def start(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        return local

    before = sys.gettrace()
    sys.settrace(start)
    try:
        call()
    finally:
        sys.settrace(before)
