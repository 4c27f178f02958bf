"""How speculations went, and what those that were wrong cost."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.durations import duration
from graphmend_bc.runtime.site import Site

_NO_COUNTS = frozenset({"site", "failed_in"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the speculation at one site went.

    Attributes:
        site: where the program asks.
        calls: how often a graph that assumes a value there came by; not if an earlier check of it
            failed, since the program goes another way then.
        failed_checks: how often the check failed, so that the original code ran.
        respecialised: how often the site was re-specialised to the other value.
        raised: how often the graph raised, so that the original code ran. It does not say which of
            its speculations was wrong, if one was: this counts at one site of the graph.
        recompiled: how often the frame was compiled anew because of all that.
        rerun_ns: nanoseconds that the original code took.
        graph_ns: nanoseconds that the graph took before, for nothing.
        recompile_ns: nanoseconds that the compilations took.
        failed_in: runs of calls in which checks failed: the first call, the last, and how many.
            The calls of all graphs that assume a value there are counted, one graph after another.
    """

    site: Site
    calls: int
    failed_checks: int
    respecialised: int
    rerun_ns: int = field(default=0, compare=False)
    raised: int = 0
    recompiled: int = 0
    graph_ns: int = field(default=0, compare=False)
    recompile_ns: int = field(default=0, compare=False)
    failed_in: tuple[tuple[int, int, int], ...] = field(default=(), compare=False)

    @property
    def lost_ns(self) -> int:
        """Nanoseconds that would not have been spent without the speculation."""
        return self.rerun_ns + self.graph_ns + self.recompile_ns

    @property
    def is_costly(self) -> bool:
        """True if the speculation was wrong at least once."""
        return bool(self.failed_checks or self.raised or self.recompiled)

    def since(self, before: Outcome | None) -> Outcome:
        """What came after an earlier outcome of the same site.

        Args:
            before: the earlier one; None if there was none. It does not count if the counts began
                anew meanwhile.

        Returns:
            The counts; in which calls checks failed is not told apart.
        """
        if before is None or before.calls > self.calls:
            return self
        counts = {n: getattr(self, n) - getattr(before, n) for n in _counts()}
        return replace(self, failed_in=(), **counts)

    def __add__(self, later: Outcome) -> Outcome:
        shifted = ((a + self.calls, b + self.calls, count) for a, b, count in later.failed_in)
        sums = {n: getattr(self, n) + getattr(later, n) for n in _counts()}
        return replace(self, failed_in=(*self.failed_in, *shifted), **sums)

    def in_words(self) -> str:
        """What happened, and what `lost_ns` went into."""
        said, calls = [], many(self.calls, "call")
        if self.failed_checks or not self.raised:
            text = f"the check failed in {self.failed_checks} of {calls}"
            said.append(f"{text}, re-specialised {many(self.respecialised, 'time')}")
        if self.raised:
            said.append(f"the graph raised in {self.raised} of {calls}")
        parts = [
            (self.rerun_ns, "running the original code"),
            (self.graph_ns, "graphs that ran for nothing"),
            (self.recompile_ns, f"compiling anew {many(self.recompiled, 'time')}"),
        ]
        lost = [f"{duration(spent)} went into {what}" for spent, what in parts if spent]
        return "; ".join([*said, ", ".join(lost)] if lost else said)

    def __str__(self) -> str:
        return f"{self.site}: {self.in_words()}"


def _counts() -> list[str]:
    return [known.name for known in fields(Outcome) if known.name not in _NO_COUNTS]


@dataclass(frozen=True, slots=True)
class Speculated:
    """How the graphs went that rest on speculations, each call counted once.

    Attributes:
        calls: how often such graphs ran.
        failed: in how many of these calls a check failed; the first that does is counted.
        raised: in how many calls a graph raised that rests on speculations or unbacked symbols.
    """

    calls: int = 0
    failed: int = 0
    raised: int = 0

    def __add__(self, other: Speculated) -> Speculated:
        return Speculated(
            self.calls + other.calls, self.failed + other.failed, self.raised + other.raised
        )

    def __str__(self) -> str:
        if not self.calls:
            return f"a graph raised in {many(self.raised, 'call')}"
        text = f"a check failed in {self.failed} of {many(self.calls, 'speculated call')}"
        return f"{text}, a graph raised in {self.raised}" if self.raised else text

    @property
    def miss_rate(self) -> float:
        """The part of the calls in which a check failed; 0 without calls."""
        return self.failed / self.calls if self.calls else 0.0
