"""An error of ours at a seam is told of, and what it spoils is done as stock does it.

Dynamo takes many an exception for an answer, such as an AttributeError for an attribute that is not
there. So an error of ours is noted where it leaves our function, whatever Dynamo makes of it: the
attempt cannot be used.
"""

from __future__ import annotations

import builtins
import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from torch._dynamo.exc import InternalTorchDynamoError

from graphmend_bc.dynamo.frames.internal_errors import is_internal, is_too_deep
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.runtime.signal_handlers import handlers_error, pass_on

Make = Callable[[Any], Any]
"""Makes what is put at a seam of what is there."""

Tell = Callable[[CodeType | None, Exception], None]
"""Is told of an error of ours, and of the frame that was being compiled, if one was."""

_LEFT: Final[set[int]] = set()
"""Threads in which no seam does anything."""


_DYNAMO_FAILS: Final = frozenset(
    {
        *(AssertionError, AttributeError, IndexError, InternalTorchDynamoError, KeyError),
        *(NameError, NotImplementedError, RuntimeError, TypeError, ValueError),
    }
)
"""What Dynamo ends with where it meets what it did not expect; not what it raises on purpose."""

_CHAINS: Final[WeakKeyDictionary[Any, tuple[Any, Any]]] = WeakKeyDictionary()
"""Of what was put in a place, torch's own and ours: one frame is enough around several of ours."""


def contained(seam: Seam, tell: Tell) -> Make:
    """Makes what a seam puts in a place, so that an error of ours does no harm there.

    Args:
        seam: what is put there by itself.
        tell: is told of an error that ends in stock's answer at this very seam.
    """

    def make(stock: Any) -> Any:
        is_function = isinstance(stock, FunctionType)
        torchs, called = _CHAINS.get(stock, (stock, stock)) if is_function else (stock, stock)
        ours = seam.make(called)
        if ours is called or seam.contains_itself:
            return stock if ours is called else ours
        if dataclasses.is_dataclass(ours):  # an entry of a table, with functions of its own
            fields = {f.name: getattr(ours, f.name) for f in dataclasses.fields(ours)}
            kept = {n: _noting(getattr(stock, n), f) for n, f in fields.items() if callable(f)}
            return dataclasses.replace(ours, **kept)  # type: ignore[type-var]
        if seam.outermost:
            return _left_to_stock(stock, ours, tell)
        instead = getattr(builtins, str(seam.names[0]), _nothing) if torchs is None else torchs
        return _noting(instead, ours)

    return make


def _nothing(*args: Any, **kwargs: Any) -> Any:
    """Stands where torch's own table has no entry."""
    return NotImplemented


def _noting(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ours, whose errors end the attempt even if Dynamo makes something of them."""

    def at_seam(*args: Any, **kwargs: Any) -> Any:
        if _LEFT and get_ident() in _LEFT:
            return stock(*args, **kwargs)
        try:
            return ours(*args, **kwargs)
        except Exception as error:
            _note(error)
            raise

    at_seam.__dict__.update(getattr(ours, "__dict__", {}))  # others look at its attributes
    _CHAINS[at_seam] = stock, ours
    return at_seam


def _note(error: Exception) -> None:
    compilation = current()
    if compilation is None or compilation.trace.failure is not None:
        return
    # An import raises what the module raises that it runs.
    if isinstance(error, ImportError) or not is_internal(error):
        return
    if handlers_error(error) is None:
        compilation.trace.failure = error


def _left_to_stock(
    stock: Callable[..., Any], ours: Callable[..., Any], tell: Tell
) -> Callable[..., Any]:
    """A function of ours around which nothing of ours is: after an error, stock's own is called."""

    def at_seam(*args: Any, **kwargs: Any) -> Any:
        if get_ident() not in _LEFT:
            is_deep = False
            try:
                return ours(*args, **kwargs)
            except Exception as error:
                pass_on(error)
                if not is_internal(error):
                    raise
                tell(next((arg for arg in args if isinstance(arg, CodeType)), None), error)
                is_deep = is_too_deep(error)
            if is_deep:
                with _without_us(), _more_stack():
                    return stock(*args, **kwargs)
        with _without_us():
            return stock(*args, **kwargs)

    return at_seam


def or_stock(ours: Callable[..., Any], stock: Callable[..., Any], tell: Tell) -> Callable[..., Any]:
    """A function of ours; where Dynamo itself fails in it, stock's own is called, without us.

    What Dynamo chokes on may be of our making. If it fails on the program as well, that is raised.

    Args:
        ours: compiles a frame; gets `stock`, the code object, and the other arguments.
        stock: Dynamo's own.
        tell: is told of the error that stock does not have.
    """

    def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        try:
            return ours(stock, code, list(args), kwargs)
        except Exception as error:
            pass_on(error)
            if type(error) not in _DYNAMO_FAILS or is_internal(error) or is_too_deep(error):
                raise
            failure = error
        try:
            with _without_us():
                result = stock(code, *args, **kwargs)
            tell(code, failure)
            return result
        finally:
            del failure  # its traceback holds this frame

    return compile_frame


def answering(question: Callable[..., bool], otherwise: bool, tell: Tell) -> Callable[..., bool]:
    """A question to us that has an answer even if we fail.

    Args:
        question: what is asked.
        otherwise: the answer that stock is content with.
        tell: is told of an error of ours.
    """

    def ask(*args: Any) -> bool:
        try:
            return question(*args)
        except Exception as error:
            pass_on(error)
            tell(None, error)
            return otherwise

    return ask


@contextmanager
def _without_us() -> Iterator[None]:
    """A block in which the seams do nothing, in this thread."""
    thread, is_left = get_ident(), get_ident() in _LEFT
    _LEFT.add(thread)
    try:
        yield
    finally:
        if not is_left:
            _LEFT.discard(thread)


@contextmanager
def _more_stack() -> Iterator[None]:
    """A block in which calls may be nested twice as deep: each seam takes a frame of the stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
