"""What compiling frames came to: counts, and each compilation with its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphmend_bc.runtime.code_id import CodeId
from graphmend_bc.runtime.site import Site


@dataclass(frozen=True, slots=True)
class FrameResult:
    """What compiling one frame came to, for `explain`.

    Attributes:
        graphs: graphs handed to the backend.
        break_reason: why the frame's graph ended before the frame did; empty if it did not.
        skipped: True if Dynamo skipped the frame, which then runs eagerly.
        attempts: what each attempt failed at that was made again with another plan.
    """

    graphs: int
    break_reason: str
    skipped: bool
    attempts: tuple[str, ...] = ()


@dataclass(slots=True)
class Compiled:
    """What was compiled, counted anew for each compilation of a frame.

    Attributes:
        frames: frames that Dynamo compiled, or tried to.
        graphs: graphs that were handed to backends.
        breaks: frames whose graph ended before the frame did.
        skipped: frames that Dynamo left to eager Python, having met what it cannot trace.
        compile_ns: nanoseconds that all that took. A backward pass that is compiled when it runs
            for the first time is not in it.
    """

    frames: int = 0
    graphs: int = 0
    breaks: int = 0
    skipped: int = 0
    compile_ns: int = field(default=0, compare=False)

    def note(self, result: FrameResult) -> None:
        """Count what one frame came to."""
        self.frames += 1
        self.graphs += result.graphs
        self.breaks += bool(result.break_reason) and not result.skipped
        self.skipped += result.skipped


@dataclass(frozen=True, slots=True)
class Attempt:
    """One trace of a frame, with what the backend compiled in it.

    Attributes:
        failed_at: what it failed at; empty if its result is in use.
        begun_ns: when it began, by `time.perf_counter_ns`.
        ns: nanoseconds that it took.
    """

    failed_at: str
    begun_ns: int
    ns: int


@dataclass(frozen=True, slots=True)
class CompiledFrame:
    """One compilation of a frame.

    Attributes:
        site: the first instruction of the frame's own code. Its function may be what goes on after
            a break.
        function: the function of the program that it is of.
        attempts: in their order.
        operators: of each graph that was handed to the backend, the number of operators.
        break_reason: why the graph ended before the frame did, in Dynamo's words; empty if it did
            not.
        break_at: the file and line that Dynamo names for it; None if it names none.
        skipped: True if Dynamo skipped the frame, which then runs eagerly.
        mended: what does not break its graph any more.
        left: where a break was left.
    """

    site: Site
    function: CodeId
    attempts: tuple[Attempt, ...]
    operators: tuple[int, ...] = ()
    break_reason: str = ""
    break_at: tuple[str, int] | None = None
    skipped: bool = False
    mended: tuple[Site, ...] = ()
    left: tuple[Site, ...] = ()

    @property
    def result(self) -> FrameResult:
        """What it counts for."""
        return FrameResult(len(self.operators), self.break_reason, self.skipped)

    @property
    def ns(self) -> int:
        """Nanoseconds that all attempts took together."""
        return sum(attempt.ns for attempt in self.attempts)
