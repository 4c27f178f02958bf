"""Decoding and assembling again changes nothing: neither what is there nor what it does."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import inspect
from collections.abc import Generator, Iterable
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code.analysis.stack import depths
from graphmend_bc.code.assemble import assemble, relist
from graphmend_bc.code.header import Header
from graphmend_bc.code.listing import decode
from tests.code import specimens
from tests.code.generated import coins, programs, run
from tests.code.kit import (
    function,
    installed_packages,
    observe,
    reassembled,
    standard_library,
)


def comparable(value: Any) -> Any:
    """An argument so that 1, True and 1.0 differ, and code objects are compared by identity."""
    if isinstance(value, CodeType):
        return id(value)
    return type(value), repr(value)


def check_equal(code: CodeType) -> None:
    listing = decode(code)
    result = assemble(Header.of(code), relist(listing))
    again = decode(result.code)
    for old, new in zip(listing.ops, again.ops, strict=True):
        assert (new.name, comparable(new.arg)) == (old.name, comparable(old.arg)), (old, new)
        assert (new.target, new.location) == (old.target, old.location), (old, new)
        assert new.handler == old.handler or code_is_dead(listing.ops, old.index), (old, new)
        assert result.origins[new.offset] == old.offset
    assert Header.of(result.code) == Header.of(code)
    assert result.code.co_varnames == code.co_varnames
    fresh = set(map(comparable, result.code.co_consts)) - set(map(comparable, code.co_consts))
    fresh -= {comparable(op.arg) for op in listing.ops if op.name == "LOAD_CONST"}
    assert fresh <= {comparable(None)}  # where the docstring would be
    assert set(result.code.co_names) <= set(code.co_names)


def code_is_dead(ops: Any, index: int) -> bool:
    return depths(ops).before[index] is None


def check_all(codes: Iterable[CodeType], at_least: int) -> None:
    count = 0
    for code in codes:
        try:
            check_equal(code)
        except (AssertionError, ValueError) as error:
            pytest.fail(f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}: {error}")
        count += 1
    assert count >= at_least


@pytest.mark.slow
def test_a_sample_of_the_standard_library() -> None:
    check_all(standard_library(every=10), at_least=4000)


@pytest.mark.nightly
def test_the_standard_library() -> None:
    check_all(standard_library(every=1), at_least=50_000)


@pytest.mark.nightly
def test_installed_packages() -> None:
    """With torch there are ten times as many code objects as in an environment for these tests."""
    there = importlib.util.find_spec("torch") is not None
    check_all(installed_packages(every=1), at_least=100_000 if there else 20_000)


def outcome(function: FunctionType, arguments: tuple[Any, ...]) -> Any:
    """What a call comes to; generators are sent numbers until they end, coroutines awaited."""
    function.__globals__["_imported"] = None
    arguments = copy.deepcopy(arguments)

    def call() -> Any:
        result = function(*arguments)
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        if not isinstance(result, Generator):
            return result
        items, sent = [next(result, "nothing")], 0
        while True:
            sent += 1
            try:
                items.append(result.send(sent))
            except StopIteration as stop:
                return items, stop.value

    ended = observe(call)
    return repr(ended), repr([a for a in arguments if not isinstance(a, specimens.Thing)])


@pytest.mark.parametrize("name", specimens.CALLS)
def test_specimens_do_the_same(name: str) -> None:
    original: FunctionType = getattr(specimens, name)
    code = reassembled(original.__code__)
    rebuilt = FunctionType(
        code, original.__globals__, name, original.__defaults__, original.__closure__
    )
    rebuilt.__kwdefaults__ = original.__kwdefaults__
    assert inspect.signature(rebuilt, eval_str=False).parameters.keys() == (
        inspect.signature(original).parameters.keys()
    )
    for arguments in specimens.CALLS[name]:
        assert outcome(rebuilt, arguments) == outcome(original, arguments)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), coins)
def test_programs_do_the_same(source: str, tosses: list[bool]) -> None:
    original, rebuilt = function(source), function(source)
    rebuilt.__code__ = reassembled(rebuilt.__code__)
    assert run(rebuilt, tosses) == run(original, tosses)


def test_tracebacks_point_to_the_same_places() -> None:
    original: FunctionType = specimens.operators  # type: ignore[assignment]
    rebuilt = FunctionType(reassembled(original.__code__), original.__globals__)
    places = []
    for each in (original, rebuilt):
        with pytest.raises(ZeroDivisionError) as caught:
            each(1, 0)
        frame = caught.traceback[-1]._rawentry
        positions = list(each.__code__.co_positions())[frame.tb_lasti // 2]
        places.append((frame.tb_lineno, positions))
    assert places[0] == places[1]
