"""What was mended, what was left, and why: values that tools and people read."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from graphmend_bc.reporting.code_text import CodeChange, Rewritten
from graphmend_bc.reporting.compilations import Compiled as Compiled
from graphmend_bc.reporting.compilations import CompiledFrame
from graphmend_bc.reporting.compilations import FrameResult as FrameResult
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.durations import duration
from graphmend_bc.reporting.notebook import notebook_html
from graphmend_bc.reporting.outcomes import Outcome, Speculated
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import as_text
from graphmend_bc.reporting.verification import Verification
from graphmend_bc.runtime.code_id import CodeId
from graphmend_bc.runtime.site import Site


@dataclass(frozen=True, slots=True)
class Mend:
    """A site that no longer breaks the graph.

    Attributes:
        strategy: how it was mended, such as "where", "speculate" or "defer".
        site: the instruction in the user's code.
        gb_type: Dynamo's type of the break that stock torch.compile has there; empty if the site
            was mended before Dynamo reached it.
        gb_id: Dynamo's id of that type, such as "GB0170".
        passed_over: why cheaper strategies were refused.
        rule: the name of the rule that did it, as in `config.rules_off`; empty if it is not known.

    Example:
        >>> import graphmend_bc, torch
        >>> with graphmend_bc.enabled():
        ...     f = torch.compile(lambda x: x + 1 if x.sum() > 0 else x, backend="eager")
        ...     found = (f(torch.ones(2)), graphmend_bc.report().mends[-1].gb_type)[1]
        >>> found
        'Data-dependent branching'
    """

    strategy: str
    site: Site
    gb_type: str = ""
    gb_id: str = ""
    passed_over: tuple[str, ...] = ()
    rule: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The mend in the form of the report's JSON."""
        return _as_dict(self)

    @property
    def lines(self) -> list[str]:
        """The mend as text, without references to reasons."""
        head = f"{self.strategy:10} {self.site} {self.gb_id}".rstrip()
        return [head, *(f"    a cheaper strategy was refused: {r}" for r in self.passed_over)]

    def __str__(self) -> str:
        return "\n".join(as_text(self))


@dataclass(frozen=True, slots=True)
class Decline:
    """A break that was left as stock Dynamo has it.

    Attributes:
        reason: a code of `graphmend_bc.reporting.reasons.REASONS`.
        explanation: sentences that say what was found.
        hints: what the user can do.
        site: the instruction in the user's code.
        gb_type, gb_id: Dynamo's type of the break and its id.
        passed_over: why the rules that were tried before were refused.

    Example:
        >>> import graphmend_bc
        >>> graphmend_bc.reset()
        >>> [decline.reason for decline in graphmend_bc.report().declines]
        []
    """

    reason: str
    explanation: str
    hints: tuple[str, ...]
    site: Site
    gb_type: str = ""
    gb_id: str = ""
    passed_over: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        refused: Refused,
        site: Site,
        gb_type: str = "",
        gb_id: str = "",
        passed_over: tuple[str, ...] = (),
    ) -> Decline:
        """The decline that a refusal at `site` leads to."""
        explanation = f"{refused.reason.explanation} {refused.detail}".rstrip()
        return cls(
            refused.reason.code,
            explanation,
            refused.hints,
            site,
            gb_type,
            gb_id,
            passed_over,
        )

    @property
    def lines(self) -> list[str]:
        """The decline as text, without references to reasons."""
        return [
            f"{'declined':10} {self.site} {self.gb_id}".rstrip(),
            f"    {self.reason}: {self.explanation}",
            *(f"    refused before: {refusal}" for refusal in self.passed_over),
            *(f"    Hint: {hint}" for hint in self.hints),
        ]

    def __str__(self) -> str:
        return "\n".join(as_text(self))


E = TypeVar("E", Mend, Decline)

SCHEMA = 3
"""Version of the report's JSON: of its names and of what its numbers count."""


_MOST_FRAMES = 1000
_MOST_REWRITES = 200
"""The last compilations and rewritten code objects that a report tells of."""


@dataclass(slots=True, repr=False)
class Report:
    """All mends and declines, each site once, in the order in which they were found.

    Attributes:
        mends: sites that no longer break the graph.
        declines: breaks that were left.
        speculations: how often the checks of speculations failed, by site; filled in by `report()`.
        speculated: in how many calls one failed, of all graphs together; likewise.
        compiled: what was compiled.
        refused: why `enable(on_error="warn")` switched nothing on; empty if it did.
        frames: the last compilations, each with its attempts.
        rewritten: the code that was rewritten for the last of them, or mended as it is.
        verified: how calls compared with eager Python's (`config.verify`); likewise.
        _known: what is in the lists.

    Example:
        >>> print(Report())
        0 mended, 0 declined
    """

    mends: list[Mend] = field(default_factory=list)
    declines: list[Decline] = field(default_factory=list)
    speculations: list[Outcome] = field(default_factory=list)
    compiled: Compiled = field(default_factory=Compiled)
    speculated: Speculated = field(default_factory=Speculated)
    refused: str = ""
    frames: list[CompiledFrame] = field(default_factory=list, compare=False)
    rewritten: list[Rewritten] = field(default_factory=list, compare=False)
    verified: list[Verification] = field(default_factory=list)
    _known: set[tuple[Site, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._known = {(m.site, m.strategy) for m in self.mends}
        self._known |= {(d.site, d.reason) for d in self.declines}

    def add(self, entry: Mend | Decline) -> bool:
        """Note a mend or decline unless it is known; returns whether it was new."""
        kind = entry.strategy if isinstance(entry, Mend) else entry.reason
        if (entry.site, kind) in self._known:
            return False
        self._known.add((entry.site, kind))
        if isinstance(entry, Mend):
            self.mends.append(entry)
        else:
            self.declines.append(entry)
        return True

    def note_frame(self, frame: CompiledFrame, rewritten: Collection[Rewritten]) -> None:
        """Note a compilation, and the code in which something was mended for it."""
        self.frames = [*self.frames[1 - _MOST_FRAMES :], frame]
        anew = {one.code for one in rewritten}
        kept = [one for one in self.rewritten if one.code not in anew]
        self.rewritten = [*kept, *rewritten][-_MOST_REWRITES:]

    @property
    def rewrites(self) -> list[CodeChange]:
        """The bytecode before and after, as text, of what was mended and is not gone."""
        return [change for one in self.rewritten if (change := one.change) is not None]

    def withdraw(self, sites: Collection[Site]) -> list[Mend]:
        """Take out the mends at sites that are not mended any more, and return them."""
        gone = [mend for mend in self.mends if mend.site in sites]
        self._known -= {(mend.site, mend.strategy) for mend in gone}
        self.mends = [mend for mend in self.mends if mend.site not in sites]
        return gone

    def merge_dead(self) -> None:
        """Keep one entry of those that read the same, as far as their code is gone."""
        self.mends = _merged(self.mends)
        self.declines = _merged(self.declines)
        self.__post_init__()

    def copy(self) -> Report:
        return Report(
            list(self.mends),
            list(self.declines),
            list(self.speculations),
            replace(self.compiled),
            self.speculated,
            refused=self.refused,
            frames=list(self.frames),
            rewritten=list(self.rewritten),
            verified=[known.copy() for known in self.verified],
        )

    def summary(self) -> str:
        """One line: what was mended, what is left, and what speculation cost."""
        if self.refused:
            return f"nothing was mended: {self.refused}"
        done, left = self.compiled, self.compiled.breaks + self.compiled.skipped
        text = (
            f"{len(self.mends)} mended, {len(self.declines)} declined; "
            f"{many(done.graphs, 'graph')} in {many(done.frames, 'compilation')}, "
            f"{many(left, 'break')} left"
        )
        if self.speculated != Speculated():
            text = f"{text}; {self.speculated}"
        if not self.lost_ns:
            return text
        recompiled = sum(known.recompiled for known in self.speculations)
        anew = f", with {many(recompiled, 'compilation')}" if recompiled else ""
        return f"{text}; that cost {duration(self.lost_ns)}{anew}"

    @property
    def lost_ns(self) -> int:
        """Nanoseconds that would not have been spent without speculations."""
        return sum(known.lost_ns for known in self.speculations)

    def as_dict(self) -> dict[str, Any]:
        """The report in the form of its JSON: see `to_json`."""
        return {
            "schema": SCHEMA,
            "provenance": asdict(Provenance.here()),
            "refused": self.refused,
            "mends": [_as_dict(m) for m in self.mends],
            "declines": [_as_dict(d) for d in self.declines],
            "speculations": [_as_dict(g) for g in self.speculations],
            "speculated": asdict(self.speculated),
            "compiled": asdict(self.compiled),
            "frames": [_as_dict(f) for f in self.frames],
            "verified": [_as_dict(v) for v in self.verified],
        }

    def to_json(self) -> str:
        """The report as JSON.

        Returns:
            An object with the number `schema`, which changes when a name in it does; in
            `provenance` the program, the versions and the time; in `refused` why nothing was
            switched on, if so; the lists `mends`, `declines` and `speculations`; the counts in
            `speculated` and `compiled`; and in `frames` the last compilations with their attempts.
        """
        return json.dumps(self.as_dict(), indent=2)

    def to_html(self, path: str | Path) -> None:
        """Write the report as a page of its own.

        Args:
            path: file to write; replaced if it exists.

        Raises:
            OSError: the file cannot be written.
        """
        from graphmend_bc.reporting.page import write_page  # it needs the templates of an extra

        write_page(Path(path), self)

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook_html(self.summary(), self.mends, self.declines)

    def __str__(self) -> str:
        lines = [f"{len(self.mends)} mended, {len(self.declines)} declined"]
        lines += [f"Nothing was mended: {self.refused}"] if self.refused else []
        lines += as_text(*self.mends, *self.declines)
        lines += [f"speculated {speculation}" for speculation in self.speculations]
        return "\n".join([*lines, *(f"compared {known}" for known in self.verified)])


def _merged(entries: list[E]) -> list[E]:
    seen: set[str] = set()
    kept = []
    for entry in entries:
        text = str(entry)
        if entry.site.code.is_alive or text not in seen:
            kept.append(entry)
        seen.add(text)
    return kept


def _as_dict(entry: Mend | Decline | Outcome | CompiledFrame | Verification) -> dict[str, Any]:
    """The entry for JSON, which has no form for the identity of code."""

    def without_code(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in items if not isinstance(value, CodeId)}

    written = asdict(entry, dict_factory=without_code)
    written["site"]["function"] = entry.site.function
    return written
