"""What may be reached through an object whose code a call runs."""

from __future__ import annotations

import functools
import io
import logging
import operator
import random
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphmend_bc.runtime.deferral.effect_targets import only_writes, targets_of
from graphmend_bc.runtime.deferral.reach import reach

ROWS: list[str] = []
COUNT = 0


class Holder:
    shared: list[str] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.rows: list[str] = ROWS

    def write(self, text: str) -> None:
        self.add(text)

    def add(self, text: str) -> None:
        self.last = text

    def other(self) -> None:
        torch.manual_seed(3)


class Slotted:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = ROWS


class Sending(logging.StreamHandler):  # type: ignore[type-arg]
    def format(self, record: logging.LogRecord) -> str:
        ROWS.append(record.levelname)
        return super().format(record)


def counts(text: str) -> None:
    global COUNT
    COUNT += len(text)


def with_default(text: str, into: list[str] = ROWS) -> None:
    into.append(text)


def in_closure() -> Callable[[str], None]:
    rows = ROWS
    return lambda text: rows.append(text)


def by_module(text: str) -> None:
    sys.modules[__name__].ROWS.append(text)  # type: ignore[attr-defined]


def generating() -> object:
    while True:
        ROWS.append((yield))


@pytest.mark.parametrize(
    "root",
    [
        Holder(),
        Slotted(),
        Sending(),
        ROWS.append,
        ROWS.__iadd__,
        functools.partial(ROWS.append, "text"),
        types.SimpleNamespace(write=ROWS.append),
        weakref.ref(holder := Holder()),
        with_default,
        in_closure(),
        functools.lru_cache(with_default),
        property(lambda self: ROWS),
        {"rows": (frozenset(), [ROWS])},
        types.MappingProxyType({"rows": ROWS}),
        iter(ROWS),
        logging.LoggerAdapter(logging.Logger("own"), {"rows": ROWS}),
    ],
    ids=lambda root: type(root).__name__,
)
def test_list_is_reached(root: object) -> None:
    found = reach([root])
    assert found.unknown == ""
    assert id(ROWS) in found.objects


@pytest.mark.parametrize(
    "root",
    [
        by_module,
        generating(),
        weakref.proxy(holder),
        memoryview(b"text"),
        torch.ones(1),
        random.Random(3),
        random.seed,
        torch.manual_seed,
        lambda text: setattr(holder, text, 1),
        lambda text: holder.__dict__.clear(),
        lambda text: sys._getframe(1).f_locals,
        lambda text: logging.getLogger().setLevel(3),
        Holder().other,
        functools.partial(torch.add, 1),
    ],
    ids=lambda root: type(root).__name__,
)
def test_anything_may_be_reached(root: object) -> None:
    assert reach([root]).unknown


def test_names_that_are_stored() -> None:
    assert "COUNT" in reach([counts]).stores
    assert "last" in reach([Holder()]).stores
    assert reach([print]).stores == frozenset()


def test_only_methods_that_are_named_count() -> None:
    """`other` uses torch, but nobody calls it."""
    found = reach([Holder()])
    assert not found.unknown
    assert id(Holder.shared) not in found.objects
    assert reach([lambda text: holder.other()]).unknown
    assert reach([lambda text: getattr(holder, text)()]).unknown
    assert reach([operator.methodcaller("other"), holder]).unknown


def test_too_many_objects() -> None:
    assert reach([[[] for _ in range(50)]], limit=40).unknown
    assert not reach([[0] * 150], limit=40).unknown
    assert reach([[0] * 1000], limit=40).unknown


def formatted() -> logging.Handler:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def logger_with(handler: logging.Handler) -> logging.Logger:
    logger = logging.Logger("own")
    logger.addHandler(handler)
    return logger


class Raw(io.RawIOBase):
    def write(self, data: object) -> int:
        return 0

    def writable(self) -> bool:
        return True


def test_what_only_writes() -> None:
    plain = (sys.__stdout__, io.StringIO(), io.TextIOWrapper(io.BytesIO()), formatted())
    assert all(map(only_writes, [*plain, logger_with(formatted()), logging.NullHandler()]))
    assert only_writes(logging.LoggerAdapter(logger_with(formatted()), {}))


def test_what_does_more_than_write(monkeypatch: pytest.MonkeyPatch) -> None:
    changed, filtering, converting = io.TextIOWrapper(io.BytesIO()), formatted(), formatted()
    changed.write = ROWS.append  # type: ignore[assignment,method-assign]
    filtering.addFilter(lambda record: True)
    assert converting.formatter is not None
    converting.formatter.converter = lambda *args: ROWS.append("") or None  # type: ignore[assignment,func-returns-value]
    others = [changed, filtering, converting, Sending(), io.TextIOWrapper(io.BufferedWriter(Raw()))]
    assert not any(map(only_writes, others))
    assert not any(only_writes(logger_with(each)) for each in others[1:4])  # type: ignore[arg-type]
    logger = logger_with(formatted())
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda self, record: ROWS.append(""))
    assert not only_writes(logger)
    assert id(ROWS) in reach([logger]).objects


def test_targets() -> None:
    stream, logger = io.StringIO(), logging.getLogger("some")
    assert targets_of("builtins", None, None) == [sys.stdout]
    assert targets_of("builtins", None, stream) == [stream]
    assert targets_of("logging", logger, None) == [logger]
    assert targets_of("logging", None, None) == [logging.root]
    assert sys.stderr in targets_of("warnings", None, None)


def test_logger_of_transformers_only_writes() -> None:
    """Its handler has the `flush` of a stream, and its loggers a cached method."""
    pytest.importorskip("transformers")
    import transformers  # adds `warning_once`

    assert transformers.__version__
    warning_once: Any = logging.Logger.warning_once  # type: ignore[attr-defined]
    handler = formatted()
    handler.flush = sys.__stderr__.flush  # type: ignore[method-assign, union-attr]
    assert only_writes(warning_once.__get__(logger_with(handler)))
    assert not only_writes(warning_once.__get__(logger_with(Sending())))
    handler.flush = ROWS.clear  # type: ignore[method-assign]
    assert not only_writes(handler)
