"""The bytecode of a function before and after it was rewritten, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Final

from graphmend_bc.reporting.code_text import CodeChange, CodeText, Instruction
from graphmend_bc.reporting.page.flow_graph import flow_graph
from graphmend_bc.reporting.page.svg import may_lay_out
from graphmend_bc.runtime.code_id import CodeId

_MOST_OF_PICTURES: Final = 1_500_000
_MOST_OF_LINES: Final = 10_000
"""Characters of pictures, and lines of listings, of all functions of a page together."""

_NO_LISTING: Final = "The code is left out, so that the page stays small."
_NO_PICTURE: Final = "The control flow is not drawn, so that the page stays small."
_AS_IT_IS: Final = "Dynamo traces this code as it is. What is marked is mended while it does."

_NOWHERE: Final[Mapping[CodeId, Collection[int]]] = MappingProxyType({})

_CONTEXT: Final = 4
"""Instructions shown before and after those that were changed."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of the two listings.

    Attributes:
        before, after: what stands there; None if nothing does.
        is_changed: whether the two differ, or it is mended as it is.
        skipped: how many instructions that are the same were left out before the line.
    """

    before: Instruction | None
    after: Instruction | None
    is_changed: bool
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A function in which something was mended, as the page shows it.

    Attributes:
        change: the two codes.
        pairs: the listings, as far as they differ or are mended.
        pictures: the control flow before and after, as SVG; empty where there is none, and once
            where both are the same.
        note: says what was left out; empty if nothing was.
    """

    change: CodeChange
    pairs: tuple[Pair, ...]
    pictures: tuple[str, str]
    note: str = ""


def comparisons_of(
    changes: Iterable[CodeChange], mended: Mapping[CodeId, Collection[int]] = _NOWHERE
) -> Iterator[Comparison]:
    """What a page shows of functions in which something was mended, within bounds of its size.

    Args:
        changes: the functions; the first ones get their pictures.
        mended: the offsets of the instructions that are mended in each.
    """
    characters, lines = 0, 0
    for change in changes:
        pairs = tuple(pairs_of(change.before, change.after, mended.get(change.code, ())))
        lines += len(pairs) + sum(arm.size for arm in change.arms)
        if lines > _MOST_OF_LINES or not (change.before.blocks and change.after.blocks):
            note = _NO_LISTING if change.after.blocks else "The code is too long to be shown."
            yield Comparison(change, (), ("", ""), note)
            continue
        pictures = ("", "") if characters > _MOST_OF_PICTURES else _pictures(change, pairs)
        characters += sum(map(len, pictures))
        is_left_out = may_lay_out() and not all(pictures[: 1 + change.is_rewritten])
        notes = ["" if change.is_rewritten else _AS_IT_IS, _NO_PICTURE if is_left_out else ""]
        yield Comparison(change, pairs, pictures, " ".join(filter(None, notes)))


def pairs_of(before: CodeText, after: CodeText, mended: Collection[int] = ()) -> Iterator[Pair]:
    """Two codes line by line: what differs or is mended, and a few instructions around it.

    Args:
        before, after: the codes.
        mended: offsets of instructions of the first that are mended, be they rewritten or not.
    """
    old, new = before.instructions, after.instructions
    keys = [(one.key, one.offset in mended) for one in old]
    matcher = SequenceMatcher(None, keys, [(one.key, False) for one in new], autojunk=False)
    shown = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        skipped = group[0][1] - shown
        for kind, i, i_end, j, j_end in group:
            for at in range(max(i_end - i, j_end - j)):
                left = old[i + at] if i + at < i_end else None
                right = new[j + at] if j + at < j_end else None
                yield Pair(left, right, kind != "equal", skipped)
                skipped = 0
        shown = group[-1][2]


def _pictures(change: CodeChange, pairs: Iterable[Pair]) -> tuple[str, str]:
    changed = [pair for pair in pairs if pair.is_changed]
    before = flow_graph(change.before, {pair.before.offset for pair in changed if pair.before})
    if not change.is_rewritten:
        return before, ""
    return before, flow_graph(change.after, {pair.after.offset for pair in changed if pair.after})
