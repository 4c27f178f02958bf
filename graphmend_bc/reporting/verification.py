"""What came of comparing mended calls with eager Python: `config.verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphmend_bc.reporting.counts import many, verb
from graphmend_bc.runtime.site import Site


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which a mended call is not eager Python's.

    Attributes:
        what: where it is, such as "the result[0]" or "the argument 'x'".
        detail: what is different.
    """

    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}"


@dataclass(slots=True)
class Verification:
    """How the calls of one frame compared with eager Python's.

    Attributes:
        site: where the frame begins.
        mends: what is mended in the frame, each as "strategy file:line in function".
        compared: how many calls were compared.
        differing: in how many of them something was different.
        differences: what it was in the first of them.
        left: how many calls could not be compared, by the reason.
    """

    site: Site
    mends: tuple[str, ...] = ()
    compared: int = 0
    differing: int = 0
    differences: tuple[str, ...] = ()
    left: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Verification:
        """The same; it does not change any more."""
        return Verification(
            self.site,
            self.mends,
            self.compared,
            self.differing,
            self.differences,
            dict(self.left),
        )

    def note(self, found: Sequence[Difference]) -> bool:
        """Count a call that was compared; True for the first one with a difference."""
        self.compared += 1
        if not found:
            return False
        self.differing += 1
        self.differences = self.differences or tuple(map(str, found))
        return self.differing == 1

    def note_left(self, why: str) -> None:
        """Count a call that could not be compared."""
        self.left[why] = self.left.get(why, 0) + 1

    def warning(self) -> str:
        """What is said of the first difference: what it is, what is mended, and what to do."""
        place = f"{self.site.filename}:{self.site.lineno}"
        return (
            f"A mended call of {self.site.function} ({place}) is not what eager Python does. "
            f"{'; '.join(self.differences)}. Mended there: {', '.join(self.mends)}. "
            "`graphmend-bc bisect script.py` finds the mend; graphmend_bc.config.rules_off "
            "switches its rule off, and @graphmend_bc.leave_alone leaves a function as it is."
        )

    def __str__(self) -> str:
        compared = many(self.compared, "compared call")
        differ = verb(self.compared, "differs", "differ")
        text = f"{self.site}: {self.differing} of {compared} {differ}"
        said = [text, *(f"{why}: {count} not compared" for why, count in self.left.items())]
        return "; ".join([*said, *self.differences])
