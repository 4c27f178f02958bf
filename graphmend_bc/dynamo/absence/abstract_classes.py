"""What a trace learns from abstract base classes, with which other classes are registered later.

Dynamo guards on the class of an object, but not on what `abc.ABC.register` says of the class. In a
frame with a mend, a registration that changes an answer is noticed.
"""

from __future__ import annotations

import weakref
from abc import ABCMeta, get_cache_token
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import UnionType
from typing import Any, ClassVar, get_args

from torch._dynamo.guards import install_guard
from torch._dynamo.source import GlobalStateSource
from torch._guards import Guard

from graphmend_bc.dynamo.before_graph.guarded_constants import answer_of
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class AbstractClasses(Feature):
    """The questions of an attempt whether a class counts as one derived from an abstract one.

    Attributes:
        answers: by the two classes.
    """

    order: ClassVar[int] = 90  # what ends the graph may ask more
    stays: ClassVar[bool] = True

    answers: dict[tuple[type, type], object] = field(default_factory=dict)

    def on_graph_end(self, compilation: Compilation, tx: Any, is_break: bool) -> None:
        """Guard on the answers, if the frame is mended."""
        if compilation.is_mended and self.answers:
            install_guard(GlobalStateSource().make_guard(self._guard))

    def _guard(self, builder: Any, guard: Guard) -> None:
        """Make the guard; it asks again once a class was registered somewhere."""
        answers = [(weakref.ref(a), weakref.ref(b), yes) for (a, b), yes in self.answers.items()]
        token = get_cache_token()

        def unchanged(_scope: Any) -> bool:
            nonlocal token
            if (now := get_cache_token()) == token:
                return True
            for derived, base, known in answers:
                a, b = derived(), base()
                if a is None or b is None or _counts_as(a, b) is not known:
                    return False
            token = now
            return True

        what = ["abstract classes have the subclasses that they had"]
        builder.guard_manager.root.add_lambda_guard(unchanged, what, guard.user_stack)


def asked_for_class(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`isinstance(o, C)` and `issubclass(D, C)`."""
    asks_object = stock.__name__ == "call_isinstance"

    def call(self: Any, tx: Any, arg: Any, of: Any) -> Any:
        found = stock(self, tx, arg, of)
        compilation = current()
        if compilation is not None and of.is_python_constant():
            kind = arg.python_type() if asks_object else arg.as_python_constant()
            for base in _abstract_in(of.as_python_constant()):
                if base not in kind.__mro__:
                    answers = compilation.trace.of(AbstractClasses).answers
                    answers[kind, base] = _counts_as(kind, base)
        return found

    return call


def _counts_as(kind: type, base: type) -> object:
    return answer_of(partial(issubclass, kind, base))


def _abstract_in(asked: object) -> Iterator[type]:
    """The abstract classes in a class, a union of classes, or a tuple of these."""
    if isinstance(asked, ABCMeta):
        yield asked
    elif isinstance(asked, tuple | UnionType):
        for part in asked if isinstance(asked, tuple) else get_args(asked):
            yield from _abstract_in(part)
