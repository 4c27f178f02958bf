"""What failed checks have taught about a function: it is kept on disk with its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphmend_bc.reporting.reasons import REASONS, Refused
from graphmend_bc.reporting.speculation_stats import History
from graphmend_bc.runtime import CodeId, Site, identity_of

if TYPE_CHECKING:
    from graphmend_bc.engine.state import MendingState

_MOST = 1024
"""Entries of one kind that are kept or read."""

_EARLIER = "It was found out in an earlier process."


@dataclass(frozen=True, slots=True)
class CheckOutcomes:
    """What the checks of one function came to.

    Attributes:
        flips: by site, from which occurrence on which value is likely.
        guarded: conditions that are computed before the graph.
        given_up: reason codes of sites that are not mended any more.
        left: whether stock compiles the function.
        selected: branches of which the graph selects a value.
        varying: guards that failed in most versions of a function that was left.
    """

    flips: Mapping[Site, tuple[tuple[int, bool], ...]] = field(default_factory=dict)
    guarded: frozenset[Site] = frozenset()
    given_up: Mapping[Site, str] = field(default_factory=dict)
    left: bool = False
    selected: frozenset[Site] = frozenset()
    varying: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything was found out."""
        return bool(self.flips or self.guarded or self.selected or self.given_up or self.left)

    def to_json(self) -> dict[str, Any]:
        """As plain lists, with the offsets of instructions for sites."""
        flips = [[s.offset, at, value] for s, found in self.flips.items() for at, value in found]
        return {
            "flips": sorted(flips),
            "guarded": sorted(site.offset for site in self.guarded),
            "selected": sorted(site.offset for site in self.selected),
            "given_up": sorted([site.offset, code] for site, code in self.given_up.items()),
            "left": self.left,
            "varying": sorted(self.varying),
        }

    @classmethod
    def from_json(cls, entry: Any, site_at: Callable[[int], Site]) -> CheckOutcomes:
        """What was written.

        Args:
            entry: what was read; it may be anything.
            site_at: gives the site of an offset.

        Raises:
            ValueError: it has another form, or `site_at` knows no such instruction.
        """
        names: dict[str, tuple[type, ...]] = {"flips": (int, int, bool), "given_up": (int, str)}
        names |= {"guarded": (int,), "selected": (int,), "varying": (str,)}
        if type(entry) is not dict or entry.keys() != {*names, "left"}:
            raise ValueError("It has other outcomes of checks.")
        for name, kinds in names.items():
            rows = entry[name]
            if type(rows) is not list or len(rows) > _MOST:
                raise ValueError(f"Its {name} are no list.")
            rows = [[row] for row in rows] if len(kinds) == 1 else rows
            for row in rows:
                if type(row) is not list or tuple(map(type, row)) != kinds:
                    raise ValueError(f"One of its {name} has another form.")
        flips: dict[Site, tuple[tuple[int, bool], ...]] = {}
        for offset, occurrence, value in entry["flips"]:
            site = site_at(offset)
            flips[site] = (*flips.get(site, ()), (occurrence, value))
        given_up = {site_at(offset): code for offset, code in entry["given_up"]}
        if type(entry["left"]) is not bool or not REASONS.keys() >= set(given_up.values()):
            raise ValueError("It gives reasons that there are not.")
        guarded, selected = (frozenset(map(site_at, entry[n])) for n in ("guarded", "selected"))
        return cls(flips, guarded, given_up, entry["left"], selected, frozenset(entry["varying"]))


def outcomes_of(state: MendingState, code: CodeType) -> CheckOutcomes:
    """What is known of a function in this process.

    Args:
        state: what is known across frames.
        code: its original code.
    """
    key = identity_of(code)
    with state.lock:
        counts = state.frames.get(key)
        found = CheckOutcomes(
            {s: tuple(h.flips) for s, h in state.history.items() if s.code is key and h.flips},
            frozenset(site for site in state.guarded if site.code is key),
            {s: why.reason.code for s, why in state.given_up.items() if s.code is key},
            counts is not None and counts.left,
            frozenset(site for site in state.selected if site.code is key),
            frozenset() if counts is None else counts.varying,
        )
    sizes = (sum(map(len, found.flips.values())), len(found.guarded), len(found.given_up))
    return found if max(sizes) <= _MOST else CheckOutcomes()


def taught(state: MendingState) -> set[CodeId]:
    """The functions of which something is known."""
    with state.lock:
        left = {key for key, counts in state.frames.items() if counts.left}
        sites = (*state.history, *state.guarded, *state.selected, *state.given_up)
        return left.union(site.code for site in sites)


def begin_with(state: MendingState, code: CodeType, outcomes: CheckOutcomes) -> None:
    """Begin with what an earlier process has found out. What this one knows already counts more.

    Args:
        state: what is known across frames.
        code: the original code of the function.
        outcomes: what was found out about it.
    """
    with state.lock:
        for site, flips in outcomes.flips.items():
            state.history.setdefault(site, History(flips=[*flips]))
        state.guarded |= outcomes.guarded
        state.selected |= outcomes.selected
        for site, reason in outcomes.given_up.items():
            state.given_up.setdefault(site, Refused(reason, _EARLIER))
        is_left = identity_of(code) in state.left_to_stock
    if outcomes.left and not is_left:
        state.counts_of(code).varying = outcomes.varying
        state.leave_frame(code, _EARLIER)
