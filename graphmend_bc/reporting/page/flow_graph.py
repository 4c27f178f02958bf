"""Control flow as a picture: basic blocks in layers, laid out by fast-sugiyama."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import networkx as nx

from graphmend_bc.reporting.code_text import BasicBlock, CodeText, Instruction
from graphmend_bc.reporting.page.svg import CHARACTER, LINE, Picture, may_lay_out, shortened

_MOST_BLOCKS: Final = 60
_MOST_LINES: Final = 14
"""Instructions of a block that are drawn."""

_MOST_CHARACTERS: Final = 30
_GAP: Final = 36
_MARGIN: Final = 10

Point = tuple[float, float]


def flow_graph(code: CodeText, changed: Collection[int]) -> str:
    """A code object as SVG; empty if it is too large to be drawn, or a library is missing.

    Args:
        code: its blocks.
        changed: offsets of the instructions that are marked.
    """
    if not may_lay_out() or not 0 < len(code.blocks) <= _MOST_BLOCKS:
        return ""
    boxes = {block.index: _Box.of(block, changed) for block in code.blocks}
    with _quiet():
        layout = _laid_out(code.blocks, boxes)
    picture = Picture("flow")
    for block in code.blocks:
        for way in block.ways:
            points = layout.route(block.index, way.target, boxes)
            picture.arrow(points, way.kind)
    for index, box in boxes.items():
        x, y = layout.centres[index]
        _draw(picture, box, x - box.width / 2, y, changed)
    return picture.finished(layout.width, layout.height)


@contextmanager
def _quiet() -> Iterator[None]:
    """The library logs each of its steps, which is nothing for the logs of a program."""
    loggers = [logging.getLogger(name) for name in ("rust-sugiyama", "connected_components")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@dataclass(frozen=True, slots=True)
class _Box:
    """A block as it is drawn: some of its instructions, and how many are around them."""

    name: str
    shown: Sequence[Instruction]
    above: int
    below: int
    width: float
    height: float

    @classmethod
    def of(cls, block: BasicBlock, changed: Collection[int]) -> _Box:
        own = block.instructions
        marked = (at for at, one in enumerate(own) if one.offset in changed)
        above = max(0, min(next(marked, len(own)) - 2, len(own) - _MOST_LINES))
        shown = own[above : above + _MOST_LINES]
        below = len(own) - above - len(shown)
        longest = max((len(one.key) for one in shown), default=0)
        return cls(
            f"b{block.index}",
            shown,
            above,
            below,
            CHARACTER * (min(longest, _MOST_CHARACTERS) + 3),
            LINE * (len(shown) + 1 + bool(above) + bool(below)) + 8,
        )


def _draw(picture: Picture, box: _Box, x: float, y: float, changed: Collection[int]) -> None:
    picture.box(x, y, box.width, box.height, "block")
    y += LINE - 2
    picture.text(box.name, x + CHARACTER, y, "name")
    if box.above:
        y += LINE
        picture.text(f"{box.above} above", x + CHARACTER, y, "name")
    for one in box.shown:
        y += LINE
        if one.offset in changed:
            picture.box(x + 2, y - LINE + 4, box.width - 4, LINE, "changed")
        picture.text(shortened(one.key, _MOST_CHARACTERS), x + CHARACTER, y, "op")
    if box.below:
        picture.text(f"{box.below} below", x + CHARACTER, y + LINE, "name")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where blocks stand, and the points between them by which ways go.

    Attributes:
        centres: of each block the middle of its upper edge.
        bends: by the two ends of a way.
        width, height: of all together.
    """

    centres: Mapping[int, Point]
    bends: Mapping[tuple[int, int], Sequence[Point]]
    width: float
    height: float

    def route(self, source: int, target: int, boxes: Mapping[int, _Box]) -> list[Point]:
        """The points of a way, from the lower edge of a block to the upper edge of another."""
        (x, y), end = self.centres[source], self.centres[target]
        start = x, y + boxes[source].height
        if end[1] > y:
            return [start, *self.bends.get((source, target), ()), end]
        # A way back leaves a side of its block, and enters that side of the other.
        passed = self.bends.get((target, source), ())
        near = max(self._side(source, boxes, 1), self._side(target, boxes, 1)) + _GAP / 3
        bends = [*reversed(passed)] or [(near, (y + end[1] + boxes[target].height) / 2)]
        at = 1 if bends[0][0] >= x else -1
        to = 1 if bends[-1][0] >= end[0] else -1
        return [
            (self._side(source, boxes, at), start[1] - LINE / 2),
            *bends,
            (self._side(target, boxes, to), end[1] + LINE / 2),
        ]

    def _side(self, block: int, boxes: Mapping[int, _Box], right: int) -> float:
        return self.centres[block][0] + right * boxes[block].width / 2


def _laid_out(blocks: Sequence[BasicBlock], boxes: Mapping[int, _Box]) -> _Layout:
    """The layers of the library, as high as their blocks are; its columns, as wide as they are."""
    from fast_sugiyama import from_edges

    widest = max(box.width for box in boxes.values()) + _GAP
    pairs = {(b.index, way.target) for b in blocks for way in b.ways if way.target != b.index}
    if not pairs:
        box = boxes[blocks[0].index]
        middle = {blocks[0].index: (_MARGIN + box.width / 2, float(_MARGIN))}
        return _Layout(middle, {}, box.width + 2 * _MARGIN + 20, box.height + 2 * _MARGIN)
    # Every block can be reached from the first, so there is one layout, and with the ways back
    # turned round the first block is on top of it.
    order = {b: at for at, b in enumerate(nx.dfs_postorder_nodes(nx.DiGraph(sorted(pairs)), 0))}
    down = {(a, b) if order[a] > order[b] else (b, a) for a, b in pairs}
    ((places, _, _, edges),) = from_edges(sorted(down), vertex_spacing=widest)
    found = {int(node): place for node, place in places}
    tops, height = _tops(found, boxes)
    left = min(x for x, _ in found.values()) - widest / 2
    points = {node: (x - left + _MARGIN, tops[y]) for node, (x, y) in found.items()}
    right = max(x for x, _ in points.values()) + widest / 2
    bends = dict(_bends([(int(a), int(b)) for a, b in edges or ()], boxes, points))
    centres = {index: points[index] for index in boxes}
    return _Layout(centres, bends, right + _MARGIN, height)


def _tops(
    found: Mapping[int, Point], boxes: Mapping[int, _Box]
) -> tuple[dict[float, float], float]:
    """Where each layer begins, the first one above, and where the last one ends."""
    tops, top = {}, float(_MARGIN)
    for layer in sorted({y for _, y in found.values()}, reverse=True):
        tops[layer] = top
        here = (node for node, (_, y) in found.items() if y == layer and node in boxes)
        top += max((boxes[node].height for node in here), default=0) + _GAP
    return tops, top - _GAP + _MARGIN


def _bends(
    edges: Sequence[tuple[int, int]], boxes: Mapping[int, _Box], points: Mapping[int, Point]
) -> Iterator[tuple[tuple[int, int], list[Point]]]:
    """By their ends, the points of ways that pass layers, in which the library has dummies."""
    following = {source: target for source, target in edges if source not in boxes}
    for source, target in edges:
        if source not in boxes or target in boxes:
            continue
        passed = []
        while target not in boxes:
            passed.append(points[target])
            target = following[target]
        yield (source, target), passed
