"""The attempts at one frame: break met -> site found -> plan -> rewrite -> re-feed -> proof.

One call of Dynamo's `compile_frame` becomes a few attempts. Each traces the frame to its end or to
the first break; a break that can be mended changes the plan of the code object it is in, and the
next attempt traces the rewritten code. The last attempt is Dynamo's own, with the caller's
settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial, reduce
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphmend_bc import config
from graphmend_bc.dynamo import attempt
from graphmend_bc.dynamo.breaks import Break, break_of, gb_id_of
from graphmend_bc.dynamo.compilation import Compilation, SiteRefused, Trace, running
from graphmend_bc.dynamo.way_back import give_way_back
from graphmend_bc.ladder import name_of_rung, rungs_above, rungs_ahead
from graphmend_bc.reasons import Refused
from graphmend_bc.reports import Decline, FrameResult, Mend
from graphmend_bc.rewrites import Key, site_of
from graphmend_bc.rewriting import Plan
from graphmend_bc.rewriting.defer import CALLS, OBSERVERS
from graphmend_bc.rules.registry import rungs_at
from graphmend_bc.rules.rule import Met, Rung
from graphmend_bc.runtime import Site
from graphmend_bc.turning import Turning

if TYPE_CHECKING:
    from graphmend_bc.mender import Mender

log = logging.getLogger("graphmend_bc")
mends_log = logging.getLogger("graphmend_bc.mends")
declines_log = logging.getLogger("graphmend_bc.declines")

PROGRAM_ERRORS = frozenset({"Observed exception"})
"""Break types that are the program's own exceptions: there is nothing to mend."""

UNSAFE_SIDE_EFFECT = "HOP: Unsafe side effect"
"""Dynamo's break type where an arm changes Python state outside itself."""


class Frame:
    """The attempts at one frame."""

    def __init__(
        self,
        mender: Mender,
        stock: Callable[..., Any],
        code: CodeType,
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.mender = mender
        self.stock = stock
        self.code = code
        self.call = attempt.Arguments(args, kwargs)
        self.plans: dict[Key, Plan] = {}
        self.breaks: dict[Site, Break] = {}
        self.gb_types: dict[Site, str] = {}
        self.declined: dict[Site, Decline] = {}
        self.rung: dict[Site, str] = {}
        self.passed_over: dict[Site, list[Refused]] = {}
        self.unmet: set[Site] = set()  # planned ahead, and not met by a trace so far
        self.turning = Turning()
        self.captures_work = True
        self.captured: set[Site] = set()
        self.off = not mender.mends
        self.wants_errors = self.call.wants_errors

    def compile(self) -> Any:
        if not self.off:
            for _ in range(config.retrace_limit):
                compilation = self._compilation()
                try:
                    with attempt.breaks_are_errors():
                        result = self._trace(compilation, self.call.with_breaks)
                except Exception as error:
                    attempt.clean_up(error)
                    try:
                        if self._learn(compilation, error) or self._turn(compilation, error):
                            continue
                    except Exception as failure:
                        log.exception("graphmend_bc could not place a break of %s.", self.code)
                        return self._compile_unmended(failure)
                    if self.wants_errors and attempt.is_break(error):
                        self._finish(compilation.trace, {})
                        self._explain(error)
                        raise
                    if not attempt.is_break(error):
                        return self._compile_unmended(error)
                    break
                attempt.restore_error_setting(result)
                if not self.wants_errors and attempt.is_empty(result):
                    break  # stock skips such frames, which only its own settings do
                return self._commit(compilation, result)
        return self._compile_as_stock()

    def _trace(self, compilation: Compilation, call: attempt.Arguments) -> Any:
        """One attempt by Dynamo's own `compile_frame`."""
        code = self.code_for(self.code)
        with running(compilation), attempt.capturing(compilation.captures):
            return self.stock(code, *call.args, **call.kwargs)

    def _compile_unmended(self, error: Exception) -> Any:
        """Nothing of ours takes part; if anything did before, the error may have been ours."""
        rewritten = any(self.plans.values())
        self.off = True
        if rewritten:
            site = site_of(self.code, 0)
            log.warning(
                "graphmend_bc leaves %s as it is, because tracing its rewritten code failed: %r",
                site,
                error,
            )
        return self._compile_as_stock()

    def _compile_as_stock(self) -> Any:
        """The attempt with the caller's settings: breaks that are left are Dynamo's to handle."""
        for site in self.unmet:
            self._take_out(site)
        compilation = self._compilation()
        try:
            result = self._trace(compilation, self.call)
        except SiteRefused as refused:
            if not self._stop_capturing(refused.refused, refused.sites):
                if self.declined.keys() >= set(refused.sites):
                    raise
                for site in refused.sites:
                    self._drop(site, refused.refused)
            return self._compile_as_stock()
        except Exception as error:
            if not attempt.is_break(error) and self._stop_capturing(_not_captured(error)):
                attempt.clean_up(error)
                return self._compile_as_stock()
            self._finish(compilation.trace, {})
            self._tell(compilation, error)
            raise
        return self._commit(compilation, result)

    def _drop(self, site: Site, refused: Refused) -> None:
        """Decline a site."""
        self._decline(site, refused)
        self._take_out(site)

    def _take_out(self, site: Site) -> None:
        """Take a site out of every plan that has it."""
        for key, plan in self.plans.items():
            if key.holds(site) and site.offset in plan:
                self.plans[key] = plan.without(site.offset)

    def _commit(self, compilation: Compilation, result: Any) -> Any:
        """Accept an attempt."""
        trace = compilation.trace
        if trace.whole and not trace.proven:  # without a graph nothing has happened yet
            trace.ahead.can_miss = True
        if (
            trace.ahead.can_miss
            or trace.undo is not None
            or trace.apart is not None
            or trace.functional
        ):
            give_way_back(result, self.code, self.call.module_globals)
        self.turning.remember(self.mender.history)
        if trace.tally is not None:
            self.mender.remember_tally(trace.tally)
        self._finish(trace, dict.fromkeys(trace.captured, "capture") | trace.used)
        self._tell(compilation, result)
        return result

    def _compilation(self) -> Compilation:
        return Compilation(
            code_for=self.code_for,
            may_mend=not self.off,
            likely=self._likely,
            missed=partial(self.mender.missed, self.code),
            declined=self.declined,
            captures=any(plan.captures for plan in self.plans.values()),
            note_capture=self._note_capture,
        )

    def _note_capture(self, code: CodeType, offset: int) -> Site:
        """The user's instruction at which Dynamo made a symbol."""
        original, place = self.mender.rewrites.original(code, offset)
        site = site_of(original, max(place, 0))
        self.captured.add(site)
        return site

    # Plans

    def code_for(self, code: CodeType) -> CodeType:
        """The code object to trace in place of `code`."""
        mender = self.mender
        if self.off or mender.rewrites.is_rewritten(code) or code in mender.left_alone:
            return code
        key = Key.of(code)
        try:
            if key not in self.plans:
                known = mender.proven.get(key) if mender.remember else None
                self.plans[key] = mender.without_given_up(key, known or self._first_plan(code))
            return mender.rewrites.rewritten(code, self.plans[key])
        except Refused as refused:
            log.debug("graphmend_bc leaves %s alone: %s", code, refused)
        except Exception:
            log.exception("graphmend_bc could not rewrite %s; it is compiled as stock would.", code)
        self.plans[key] = Plan()
        return code

    def _first_plan(self, code: CodeType) -> Plan:
        """Effects are marked before Dynamo meets them: a mark costs less than another attempt."""
        names = OBSERVERS | {getattr(effect, "__name__", "") for effect in config.effects}
        return Plan(effects=self.mender.rewrites.likely_effects(code, names))

    def _learn(self, compilation: Compilation, error: Exception) -> bool:
        """Change a plan after a failed attempt; False if nothing can be done about it."""
        trace = compilation.trace
        self.unmet -= {*trace.used, *trace.refused}
        self.gb_types |= trace.gb_types
        if isinstance(error, SiteRefused):
            known = len(self.declined)
            if self._stop_capturing(error.refused, error.sites):
                return True
            # A resume function holds sites that no plan has; declined, they mean nothing.
            return self._climb_all(error.sites, error.refused) or len(self.declined) > known
        found = break_of(error)
        if found is not None and found.gb_type in PROGRAM_ERRORS:
            return False
        if trace.functional and not trace.arms and not attempt.is_break(error):
            refused = Refused("backend-refuses", str(error).split("\n")[0])
            return self._climb_all(dict.fromkeys(trace.functional.values()), refused)
        if not attempt.is_break(error) and self._stop_capturing(_not_captured(error)):
            return True
        if found is None or not attempt.is_break(error):
            in_arm = bool(trace.arms) and attempt.is_dynamos(error)
            first_line = str(error).split("\n")[0]
            return in_arm and self._climb(trace.arms[-1], Refused("arm-does-not-trace", first_line))
        original, offset = self.mender.rewrites.original(found.code, found.offset)
        if offset < 0:
            return False
        site = site_of(original, offset)
        if trace.arms and found.gb_type == UNSAFE_SIDE_EFFECT:
            return self._climb(
                trace.arms[-1], Refused("arm-changes-state", f"It does so at {site}.")
            )
        self.breaks.setdefault(site, found)
        refused = trace.refused.get(site) or Refused(
            "call-not-traced" if site.opname in CALLS else "arm-does-not-trace"
        )
        if self._is_planned(site):
            if site in self._captures() and not compilation.captures:
                return True  # the plan was found when the trace had begun
            return self._climb(site, refused)
        if self._start(original, site):
            return True
        if self._stop_capturing(Refused("capture-fails", f"Tracing stopped at {site}.")):
            self.declined.pop(site, None)
            return True
        if trace.arms:
            return self._climb(
                trace.arms[-1], Refused("arm-does-not-trace", f"It breaks at {site}.")
            )
        return False

    def _turn(self, compilation: Compilation, error: Exception) -> bool:
        """Guess otherwise, if the way that was taken for granted does not trace."""
        guesses = [guessed for guessed, _ in compilation.trace.guesses]
        found = break_of(error)
        if found is not None and found.gb_type in PROGRAM_ERRORS and attempt.is_break(error):
            return False
        stopped = str(error) if found is None else f"{found.code.co_qualname} {found.offset}"
        return self.turning.turn(guesses, stopped)

    def _likely(self, site: Site, occurrence: int, default: bool) -> bool:
        known = self.mender.likely(site, occurrence, default)
        return self.turning.likely(site, occurrence, known)

    def _captures(self) -> list[Site]:
        """The sites that are planned to be captured."""
        return [
            site_of(key.code, offset)
            for key, plan in self.plans.items()
            for offset in plan.captures
        ]

    def _stop_capturing(self, refused: Refused, sites: Iterable[Site] | None = None) -> bool:
        """Capture nothing in this frame any more.

        Args:
            refused: why it does not work.
            sites: where it does not; None for all.

        Returns:
            False if nothing was captured there.
        """
        planned = self._captures()
        if not planned or (sites is not None and self.captured.isdisjoint(sites)):
            return False
        self.captures_work = False
        return self._climb_all(planned, refused)

    def _is_planned(self, site: Site) -> bool:
        return any(key.holds(site) and site.offset in plan for key, plan in self.plans.items())

    def _start(self, code: CodeType, site: Site) -> bool:
        """Put a site on the first rung that carries it; False if there is none."""
        try:
            if code in self.mender.left_alone:
                raise Refused("left-alone")
            if site in self.mender.given_up:
                raise self.mender.given_up[site]
            if site in self.declined:
                return False
            self._try(code, site, self._rungs(code, site), None)
        except Refused as refused:
            self._decline(site, refused)
            return False
        self._plan_ahead(code, self.breaks[site])
        return True

    def _plan_ahead(self, code: CodeType, found: Break) -> None:
        """Plan the conditions of a code object that look like tensors, once one of them was.

        Each would cost an attempt to find. What no trace meets is taken out again.
        """
        key = Key.of(code)
        ahead = [
            (site, rung)
            for site, rung in rungs_ahead(code)
            if site.offset not in self.plans[key]
            and site not in self.declined
            and site not in self.mender.given_up
        ]
        while ahead:
            plan = reduce(lambda plan, entry: entry[1].apply(plan), ahead, self.plans[key])
            try:
                self.mender.rewrites.rewritten(code, plan)
            except Refused:
                ahead = ahead[: len(ahead) // 2]
                continue
            self.plans[key] = plan
            for site, rung in ahead:
                self.rung[site] = rung.name
                self.breaks.setdefault(site, found)
                self.unmet.add(site)
            return

    def _rungs(self, code: CodeType, site: Site) -> tuple[Rung, ...]:
        rungs = rungs_at(Met(code, site.offset, self._gb_type(site)))
        if self.captures_work:
            return rungs
        return tuple(rung for rung in rungs if rung.name != "capture")

    def _gb_type(self, site: Site) -> str:
        found = self.breaks.get(site)
        return found.gb_type if found else self.gb_types.get(site, "")

    def _try(
        self, code: CodeType, site: Site, rungs: tuple[Rung, ...], refused: Refused | None
    ) -> bool:
        """Plan the first of the rungs that the bytecode allows; else decline."""
        key = Key.of(code)
        plan = self.plans.get(key, Plan()).without(site.offset)
        for rung in rungs:
            if refused is not None and not rung.helps(refused):
                continue
            try:
                wider = rung.apply(plan)
                self.mender.rewrites.rewritten(code, wider)
            except Refused as error:
                refused = error
                self._note_refusal(site, error)
                continue
            self.plans[key] = wider
            self.rung[site] = rung.name
            return True
        self.plans[key] = plan
        raise refused or Refused("unhandled-instruction")

    def _climb(self, site: Site, refused: Refused) -> bool:
        """Put a planned site on its next rung, or take it out of its plan."""
        self._note_refusal(site, refused)
        for key, plan in list(self.plans.items()):
            if not (key.holds(site) and site.offset in plan):
                continue
            name = self.rung.get(site) or name_of_rung(plan, site.offset)
            try:
                rungs = rungs_above(self._rungs(key.code, site), name, refused)
            except Refused:
                rungs = ()
            try:
                return self._try(key.code, site, rungs, refused)
            except Refused as last:
                self.plans[key] = plan.without(site.offset)
                self._decline(site, last)
                return True
        self._decline(site, refused)
        return False

    def _climb_all(self, sites: Iterable[Site], refused: Refused) -> bool:
        changed = [self._climb(site, refused) for site in sites]
        return any(changed)

    def _note_refusal(self, site: Site, refused: Refused) -> None:
        self.passed_over.setdefault(site, []).append(refused)

    # Telling

    def _decline(self, site: Site, refused: Refused) -> None:
        gb_type = self._gb_type(site)
        before = [r for r in self.passed_over.get(site, ()) if str(r) != str(refused)]
        if before and refused.reason.code == "call-not-traced":
            # An earlier refusal says more.
            refused, before = before[0], []
        decline = Decline.of(refused, site, gb_type, gb_id_of(gb_type), tuple(map(str, before)))
        self.declined.setdefault(site, decline)

    def _finish(self, trace: Trace, used: dict[Site, str]) -> None:
        """Report what this frame came to and remember the plans that worked."""
        for site, strategy in used.items():
            if strategy == "hoist":
                self.mender.note_hoist(site)
            gb_type = self._gb_type(site) or trace.gb_types.get(site, "")
            passed_over = tuple(str(refused) for refused in self.passed_over.get(site, ()))
            mend = Mend(strategy, site, gb_type, gb_id_of(gb_type), passed_over)
            if self.mender.report.add(mend):
                mends_log.info("mended %s", mend)
        for decline in self.declined.values():
            if decline.site not in used and self.mender.report.add(decline):
                declines_log.info("%s", decline)
        self.unmet -= used.keys()
        for site in self.unmet:
            self._take_out(site)
        for key, plan in self.plans.items():
            proven = {site.offset for site in used if key.holds(site)}
            if plan and plan.branches <= proven:
                self.mender.proven[key] = plan

    def _tell(self, compilation: Compilation, outcome: Any) -> None:
        result = FrameResult(
            graphs=compilation.graphs,
            break_reason=attempt.break_reason(outcome),
            skipped=isinstance(outcome, Exception)
            and not self.wants_errors
            and attempt.is_break(outcome),
        )
        for listener in self.mender.on_frame:
            listener(result)

    def _explain(self, error: BaseException) -> None:
        """Add our reasons below Dynamo's own message."""
        for decline in self.declined.values():
            error.add_note(f"graphmend_bc could not mend this break.\n{decline}")


def _not_captured(error: Exception) -> Refused:
    return Refused("capture-fails", str(error).strip().split("\n")[0])
