"""What runs around the graph of a frame that is compiled ahead of time, and is saved with it.

The code that Dynamo generates holds it as constants, which torch pickles with the code. The process
that loads the function imports this library and need not switch it on.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, ModuleType
from typing import Any

from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.misc import NewGlobalVariable

from graphmend_bc.dynamo.before_graph.guarded_constants import SavedAnswers, answer_of
from graphmend_bc.dynamo.deferral.logging_levels import is_by_name
from graphmend_bc.dynamo.deferral.preflight import Preflight
from graphmend_bc.dynamo.frames.generated_code import as_the_users, graphs_in
from graphmend_bc.dynamo.graph.input_aliasing import Layout
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.host_values.host_value import Reads
from graphmend_bc.dynamo.host_values.readback import reading
from graphmend_bc.dynamo.rollback.deopt_wrapper import switched_off
from graphmend_bc.dynamo.rollback.raised_errors import telling
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.speculation.check_outputs import CheckOutputs
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.deopt import with_deopt
from graphmend_bc.rewriting.saved_code import with_constants
from graphmend_bc.runtime.deferral.code_uses import uses_of
from graphmend_bc.runtime.deferral.effect_preflight import EffectPreflight
from graphmend_bc.runtime.deferral.effects import naming_lost_effects
from graphmend_bc.runtime.deoptimise import Deoptimise, Deoptimizer
from graphmend_bc.runtime.told_once import told_once
from graphmend_bc.versions import running_versions

_OURS = "__gm_"
_BUILTINS = "__builtins_dict__"
_AS_IT_IS = partial(told_once, "runs a frame's own code")
_is_operators = telling(_AS_IT_IS)


def check_savable(compilation: Compilation, effects: SideEffects) -> None:
    """Refuse a frame around whose graph something runs that cannot be saved.

    Args:
        compilation: what is being compiled, with all that was traced.
        effects: what the trace changes of the program's objects.

    Raises:
        SiteRefused: something cannot.
    """
    trace, problem = compilation.trace, ""
    if any(type(feature) is not Reads for feature in trace.obliged(Feature.wrapped)):
        problem = "What runs around its graph cannot be saved."
    elif _sets_globals(compilation.code) or any(
        isinstance(item, NewGlobalVariable) for item in effects.store_attr_mutations
    ):
        problem = "It sets a global, which is another one where it is loaded."
    if problem:
        raise SiteRefused(Refused("under-export", problem), *trace.used)


def _sets_globals(code: CodeType) -> bool:
    """Whether code, or code within it, assigns or deletes a global."""
    sets = {"STORE_GLOBAL", "DELETE_GLOBAL"}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return any(op.opname in sets for op in dis.get_instructions(code)) or any(
        map(_sets_globals, inner)
    )


def make_savable(
    result: Any, compilation: Compilation, module_globals: Mapping[str, Any], *, may_leave: bool
) -> None:
    """Change the generated code of a frame so that it can be saved, in place.

    Args:
        result: what Dynamo's `compile_frame` returned.
        compilation: what was compiled.
        module_globals: the frame's globals.
        may_leave: whether the frame's original code may have to run.
    """
    watch = _watch_of(compilation.trace)
    constants = _constants(result.bytecode, module_globals)
    if not (may_leave or watch or any(name.startswith(_OURS) for name in constants)):
        return
    watches = {} if watch is None else dict.fromkeys(graphs_in(result.bytecode), watch)
    result.bytecode = with_constants(result.bytecode, constants, watches)
    if may_leave:
        code = as_the_users(compilation.code)
        reads = {path[0] for path in uses_of(code).paths}
        needed = frozenset(reads & module_globals.keys())
        original = SavedOriginal(code, str(module_globals.get("__name__", "")), needed)
        result.bytecode = with_deopt(result.bytecode, compilation.code, original)


def _watch_of(trace: Trace) -> SavedWatch | None:
    """What watches the graph; None if it is called as it is."""
    rollback, reads, ahead = trace.of(Rollback), trace.known(Reads), trace.known(Preflight)
    undo, layout, outputs = rollback.undo, rollback.layout, len(trace.our_outputs())
    methods = {} if reads is None else reads.with_question(trace)
    known = trace.known(SavedAnswers)
    answers = () if known is None else tuple(known.asked)
    if undo is None and layout is None and not (outputs or methods or trace.effects or answers):
        return None
    return SavedWatch(
        outputs,
        methods,
        answers,
        undo,
        layout,
        trace.of(Checks).outputs if trace.speculations else None,
        None if ahead is None or undo is None else ahead.looks,
        tuple(map(str, trace.effects)),
    )


def _constants(code: CodeType, module_globals: Mapping[str, Any]) -> dict[str, object]:
    """The globals that generated code loads and that are saved with it."""
    found: dict[str, object] = {}
    for name in module_globals.keys() & set(code.co_names):
        value = module_globals[name]
        if name.startswith(_BUILTINS):
            found[name] = {name: v for name, v in vars(builtins).items() if _is_builtin(v)}
        elif name.startswith(_OURS) or isinstance(value, ModuleType) or is_by_name(value):
            found[name] = value
    return found


def _is_builtin(value: object) -> bool:
    return isinstance(value, (BuiltinFunctionType, type))


@dataclass(slots=True, eq=False)
class SavedWatch:
    """Watches a graph: its results are used only if nothing was wrong.

    Attributes:
        outputs: how many of its outputs, the last ones, are for us.
        methods: by position, the tensor method that reads an output.
        answers: what the process must be asked and answer.
        undo: how to take it back; None if there is no need to.
        layout: how its inputs must share memory; None if it does not matter.
        checks: what its last outputs say of speculations; None if there are none.
        ahead: told how to take back what has just run.
        lost: the deferred calls that do not run if it raises.
    """

    outputs: int
    methods: Mapping[int, str]
    answers: Sequence[tuple[Callable[[], Any], object]]
    undo: StateSnapshot | None
    layout: Layout | None
    checks: CheckOutputs | None
    ahead: EffectPreflight | None
    lost: Sequence[str]
    _watched: tuple[Any, Callable[..., Any]] | None = field(default=None, init=False)

    def __call__(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """The graph without the outputs that are for us.

        It raises `Deoptimise`, and leaves nothing behind, if its results must not be used.
        """
        known = self._watched
        if known is None or known[0] is not graph:
            read = reading(graph, self.methods)
            run = self._tried if self.undo is not None else self._simply
            known = self._watched = graph, naming_lost_effects(partial(run, read), self.lost)
        return known[1]

    def __reduce__(self) -> tuple[Any, ...]:
        named = (name for name in self.__slots__ if name != "_watched")
        return SavedWatch, tuple(getattr(self, name) for name in named)

    def _simply(self, graph: Callable[..., Any], *args: Any) -> Any:
        self._check(args)
        return self._without_ours(graph(*args))

    def _tried(self, graph: Callable[..., Any], *args: Any) -> Any:
        assert self.undo is not None
        self._check(args)
        with self.undo.alone(args):
            try:
                before, results = self.undo.remember(args), None
            except Exception as error:
                _AS_IT_IS(error)
                raise Deoptimise from None
            try:
                results = graph(*args)
            except BaseException as error:
                if not _is_operators(error):
                    before.restore_modes()
                    raise
            # Outside of the handler: what was raised is not the context of what comes now.
            if results is None or (self.checks is not None and self.checks.wrong(results)):
                before.restore()
                raise Deoptimise
            if self.ahead is not None:
                self.ahead.undone.restore = before.restore
            return self._without_ours(results)

    def _check(self, args: Sequence[Any]) -> None:
        try:
            holds = self.layout is None or self.layout.holds(args)
            for ask, answer in self.answers:
                found = answer_of(ask)
                holds = holds and type(found) is type(answer) and bool(found == answer)
        except Exception as error:
            _AS_IT_IS(error)
            holds = False
        if not holds:
            raise Deoptimise

    def _without_ours(self, results: Any) -> Any:
        return results[: -self.outputs] if self.outputs else results


@dataclass(frozen=True, slots=True, eq=False)
class SavedOriginal:
    """The original code of a frame, for the process that loads what was compiled.

    Attributes:
        code: the code object.
        module: the name of the module whose globals it uses.
        needed: the names of those globals.
    """

    code: CodeType
    module: str
    needed: frozenset[str]

    def __call__(self, cells: tuple[CellType, ...], values: tuple[Any, ...]) -> tuple[bool, Any]:
        """Run it from its start; see `Deoptimizer.run`."""
        given = sys._getframe(1).f_globals
        run = Deoptimizer(self.code, self._globals(given)).run
        result: tuple[bool, Any] = switched_off(run)(cells, values)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (running_versions(), self.code, self.module, self.needed)

    def _globals(self, given: dict[str, Any]) -> dict[str, Any]:
        """The globals to run with: those that the function was loaded with, or the module's.

        Raises:
            RuntimeError: it asks for some that neither has.
        """
        for known in self._candidates(given):
            if self.needed <= known.keys():
                return known
        missing = ", ".join(sorted(self.needed - _globals_of(self.module).keys()))
        raise RuntimeError(
            f"The graph of {self.code.co_qualname} ({self.code.co_filename}:"
            f"{self.code.co_firstlineno}) cannot be used in this call, and its original code needs"
            f" {missing}, which module {self.module!r} does not have. Load the function with"
            " `f_globals=` and the globals of its module."
        )

    def _candidates(self, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "__name__" in given:
            # torch gives a copy of `f_globals`: what the program changes is seen in the module.
            if (live := sys.modules.get(str(given["__name__"]))) is not None:
                yield vars(live)
            yield given
        yield _globals_of(self.module)
        yield given


def _globals_of(module: str) -> dict[str, Any]:
    """Those of a module that can be imported; of another one none."""
    try:
        return vars(importlib.import_module(module))
    except ImportError:
        return {}


def _loaded(
    versions: tuple[str, str, str], code: CodeType, module: str, needed: frozenset[str]
) -> SavedOriginal:
    """What `SavedOriginal` is loaded by.

    Raises:
        RuntimeError: it was saved by other versions, whose code may do something else here.
    """
    if versions != (here := running_versions()):
        names = ("Python", "torch", "graphmend_bc")
        saved, running = (
            ", ".join(f"{name} {version}" for name, version in zip(names, each, strict=True))
            for each in (versions, here)
        )
        raise RuntimeError(
            f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) was compiled ahead of"
            f" time with {saved}; this is {running}. Compile it again."
        )
    return SavedOriginal(code, module, needed)
