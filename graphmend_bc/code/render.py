"""A short text of a code object, for people and for tests.

It is the same on all versions of CPython where their compilers make the same blocks: for branches,
`for` loops, calls and closures, but not for `with` and exception handlers, nor for ends of four ops
or fewer, of which 3.12 and later give each way in a copy of its own, nor for `while` loops, which
3.14 tests in one place. Blocks that do nothing are left out, and a
block is joined to the one before if that leads to nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import CodeType

from graphmend_bc.code.analysis.blocks import EXIT, Block, Graph, build, predecessors, reachable
from graphmend_bc.code.analysis.liveness import cell_names
from graphmend_bc.code.analysis.loops import loops
from graphmend_bc.code.analysis.regions import region_of
from graphmend_bc.code.header import argument_names
from graphmend_bc.code.listing import Op, decode
from graphmend_bc.code.pseudo import pseudo


def render(code: CodeType) -> str:
    """Blocks with their ops in words, then regions and loops.

    Args:
        code: a code object.

    Returns:
        Lines without a newline at the end.

    Example:
        For a function that does `if x: return 1`, then `return 2`:

            f(x)
            b0
              load x
              branch: b1 if true, b2 if false
            b1
              const 1
              return
            b2
              const 2
              return
            region b0 to the end: b1 | b2
    """
    return "\n".join(_Picture(build(decode(code))).lines())


class _Picture:
    """One graph with its blocks renamed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.alive = reachable(graph)
        self.sources = predecessors(graph, exceptional=False)
        self.handlers = {graph.blocks[index].handler for index in self.alive}
        self.words = self._words()
        self.heads: list[int] = []
        self.names = self._names()

    def lines(self) -> Iterator[str]:
        code = self.graph.listing.code
        yield f"{code.co_name}({', '.join(argument_names(code))})"
        for head in self.heads:
            chain = list(self._chain(head))
            handler = self._handler(self.graph.blocks[head])
            name = self.names[head]
            yield name if handler is None else f"{name}, raising to {self._name(handler)}"
            for index in chain:
                yield from (f"  {word}" for word in self.words[index])
            yield from (f"  {line}" for line in self._way_on(self.graph.blocks[chain[-1]]))
        yield from self._region_lines()
        for loop in loops(self.graph):
            yield f"loop {self._name(loop.header)}: {self._set(loop.body)}"

    def _words(self) -> dict[int, list[str]]:
        cells = cell_names(self.graph)
        words = {i: pseudo(self.graph.ops(self.graph.blocks[i]), cells) for i in self.alive}
        for index in self.alive:
            # 3.11 does in one op what others do in three: copy, test, pop where it falls through.
            block = self.graph.blocks[index]
            if self.graph.last(block).name.endswith("OR_POP"):
                words[index].append("copy 1")
                words[block.successors[0].target].insert(0, "pop")
        return words

    def _past_empty(self, index: int) -> int:
        """The first block from here that does something."""
        seen = {index}
        while not self.words[index]:
            edges = self.graph.blocks[index].successors
            if len(edges) != 1 or edges[0].target in seen:
                break
            index = edges[0].target
            seen.add(index)
        return index

    def _targets(self, block: Block) -> list[tuple[str, int]]:
        """The ways on, each with the case in which it is taken; the affirmative case first."""
        last = self.graph.last(block)
        ways = [(edge.jump, self._past_empty(edge.target)) for edge in block.successors]
        if len(ways) == 1:
            return [("", ways[0][1])]
        cases = [(_case(last, jump=jump), target) for jump, target in ways]
        return sorted(cases, key=lambda case: _ORDER.index(case[0]))

    def _sole_follower(self, index: int) -> int | None:
        """The block joined to this one: its only successor, entered from nowhere else."""
        block = self.graph.blocks[index]
        if len(block.successors) != 1:
            return None
        follower = block.successors[0].target
        joined = (
            len(self.sources[follower]) == 1
            and follower not in self.handlers
            and follower != 0
            and self.graph.blocks[follower].handler == block.handler
        )
        return follower if joined else None

    def _handler(self, block: Block) -> int | None:
        """A block's handler, but not that which 3.12 and later give every generator."""
        if block.handler is None or self.words[block.handler] == _OF_GENERATORS:
            return None
        return block.handler

    def _chain(self, index: int) -> Iterator[int]:
        following: int | None = index
        while following is not None:
            yield following
            following = self._sole_follower(following)

    def _names(self) -> dict[int, str]:
        """Names by block, in the order in which the ways on are listed, handlers last."""
        names: dict[int, str] = {}
        work = [self._past_empty(0)]
        while work:
            head = work.pop(0)
            if head in names:
                continue
            chain = list(self._chain(head))
            names.update(dict.fromkeys(chain, f"b{len(self.heads)}"))
            self.heads.append(head)
            last = self.graph.blocks[chain[-1]]
            work[:0] = [target for _, target in self._targets(last)] if last.successors else []
            handler = self._handler(self.graph.blocks[head])
            work += [] if handler is None else [self._past_empty(handler)]
        return names

    def _name(self, index: int) -> str:
        return "the end" if index == EXIT else self.names[self._past_empty(index)]

    def _set(self, blocks: Iterable[int]) -> str:
        names = {self.names[index] for index in blocks if index in self.names}
        return " ".join(sorted(names, key=lambda name: int(name[1:]))) or "nothing"

    def _way_on(self, block: Block) -> Iterator[str]:
        if not block.successors:
            return
        targets = self._targets(block)
        if len(targets) == 1:
            yield f"go to {self._name(targets[0][1])}"
        else:
            ways = ", ".join(f"{self._name(target)} if {case}" for case, target in targets)
            yield f"branch: {ways}"

    def _region_lines(self) -> Iterator[str]:
        found: Mapping[str, str] = {
            self.names[index]: self._region_line(index)
            for index in self.names
            if len(self.graph.blocks[index].successors) == 2
        }
        yield from (found[name] for name in sorted(found, key=lambda name: int(name[1:])))

    def _region_line(self, index: int) -> str:
        region = region_of(self.graph, index)
        last = self.graph.last(self.graph.blocks[index])
        arms = sorted(
            region.arms, key=lambda arm: _ORDER.index(_case(last, jump=arm.taken_by_jump))
        )
        sides = " | ".join(self._set(arm.blocks) for arm in arms)
        return f"region {self.names[index]} to {self._name(region.join)}: {sides}"


_OF_GENERATORS = ["stopiteration error", "reraise"]

_ORDER = ("true", "None", "a value comes", "false", "not None", "none is left")


def _case(last: Op, *, jump: bool) -> str:
    """When a conditional jump goes this way."""
    if last.name in ("FOR_ITER", "SEND"):
        return "none is left" if jump else "a value comes"
    if "NONE" in last.name:
        return "not None" if jump == ("NOT_NONE" in last.name) else "None"
    return "true" if jump == ("IF_TRUE" in last.name) else "false"
