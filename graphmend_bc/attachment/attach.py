"""attach: compile a function wherever it is called, without touching it or its module."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import parent_process
from types import CodeType, ModuleType
from typing import Any

from graphmend_bc import config
from graphmend_bc.attachment import frame_hooks
from graphmend_bc.attachment.patterns import Pattern, Predicate, Target, meaning_of
from graphmend_bc.dynamo.patches.torch_compile import CompiledCall
from graphmend_bc.versions import check_versions

log = logging.getLogger("graphmend_bc")


class Attachment:
    """What `attach()` returns; also a context manager that detaches at its end.

    Args:
        remove: called by the first `remove()`.

    Example:
        >>> import graphmend_bc
        >>> def twice(x):
        ...     return x * 2
        >>> handle = graphmend_bc.attach(twice, backend="eager")
        >>> handle.remove()
    """

    __slots__ = ("_remove",)

    def __init__(self, remove: Callable[[], None] | None = None) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Run the target as it was before; what was attached to it earlier applies again."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def attach(
    target: Target | None = None, /, *, where: Predicate | None = None, **compile_kwargs: Any
) -> Attachment:
    """Run every call of a function as under `torch.compile(function, **compile_kwargs)`.

    It does not matter how the caller came by the function: a from-import, a bound method, a
    closure, a table of callables. The function object and its module stay as they are, and no
    source file is needed. A call from inside another compiled region is part of that region, as
    ever.

    The target names a code object, and all functions made of it are meant: an unbound or bound
    method stands for the method of all instances, a closure for all closures of its `def`. A
    wrapper made with `functools.wraps` stands for the function it wraps, a partial for its
    function, a class for its `forward`. If a code object is attached more than once, the newest
    applies.

    Args:
        target: a Python function, method, class or code object; or a string.
            "package.module:Class.name" imports the module and looks the name up. With `*`, `?` or
            `[...]` it is a pattern: "package.models.*" is matched against "module.qualified name",
            and "package.models*:*.forward" against both parts; nothing is imported, and a function
            is looked at when it is first called. A pattern leaves out lambdas, generators,
            dunder methods other than `__call__`, and functions in which Dynamo finds no tensor.
            Names in `__main__` are matched as a pattern too. A pattern that matched no function
            is named once when the process ends, in a warning of the logger "graphmend_bc".
        where: a further condition on what a pattern chooses, a function of a code object that
            returns whether it is meant; without a target, among all functions. It is asked once for
            each code object, when that is first called. What it raises is raised there, and the
            function is not meant.
        **compile_kwargs: the keywords of `torch.compile`.

    Returns:
        A handle whose `remove()` ends it. It does nothing where `torch.compile` is disabled or
        `graphmend_bc.config.enabled` is False.

    Raises:
        ImportError: the C extension is missing.
        TypeError: the target has no code object, such as a builtin or a class without `forward`.
        ValueError: the string names nothing; the function is a generator or a coroutine; or
            Dynamo never compiles it, since it belongs to torch or the standard library.
        UnsupportedVersionError: this torch or Python is not known.

    Example:
        >>> import graphmend_bc
        >>> import torch
        >>> def twice(x):
        ...     return x * 2
        >>> with graphmend_bc.attach(twice, backend="eager"):
        ...     twice(torch.ones(2))
        tensor([2., 2.])
    """
    if not config.enabled:
        return Attachment()
    hooks = frame_hooks.load("attach()")
    check_versions()
    meant = meaning_of(target, where)
    enter = CompiledCall.of(meant if isinstance(meant, CodeType) else None, compile_kwargs)
    if enter is None:
        return Attachment()
    if isinstance(meant, CodeType):
        code = meant
        _attachments.add(hooks, code, enter)
        return Attachment(lambda: _attachments.remove(hooks, code, enter))
    chooser = _Chooser(meant, enter)
    _attachments.add_chooser(hooks, chooser)
    return Attachment(lambda: _attachments.remove_chooser(hooks, chooser))


def attach_all(targets: str) -> list[Attachment]:
    """Attach to each target of a list, or to none if one of them is refused.

    Args:
        targets: targets as `attach()` takes them, separated by commas; empty ones are left out.

    Returns:
        Their handles.

    Raises:
        As `attach()`.

    Example:
        >>> attach_all("")
        []
    """
    handles: list[Attachment] = []
    unmet = dict(_attachments.unmet)
    try:
        for target in filter(None, map(str.strip, targets.split(","))):
            handles.append(attach(target))
    except BaseException:
        for handle in handles:
            handle.remove()
        _attachments.unmet = unmet
        raise
    return handles


def unmet_patterns() -> str:
    """Name the patterns that matched no function so far; each is named once.

    Returns:
        A sentence for the user; empty if there is no such pattern, and in processes that run a part
        of the program only: a forked child, or one that `multiprocessing` has started.

    Example:
        >>> handle = attach("pakage.models.*")
        >>> handle.remove()
        >>> "attach('pakage.models.*')" in unmet_patterns()
        True
    """
    unmet, _attachments.unmet = _attachments.unmet, {}
    told = [text for text, pid in unmet.items() if pid == os.getpid()]
    if not told or parent_process() is not None:
        return ""
    return (
        f"{', '.join(f'attach({text})' for text in told)} matched no function that this process "
        "called outside of compiled code. Check the spelling: a pattern is compared with "
        "'module.qualified name', such as 'package.models.Net.forward'. Functions that Dynamo "
        "never compiles do not count."
    )


@atexit.register
def _tell_of_unmet_patterns() -> None:
    told = unmet_patterns()
    if told:
        log.warning(told)


@dataclass(frozen=True, slots=True, eq=False)
class _Chooser:
    """A pattern in force.

    Attributes:
        pattern: what is meant.
        handover: what compiles the frames.
    """

    pattern: Pattern
    handover: CompiledCall


@dataclass(slots=True)
class _Attachments:
    """All that is attached in this process; the frame hooks are installed while there is any.

    The hooks are process-wide, so this is too. `stacks` goes by identity, because equal code
    objects may belong to different functions. `unmet` has the patterns that matched no function
    yet, with the process that attached them; `met` has the others.
    """

    stacks: dict[int, tuple[CodeType, list[CompiledCall]]] = field(default_factory=dict)
    choosers: tuple[_Chooser, ...] = ()
    unmet: dict[str, int] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)

    def add(self, hooks: ModuleType, code: CodeType, enter: CompiledCall) -> None:
        with frame_hooks.lock:
            frame_hooks.require(hooks, self)
            self.stacks.setdefault(id(code), (code, []))[1].append(enter)
            self._meet_by_file(self.choosers, code)
            hooks.watch(code, enter)

    def remove(self, hooks: ModuleType, code: CodeType, enter: CompiledCall) -> None:
        with frame_hooks.lock:
            stack = self.stacks[id(code)][1]
            stack.remove(enter)
            if stack:
                hooks.watch(code, stack[-1])
            else:
                del self.stacks[id(code)]
                hooks.unwatch(code)
            self._release_if_idle(hooks)

    def add_chooser(self, hooks: ModuleType, chooser: _Chooser) -> None:
        with frame_hooks.lock:
            frame_hooks.require(hooks, self)
            if str(chooser.pattern) not in self.met:
                self.unmet[str(chooser.pattern)] = os.getpid()
            for code, _ in self.stacks.values():
                self._meet_by_file((chooser,), code)
            self.choosers = (chooser, *self.choosers)
            hooks.set_chooser(self.choose)  # has every code object chosen anew

    def remove_chooser(self, hooks: ModuleType, chooser: _Chooser) -> None:
        with frame_hooks.lock:
            self.choosers = tuple(other for other in self.choosers if other is not chooser)
            hooks.set_chooser(self.choose if self.choosers else None)
            self._release_if_idle(hooks)

    def choose(self, code: CodeType, module: str | None) -> CompiledCall | None:
        """What the newest pattern that means a function does; the hooks ask once for each."""
        choosers = self.choosers
        for place, chooser in enumerate(choosers):
            if chooser.pattern.matches(code, module):
                self._meet(choosers[place:], code, module)
                return chooser.handover
        return None

    def _meet(self, choosers: tuple[_Chooser, ...], code: CodeType, module: str | None) -> None:
        """Remember which patterns name a function, those that it did not go to included."""
        for chooser in choosers:
            if chooser.pattern.names(code, module):
                self.unmet.pop(str(chooser.pattern), None)
                self.met.add(str(chooser.pattern))

    def _meet_by_file(self, choosers: tuple[_Chooser, ...], code: CodeType) -> None:
        """The same for a function that is attached by itself, about which nobody is asked."""
        for name, module in list(sys.modules.items()) if choosers else ():
            if getattr(module, "__dict__", {}).get("__file__") == code.co_filename:
                self._meet(choosers, code, name)

    def _release_if_idle(self, hooks: ModuleType) -> None:
        if not self.stacks and not self.choosers:
            frame_hooks.release(hooks, self)


_attachments = _Attachments()
