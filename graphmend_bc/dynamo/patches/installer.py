"""Put the seams in, and take them out again.

`table.py` has those that are the same whoever mends; those that call the mending state are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, MappingProxyType
from typing import Any, Protocol

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.before_graph.graph_slice import end_lookup
from graphmend_bc.dynamo.frames.saved_packages import SavedPackages
from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.dynamo.patches.containment import Tell, answering, contained, or_stock
from graphmend_bc.dynamo.patches.seam import Seam, SeamPlace, registered
from graphmend_bc.dynamo.patches.table import SEAMS
from graphmend_bc.dynamo.rollback import eager_fallback, stances
from graphmend_bc.dynamo.rollback.cache_entries import misses_computed
from graphmend_bc.versions import MissingSeamError

CompileFrame = Callable[[Callable[..., Any], CodeType, list[Any], dict[str, Any]], Any]
"""Compiles a frame; gets Dynamo's own function, the code object and the other arguments."""


class Mending(Protocol):
    """What the seams call.

    Attributes:
        lost: capabilities and features that rest on a seam that is not there or to no use, each
            with what is wrong.
    """

    lost: Mapping[str, str]

    def unguarded(self, code: CodeType, error: Exception) -> None:
        """The guards of a frame that was mended could not be made."""

    def forget(self) -> None:
        """Dynamo was reset."""

    def is_awaited(self, code: CodeType) -> bool:
        """Whether it is of our doing that a frame has no compiled version that fits."""

    def needs_guards(self) -> bool:
        """Whether a frame's guards say what eager Python would have asked its tensors."""


@dataclass(slots=True)
class _Switch:
    """Whether the seams of one installation still mend.

    They may be reached after they were taken out, if somebody wrapped them meanwhile.
    """

    on: bool = True


@dataclass(frozen=True, slots=True)
class _Put:
    """What was put in a place, and what it takes to put that back."""

    place: SeamPlace
    before: Any
    ours: Any
    stays: bool

    def undo(self) -> None:
        # Somebody may have wrapped us since; leaving theirs in place is the lesser harm.
        if self.place.value() is self.ours:
            self.place.put(self.before)


class Installer:
    """Installs the seams for one mending state and takes them out again.

    Args:
        state: told of what happens to the frames that were compiled.
        compile_frame: compiles one frame.
        tell: is told of an error of ours after which stock's own function is called.
        bypassed: labels of seams that this torch has but goes around, each with what is wrong.
    """

    def __init__(
        self,
        state: Mending,
        compile_frame: CompileFrame,
        tell: Tell,
        bypassed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self._compile_frame = compile_frame
        self._tell = tell
        self._bypassed = bypassed
        self._switch = _Switch()
        self._put: list[_Put] = []
        self._packages = SavedPackages()

    def all(self) -> tuple[Seam, ...]:
        """The seams, in the order in which they are put in."""
        ours = _of_state(self._state, self._compile_frame, self._switch, self._tell)
        return (*ours, *SEAMS, *registered)

    def install(self, without: str = "") -> None:
        """Put all seams in place that this torch has. If one cannot be put in, none is.

        Args:
            without: label of a seam that is left out, for showing what it is good for.

        Raises:
            MissingSeamError: this torch lacks what every mend rests on, or goes around it.
        """
        self._switch = _Switch()
        seams = [seam for seam in self.all() if seam.label != without]
        found = [(seam, *self._places(seam)) for seam in seams]
        places = [(seam, place) for seam, there, _ in found for place in there if seam.replaced]
        self._state.lost = {n: lost for s, _, lost in found if lost for n in s.needed_by}
        try:
            for seam, place in places:
                self._replace(seam, place)
        except BaseException:
            self._take_out(for_good=True)
            raise
        facts.HANDLERS_OF_BUILTINS.clear()
        self._packages.keep_out()

    def remove(self) -> None:
        """Put back what was there; what this torch lacks is no longer of interest."""
        self._take_out(for_good=False)

    def _places(self, seam: Seam) -> tuple[list[SeamPlace], str]:
        """Where a seam goes, and what is wrong with that, if anything is."""
        lost, places = self._bypassed.get(seam.label, ""), list[SeamPlace]()
        try:
            places = seam.places()
        except MissingSeamError as missing:
            if seam.needed_by == ESSENTIAL:
                raise
            lost = missing.lost
        if lost and seam.needed_by == ESSENTIAL:
            raise MissingSeamError(lost)
        return places, lost

    def _take_out(self, *, for_good: bool) -> None:
        self._switch.on = False
        self._state.lost = {}
        self._packages.let_in()
        while self._put:
            put = self._put.pop()
            if for_good or not put.stays:
                put.undo()
        facts.HANDLERS_OF_BUILTINS.clear()

    def _replace(self, seam: Seam, place: SeamPlace) -> None:
        before = place.value()
        if seam.stays and hasattr(before, "__graphmend_bc__"):
            return
        ours = place.made(contained(seam, self._tell))
        if ours is before:
            return
        if seam.stays:
            ours.__graphmend_bc__ = True
        # Noted first: an interrupt may come between the two.
        self._put.append(_Put(place, before, ours, seam.stays))
        place.put(ours)


def _of_state(state: Mending, ours: CompileFrame, switch: _Switch, tell: Tell) -> tuple[Seam, ...]:
    """The seams that call the mending state. Without them nothing is mended."""

    def compiling(stock: Callable[..., Any]) -> Callable[..., Any]:
        mended = or_stock(ours, stock, tell)

        def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            end_lookup(args[1])  # the frame's locals
            return (mended if switch.on else stock)(code, *args, **kwargs)

        return compile_frame

    def converting(stock: Callable[..., Any]) -> Callable[..., Any]:
        return eager_fallback.convert(state.unguarded, state.is_awaited, stock)

    def calling_back(stock: Callable[..., Any]) -> Callable[..., Any]:
        def is_awaited(frame: Any) -> bool:
            return state.is_awaited(frame.f_code) or misses_computed(frame)

        return stances.stance_calls_back(answering(is_awaited, False, tell), stock)

    def skipping_guards(stock: Callable[..., bool]) -> Callable[..., bool]:
        return stances.skipping_guards(answering(state.needs_guards, True, tell), stock)

    def resetting(stock: Callable[..., Any]) -> Callable[..., Any]:
        def reset() -> None:
            if switch.on:
                state.forget()
            stock()

        return reset

    convert = "torch._dynamo.convert_frame"
    return (
        Seam(
            convert,
            ("compile_frame",),
            compiling,
            "one call per frame to compile: the mending loop runs around it",
            outermost=True,
        ),
        Seam(
            convert,
            ("_compile",),
            converting,
            "one call of a frame is left to eager Python",
            outermost=True,
        ),
        Seam(
            "torch._dynamo.eval_frame",
            ("_callback_from_stance",),
            calling_back,
            "a stance against compiling is no error where what is lacking was compiled, or is"
            " lacking because a condition is guarded",
            contains_itself=True,
        ),
        Seam(
            "torch._dynamo.eval_frame",
            ("_is_skip_guard_eval_unsafe_stance",),
            skipping_guards,
            "guards that choose between arms are evaluated whatever the stance is",
            contains_itself=True,
        ),
        Seam(
            "torch._dynamo",
            ("reset",),
            resetting,
            "`torch._dynamo.reset()` forgets what was mended",
            outermost=True,
        ),
    )
