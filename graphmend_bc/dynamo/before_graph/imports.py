"""Imports inside a function: what they find is known while tracing, and guarded on.

Dynamo imports for real while it traces. An import that fails ends the trace of the whole frame, and
what stands in `sys.modules` is not looked at again.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, ModuleType
from typing import Any, ClassVar, Final, NoReturn

from torch._dynamo import exc, symbolic_convert
from torch._dynamo.bytecode_transformation import create_instruction
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.misc import PythonModuleVariable

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.before_graph.import_errors import ImportErrorVariable
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.graph.lambda_guards import guard_by
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import as_break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.imports import (
    are_held,
    error_of_from,
    first_missing,
    is_plain_module,
    why_from_fails,
    why_missing,
)

_STRATEGY: Final = "probe"
_BREAK: Final = "Import failure"


@dataclass(slots=True, eq=False)
class Imported(Feature):
    """Modules that imports of an attempt found.

    Attributes:
        modules: by their absolute names.
        kept: by the names of the globals that generated code finds them by.
    """

    order: ClassVar[int] = 90  # what ends the graph may mend more
    stays: ClassVar[bool] = True

    modules: dict[str, ModuleType] = field(default_factory=dict)
    kept: dict[str, ModuleType] = field(default_factory=dict)

    def on_graph_end(self, compilation: Compilation, tx: Any, is_break: bool) -> None:
        """Guard on them, if the frame is mended: stock's graph breaks may hide that it does not."""
        if compilation.is_mended and self.modules and not compilation.is_saved:
            loaded, kept = tuple(self.modules.items()), tuple(self.kept.items())
            importer = builtins.__import__
            guard_by(
                lambda _, module_globals: (
                    builtins.__import__ is importer
                    and are_held(sys.modules, loaded)
                    and are_held(module_globals, kept)
                ),
                f"imports find {', '.join(self.modules)}",
            )


def importing(stock: Callable[..., Any] | None) -> Callable[..., Any]:
    """`__import__`, as `torch._dynamo.symbolic_convert` sees it.

    Args:
        stock: what stands in that module for Python's own; None if nothing does.
    """

    def __import__(name: str, **kwargs: Any) -> Any:
        make = stock or builtins.__import__
        compilation, tx = current(), _translator()
        absolute = _absolute(name, kwargs["level"], kwargs["globals"])
        if compilation is None or tx is None or not absolute or not _takes_part(compilation, tx):
            return make(name, **kwargs)
        missing, names = first_missing(absolute), kwargs["fromlist"] or ()
        if not missing and not _is_loaded(absolute, names):
            _check_may_run(compilation, absolute)
        try:
            module = make(name, **kwargs)
        except ModuleNotFoundError as error:
            missing = missing or first_missing(absolute)  # its package was loaded just now
            if not missing or type(error) is not ModuleNotFoundError or error.name != missing:
                raise
            _raise(compilation, tx, error, missing, partial(why_missing, missing))
        top = absolute.partition(".")[0]
        used = absolute if names else top
        if sys.modules.get(used) is not module:
            raise _break(compilation, tx, f"Something else than {used} is imported.")
        _note(compilation, tx, {absolute, top}, used)
        return module

    return __import__


def import_from(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`_load_attr`, of which Dynamo makes `from module import name`."""

    def _load_attr(self: Any, attr: Any) -> None:
        compilation = current()
        is_from = self.current_instruction.opname == "IMPORT_FROM"
        if compilation is None or not is_from or not _takes_part(compilation, self):
            stock(self, attr)
            return
        owner = self.stack[-1].realize()
        effects, module = self.output.side_effects, getattr(owner, "value", None)
        if (
            not isinstance(owner, PythonModuleVariable)
            or attr in vars(module)
            or effects.has_pending_mutation_of_attr(owner, attr)
        ):
            stock(self, attr)
            return
        name, question = owner.value.__name__, partial(why_from_fails, owner.value, attr)
        if question():
            error = error_of_from(owner.value, attr)
            _raise(compilation, self, error, f"{name}.{attr}", question)
        if not is_plain_module(owner.value):
            _check_may_run(compilation, f"{name}.{attr}")
        try:
            stock(self, attr)
        except exc.ObservedAttributeError as error:
            raise _break(compilation, self, f"{name} lacks {attr}.") from error

    return _load_attr


def _translator() -> InstructionTranslatorBase | None:
    """The one that imports."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, InstructionTranslatorBase):
            return found
        frame = frame.f_back
    return None


def _takes_part(compilation: Compilation, tx: InstructionTranslatorBase) -> bool:
    is_on = compilation.may_mend and _STRATEGY in config.strategies
    return is_on and not tx.export


def _absolute(name: str, level: int, module_globals: Mapping[str, Any]) -> str:
    """The absolute name of what is imported; empty if it is not known."""
    if level == 0:
        return name
    spec = module_globals.get("__spec__")
    package = module_globals.get("__package__", getattr(spec, "parent", None))
    if type(package) is not str or not package:
        return ""
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def _is_loaded(name: str, names: Sequence[str]) -> bool:
    """Whether an import runs no module: it is loaded, and so is what is imported from a package."""
    module = sys.modules.get(name)
    if module is None or "__path__" not in vars(module):
        return module is not None
    absent = [attr for attr in names if attr not in vars(module)]
    below = [f"{name}.{attr}" for attr in absent]
    return not absent or (
        is_plain_module(module)
        and all(part in sys.modules or bool(why_missing(part)) for part in below)
    )


def _check_may_run(compilation: Compilation, name: str) -> None:
    """A module is about to run while tracing; eager Python runs it at its place.

    Raises:
        SiteRefused: what comes before that in the program would come after.
    """
    trace, detail = compilation.trace, f"It imports {name}, which runs while compiling."
    if trace.arms:
        raise SiteRefused(Refused("arm-imports", detail), trace.arms[-1])
    if trace.effects:
        raise SiteRefused(Refused("effect-moved", detail), *dict.fromkeys(trace.effects))
    if trace.speculations:
        sites = dict.fromkeys(speculation.site for speculation, _ in trace.speculations)
        raise SiteRefused(Refused("speculation-has-effects", detail), *sites)


def _raise(
    compilation: Compilation,
    tx: InstructionTranslatorBase,
    error: ImportError,
    name: str,
    question: Callable[[], str],
) -> NoReturn:
    """Raise what an import raises, in the trace; a guard asks again whether it does."""
    site = _site(compilation, tx)
    if site is None or not compilation.mends(site):
        raise _left(compilation, tx, "It is left to eager Python.")
    if is_cached(compilation.trace):
        raise _left(compilation, tx, "It is in a function that caches its results.")
    if _has_changed(tx, name):
        raise _left(compilation, tx, "The function changes what imports look at.")
    guard_on(f"import of {name} fails", question, question())
    compilation.trace.used[site] = _STRATEGY
    compilation.trace.gb_types[site] = _BREAK
    tx.push(ImportErrorVariable(error, site))
    tx.RAISE_VARARGS(create_instruction("RAISE_VARARGS", arg=1))
    raise AssertionError(f"The import of {name} did not raise in the trace.")


def _note(compilation: Compilation, tx: Any, names: Iterable[str], used: str) -> None:
    """An import has found a module.

    Args:
        compilation: what is being compiled.
        tx: translator of the frame that imports.
        names: that were looked up.
        used: the one whose module is used.
    """
    if any(_has_changed(tx, name) for name in names):
        raise _left(compilation, tx, "The function changes what imports look at.")
    found = compilation.trace.of(Imported)
    known = {name: sys.modules[name] for name in names if name in sys.modules}
    if used in known:
        _renew(tx, used, known[used])
        found.kept[tx.import_source(used).global_name] = known[used]
    found.modules.update(known)


def _renew(tx: InstructionTranslatorBase, name: str, module: ModuleType) -> None:
    """Have Dynamo forget a module in whose place there is another one now."""
    known = symbolic_convert._import_module(name)
    if known is module:
        return
    symbolic_convert._import_module.cache_clear()
    module_globals = tx.output.global_scope
    for key, value in list(module_globals.items()):
        if value is known and key.startswith("__import_"):
            module_globals[key] = module


def _has_changed(tx: InstructionTranslatorBase, name: str) -> bool:
    """Whether the frame has changed what imports look at, which is replayed after the graph."""
    package = sys.modules.get(name.rpartition(".")[0])
    looked_at = (
        *(sys.modules, sys.path, sys.meta_path, sys.path_hooks, sys.path_importer_cache),
        *(sys, builtins, package, getattr(package, "__path__", None)),
    )
    effects = tx.output.side_effects
    known = (effects.id_to_variable.get(id(value)) for value in looked_at if value is not None)
    return any(effects.is_modified(value) for value in known if value is not None)


def _left(compilation: Compilation, tx: InstructionTranslatorBase, detail: str) -> Exception:
    """The import is declined."""
    site = _site(compilation, tx)
    if site is None or not compilation.mends(site):
        return _break(compilation, tx, detail)
    return SiteRefused(Refused("import-not-fixed", detail), site)


def _break(compilation: Compilation, tx: InstructionTranslatorBase, detail: str) -> Exception:
    """The frame is left to eager Python at once: another attempt would import once more."""
    site, refused = _site(compilation, tx), Refused("import-not-fixed", detail)
    if site is None:
        return exc.Unsupported(detail, _BREAK)
    return as_break(compilation, site, refused, _BREAK)


def _site(compilation: Compilation, tx: InstructionTranslatorBase) -> Site | None:
    found = instruction_of(tx)
    return None if found is None else compilation.planner.site_at(*found)
