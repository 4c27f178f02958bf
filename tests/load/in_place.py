"""Rewrite a share of the conditions of all loaded functions of a folder, in place.

Each condition becomes a `Branch` call. In plain Python its predicate is a plain value, so the program
must do what it did. Left as they are: functions that look at frames, as an arm is a function of its own and
has a frame.
"""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass, field
from types import CodeType, FunctionType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.plan import LiftBranch, Plan
from graphmend_bc.rewriting.rewriter import rewrite
from graphmend_bc.rewriting.widest import widened

LOOK_AT_FRAMES = frozenset(
    {
        *("_getframe", "_getframemodulename", "currentframe", "f_back", "f_locals", "warn"),
        *("stack", "extract_stack", "format_stack", "walk_stack", "print_stack"),
        *("locals", "globals", "vars", "dir", "exec", "eval"),
    }
)
"""A function that names one of these is left as it is."""


@dataclass
class Rewriter:
    """Rewrites loaded functions, each once, and counts.

    Attributes:
        chance: decides for each condition.
        share: of the conditions, from 0 to 1.
        functions: how many code objects were rewritten.
        branches: how many conditions of them.
    """

    chance: random.Random
    share: float
    functions: int = 0
    branches: int = 0
    _new: dict[CodeType, CodeType] = field(default_factory=dict, repr=False)

    def rewrite_loaded(self, folder: str, but: tuple[str, ...] = ()) -> None:
        """Rewrite all functions that were loaded from a folder.

        Args:
            folder: its path, with a slash at the end.
            but: beginnings of paths below it that are left alone.
        """
        done = set(map(id, self._new.values()))
        for function in [f for f in gc.get_objects() if type(f) is FunctionType]:
            code = function.__code__
            path = code.co_filename
            is_left = id(code) in done or path[len(folder) :].startswith(but)
            if path.startswith(folder) and not is_left:
                function.__code__ = self._rewritten(code)

    def _rewritten(self, code: CodeType) -> CodeType:
        if code not in self._new:
            self._new[code] = self._rewrite(code)
        return self._new[code]

    def _rewrite(self, code: CodeType) -> CodeType:
        inner = tuple(self._rewrite(v) if type(v) is CodeType else v for v in code.co_consts)
        code = code.replace(co_consts=inner)
        plan = self._plan(code)
        if not len(plan):
            return code
        self.functions += 1
        self.branches += len(plan)
        return rewrite(code, plan).code

    def _plan(self, code: CodeType) -> Plan:
        plan = Plan()
        if LOOK_AT_FRAMES & {*code.co_names}:
            return plan
        for op in graph_of(code).listing.ops:
            if is_condition(op) and self.chance.random() < self.share:
                wider = plan.with_all({op.offset: LiftBranch("where")})
                plan = widened(code, plan, wider)
        return plan
