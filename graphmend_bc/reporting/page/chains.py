"""The graphs and breaks of each compiled function, one after the other, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from graphmend_bc.code.resume_names import in_words, without_resumption
from graphmend_bc.reporting.compilations import CompiledFrame
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.page.svg import CHARACTER, LINE, Picture, may_draw, shortened
from graphmend_bc.runtime.code_id import CodeId
from graphmend_bc.runtime.site import Site

_MOST_CHAINS: Final = 20
_MOST_LINKS: Final = 12
_MOST_CHARACTERS: Final = 40
_WIDTH: Final = CHARACTER * (_MOST_CHARACTERS + 3)
_GAP: Final = 18


@dataclass(frozen=True, slots=True)
class Link:
    """A part of a chain.

    Attributes:
        kind: "graph", "break" or "eager".
        lines: what is said of it.
    """

    kind: str
    lines: tuple[str, ...]


_INLINED: Final = Link("graph", ("part of the graphs of its callers",))


@dataclass(frozen=True, slots=True)
class Chain:
    """The parts of a compiled function.

    Attributes:
        name: the function's.
        filename, lineno: where it begins.
        before: under stock torch.compile.
        after: with mending.
        is_measured: whether `before` was compiled too; otherwise it follows from what was mended.
    """

    name: str
    filename: str
    lineno: int
    before: tuple[Link, ...]
    after: tuple[Link, ...]
    is_measured: bool

    @property
    def pictures(self) -> tuple[str, str]:
        """Both as SVG; empty without the library."""
        return drawn(self.before), drawn(self.after)

    @property
    def in_words(self) -> tuple[str, str]:
        """Both as a sentence for those who do not see the pictures."""
        return _said(self.before), _said(self.after)


def chains_of(
    frames: Sequence[CompiledFrame],
    breaks: Mapping[Site, str],
    stock: Sequence[CompiledFrame] = (),
) -> list[Chain]:
    """A chain for each function, those with the most breaks before mending first.

    Args:
        frames: what was compiled with mending. Of the compilations of one frame the last counts.
        breaks: Dynamo's names of the breaks that were mended, as far as they are known.
        stock: what stock torch.compile compiled; empty if that was not tried.
    """
    names = {(site.filename, site.lineno): name for site, name in breaks.items()}
    mended, measured = _by_function(frames), _by_function(stock)
    chains = []
    for function in {**mended, **measured}:
        own = mended.get(function, ())
        before = _links(measured.get(function, ()), names) if stock else _without_mends(own, breaks)
        after = _links(own, names) if own else (_INLINED,)
        name = without_resumption(function.qualname)
        place = function.filename, function.firstlineno
        chains.append(Chain(name, *place, tuple(before), tuple(after), bool(stock)))
    found = [chain for chain in chains if len(chain.before) > 1 or len(chain.after) > 1]
    found.sort(key=lambda chain: -sum(link.kind != "graph" for link in chain.before))
    return found[:_MOST_CHAINS]


def _by_function(frames: Iterable[CompiledFrame]) -> dict[CodeId, list[CompiledFrame]]:
    last: dict[CodeId, dict[CodeId, CompiledFrame]] = {}
    for frame in frames:
        last.setdefault(frame.function, {})[frame.site.code] = frame
    return {function: list(own.values()) for function, own in last.items()}


def _links(frames: Iterable[CompiledFrame], names: Mapping[tuple[str, int], str]) -> Iterator[Link]:
    for frame in frames:
        yield from _graphs(frame)
        yield from _end(frame, names)


def _graphs(frame: CompiledFrame) -> Iterator[Link]:
    for count in frame.operators:
        mended = {f"line {site.lineno} mended": None for site in frame.mended}
        yield Link("graph", (f"graph of {many(count, 'operator')}", *list(mended)[:6]))


def _without_mends(frames: Iterable[CompiledFrame], breaks: Mapping[Site, str]) -> Iterator[Link]:
    """What follows from the mends: stock would end a graph at each of them."""
    for frame in frames:
        for site in frame.mended:
            if site in breaks:
                yield Link("graph", ("graph",))
                yield _break(site.filename, site.lineno, breaks[site])
        if frame.operators:
            yield Link("graph", ("graph",))
        yield from _end(frame, {})


def _end(frame: CompiledFrame, names: Mapping[tuple[str, int], str]) -> Iterator[Link]:
    """How a frame ends if not by its return; Dynamo's own words for a break are terse."""
    if frame.skipped:
        why = f"for a break in line {frame.break_at[1]}" if frame.break_at else "Python runs it"
        yield Link("eager", (f"{in_words(frame.site.name)} is not compiled", why))
    elif frame.break_reason:
        place = frame.break_at or (frame.site.filename, 0)
        yield _break(*place, names.get(place) or frame.break_reason.partition("\n")[0])


def _break(filename: str, line: int, why: str) -> Link:
    return Link("break", (f"break in line {line} of {PurePath(filename).name}", why))


def _said(links: Sequence[Link]) -> str:
    return "; then ".join(": ".join(link.lines[:2]) for link in links) or "nothing was compiled"


def drawn(links: Sequence[Link]) -> str:
    """A chain as SVG, from its top to its bottom.

    Args:
        links: its parts.
    """
    if not may_draw() or not links:
        return ""
    picture, top, middle = Picture("chain"), 4.0, _WIDTH / 2
    more = len(links) - _MOST_LINKS
    if more > 0:
        links = [*links[: _MOST_LINKS - 1], Link("more", (f"and {many(more + 1, 'more part')}",))]
    for at, link in enumerate(links):
        if at:
            picture.arrow([(middle, top - _GAP), (middle, top)], "next")
        height = LINE * len(link.lines) + 10
        inset = 0 if link.kind == "graph" else 2 * CHARACTER
        picture.box(2 + inset, top, _WIDTH - 4 - 2 * inset, height, link.kind)
        for number, line in enumerate(link.lines):
            text = shortened(line, _MOST_CHARACTERS - 4 * bool(inset))
            name = "name" if number == 0 else "op"
            picture.text(text, 2 + inset + CHARACTER, top + LINE * (number + 1), name)
        top += height + _GAP
    return picture.finished(_WIDTH, top - _GAP + 4)
