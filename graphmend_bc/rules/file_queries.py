"""Questions about the file system: whether a path is there, and what it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import NestedUserFunctionVariable

from graphmend_bc.catalog.first_use import is_same
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.markers import outlined
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Site

_KINDS = (os.path.isfile, os.path.isdir, os.path.islink)
_QUESTIONS: Final = tuple(
    function
    for function in (os.path.exists, os.path.lexists, *_KINDS)
    if isinstance(function, FunctionType)
)
"""Functions written in Python, which Dynamo traces up to what asks the system."""


def _question_by(code: CodeType) -> FunctionType | None:
    """The function with a code object, or with one that it is a copy of."""
    return next((known for known in _QUESTIONS if is_same(known.__code__, code)), None)


@dataclass(slots=True, eq=False)
class FileAnswers(Feature):
    """What was asked in an attempt, with the answers: a file may come and go in the meantime."""

    stays: ClassVar[bool] = True

    known: dict[str, bool] = field(default_factory=dict)


def _asked(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    assert isinstance(function, NestedUserFunctionVariable)
    ask = _question_by(function.get_code())
    path = args[0].realize() if len(args) == 1 else None
    known = path.as_python_constant() if path is not None and path.is_python_constant() else None
    if ask is None or type(known) is not str:
        raise Refused("probe-not-fixed", "The path is no constant.")
    if tx.export:
        raise Refused("under-export")
    _check_first(compilation)
    question: Any = partial(ask, known)
    answers = compilation.trace.of(FileAnswers).known
    name = f"{ask.__name__} {known!r}"
    answer = answers.setdefault(name, question())
    guard_on(name, question, answer)
    compilation.trace.used[site] = "probe"
    result: VariableTracker = ConstantVariable.create(answer)
    return result


def _check_first(compilation: Compilation) -> None:
    """Refuse where something may have made or removed a file since the function began."""
    trace = compilation.trace
    if trace.effects or (trace.recorder is not None and trace.recorder.foreign):
        raise Refused("probe-not-fixed", "A call that may write files runs before it.")
    if is_cached(trace):
        raise Refused("probe-not-fixed", "It is asked in a function that caches its results.")


asked_of_files = outlined(_asked)
"""Handler: what a function that asks about a path says."""


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and _question_by(site.code) is not None
    return {site.offset: Outline()} if known else None


FILES = Rule(
    "files",
    "probe",
    4,
    _matches,
    frozenset({"Attempted to call function marked as skipped"}),
    handler=asked_of_files,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.UNCACHED_CALLS}),
)
"""Whether a file is there is asked while tracing; a guard asks again."""

RULES = (FILES,)
