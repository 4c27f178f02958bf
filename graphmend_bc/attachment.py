"""attach: compile a function wherever it is called, without touching it or its module."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from graphmend_bc import config, frame_hooks
from graphmend_bc.dynamo.handover import Handover, Leave
from graphmend_bc.targets import Pattern, Predicate, Target, meaning_of
from graphmend_bc.versions import check_versions


class Handle:
    """What `attach()` returns; also a context manager that detaches at its end.

    Args:
        remove: called by the first `remove()`.

    Example:
        >>> handle = graphmend_bc.attach("package.module:Class.method")  # doctest: +SKIP
        >>> handle.remove()  # doctest: +SKIP
    """

    __slots__ = ("_remove",)

    def __init__(self, remove: Callable[[], None] | None = None) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Run the target as it was before; what was attached to it earlier applies again."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def attach(
    target: Target | None = None, /, *, where: Predicate | None = None, **compile_kwargs: Any
) -> Handle:
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
            Names in `__main__` are matched as a pattern too.
        where: a further condition on what a pattern chooses, a function of a code object that
            tells whether it is meant; without a target, among all functions. It is asked once for
            each code object, when that is first called, and what it raises is raised there.
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
        >>> with graphmend_bc.attach("package.models.*:*.forward"):  # doctest: +SKIP
        ...     package.main()
    """
    hooks = frame_hooks.load("attach()")
    if not config.force:
        check_versions()
    meant = meaning_of(target, where)
    enter = Handover.of(meant if isinstance(meant, CodeType) else None, compile_kwargs)
    if enter is None or not config.enabled:
        return Handle()
    if isinstance(meant, CodeType):
        code = meant
        _attachments.add(hooks, code, enter)
        return Handle(lambda: _attachments.remove(hooks, code, enter))
    chooser = _Chooser(meant, enter, hooks)
    _attachments.add_chooser(hooks, chooser)
    return Handle(lambda: _attachments.remove_chooser(hooks, chooser))


def attach_all(targets: str) -> list[Handle]:
    """Attach to each target of a list, or to none if one of them is refused.

    Args:
        targets: targets as `attach()` takes them, separated by commas; empty ones are left out.

    Returns:
        Their handles.

    Raises:
        As `attach()`.

    Example:
        >>> handles = attach_all("package.models.*, package.loss:focal")  # doctest: +SKIP
    """
    handles: list[Handle] = []
    try:
        for target in filter(None, map(str.strip, targets.split(","))):
            handles.append(attach(target))
    except BaseException:
        for handle in handles:
            handle.remove()
        raise
    return handles


@dataclass(slots=True, eq=False)
class _Chooser:
    """A pattern in force, which is also the `enter` of the code objects it chose.

    Attributes:
        pattern: what is meant.
        handover: what compiles the frames.
        hooks: the C extension.
        chosen: the code objects it is watching.
        removed: set last of all by removal; another thread may be choosing at that moment.
    """

    pattern: Pattern
    handover: Handover
    hooks: ModuleType
    chosen: list[weakref.ref[CodeType]] = field(default_factory=list)
    removed: bool = False

    def __call__(self, code: CodeType) -> tuple[Any, Leave] | None:
        """Hand a frame over."""
        if self.removed:
            self.hooks.unwatch(code)
            return None
        return self.handover(code)


@dataclass(slots=True)
class _Attachments:
    """All that is attached in this process; the frame hooks are installed while there is any.

    The hooks are process-wide, so this is too. `stacks` goes by identity, because equal code
    objects may belong to different functions.
    """

    stacks: dict[int, tuple[CodeType, list[Handover]]] = field(default_factory=dict)
    choosers: tuple[_Chooser, ...] = ()

    def add(self, hooks: ModuleType, code: CodeType, enter: Handover) -> None:
        with frame_hooks.lock:
            frame_hooks.require(hooks, self)
            self.stacks.setdefault(id(code), (code, []))[1].append(enter)
            hooks.watch(code, enter)

    def remove(self, hooks: ModuleType, code: CodeType, enter: Handover) -> None:
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
            self.choosers = (chooser, *self.choosers)
            self._forget_choices(hooks)

    def remove_chooser(self, hooks: ModuleType, chooser: _Chooser) -> None:
        with frame_hooks.lock:
            self._forget_choices(hooks)
            self.choosers = tuple(other for other in self.choosers if other is not chooser)
            chooser.removed = True
            if not self.choosers:
                hooks.set_chooser(None)
            self._release_if_idle(hooks)

    def choose(self, code: CodeType, module: str | None) -> _Chooser | None:
        """The newest pattern that means a function; asked by the hooks once for each."""
        for chooser in self.choosers:
            if chooser.pattern.matches(code, module):
                chooser.chosen.append(weakref.ref(code))
                return chooser
        return None

    def _forget_choices(self, hooks: ModuleType) -> None:
        """Have every code object chosen anew."""
        for chooser in self.choosers:
            chosen, chooser.chosen = chooser.chosen, []
            for code in filter(None, (reference() for reference in chosen)):
                if id(code) not in self.stacks:
                    hooks.unwatch(code)
        hooks.set_chooser(self.choose)

    def _release_if_idle(self, hooks: ModuleType) -> None:
        if not self.stacks and not self.choosers:
            frame_hooks.release(hooks, self)


_attachments = _Attachments()
