"""Random programs as source text, with a coin for every decision.

`programs()` makes the source of a function `f(coin)`. `coin()` is the next of a list of booleans, and ends
the run when they are used up. `run` tosses the coins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import FunctionType
from typing import Any

from hypothesis import strategies as st

NAMES = "xyz"


class NoCoins(BaseException):
    """The run is over."""


class Manager:
    """A context manager that may swallow what is raised."""

    def __init__(self, log: list[Any], swallow: bool) -> None:
        self.log = log
        self.swallow = swallow

    def __enter__(self) -> int:
        self.log.append("enter")
        return 7

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append(f"exit {kind and kind.__name__}")
        return self.swallow and kind is not None and issubclass(kind, Exception)


def run(function: FunctionType, coins: Sequence[bool]) -> list[Any]:
    """Everything that can be seen of a run: the order of effects, and how it ends."""
    log: list[Any] = []
    # Notes are made of the text, as exceptions compare by identity.
    left = iter(coins)

    def coin() -> bool:
        for value in left:
            log.append(value)
            return value
        raise NoCoins

    function.__globals__.update(
        note=lambda value: log.append(repr(value)), manager=lambda swallow: Manager(log, swallow)
    )
    try:
        log.append(("returned", function(coin)))
    except Exception as error:
        log.append(("raised", type(error).__name__, str(error)))
    except NoCoins:
        log.append("no coins")
    return log


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _simple(in_loop: bool) -> st.SearchStrategy[list[str]]:
    name = st.sampled_from(NAMES)
    forms = [
        name.map(lambda n: f"{n} = coin()"),
        name.map(lambda n: f"note({n})"),
        name.map(lambda n: f"del {n}"),
        st.tuples(name, name).map(lambda p: f"{p[0]} = [{p[1]} for {p[1]} in range(2)]"),
        st.tuples(name, name).map(lambda p: f"{p[0]}, {p[1]} = {p[1]}, {p[0]}"),
        st.tuples(name, name).map(lambda p: f"{p[0]} = coin() and {p[1]} or coin()"),
        st.tuples(name, name).map(lambda p: f"note({p[0]} if coin() else {p[1]})"),
        st.tuples(name, name).map(lambda p: f"note([({p[0]}, {p[1]}) for {p[0]} in (1, 2)])"),
        st.just("return coin()"),
        st.just("raise ValueError(coin())"),
    ]
    if in_loop:
        forms += [st.just("break"), st.just("continue")]
    return st.one_of(forms).map(lambda line: [line])


def _compound(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    body = _body(depth - 1, in_loop).map(_indent)
    loop = _body(depth - 1, True).map(_indent)
    # No jump out of a finally block, which newer compilers warn of.
    last = _simple(False).filter(lambda lines: not lines[0].startswith("return")).map(_indent)
    return st.one_of(
        body.map(lambda b: ["if coin():", *b]),
        st.tuples(body, body).map(lambda p: ["if coin():", *p[0], "else:", *p[1]]),
        loop.map(lambda b: ["while coin():", *b]),
        st.tuples(loop, body).map(lambda p: ["while coin():", *p[0], "else:", *p[1]]),
        st.tuples(st.sampled_from(NAMES), loop, body).map(
            lambda p: [f"for {p[0]} in (1, 2):", *p[1], "else:", *p[2]]
        ),
        st.tuples(body, body).map(lambda p: ["try:", *p[0], "except ValueError:", *p[1]]),
        st.tuples(st.sampled_from(NAMES), body, body, body).map(
            lambda p: ["try:", *p[1], f"except NameError as {p[0]}:", *p[2], "else:", *p[3]]
        ),
        st.tuples(body, last).map(lambda p: ["try:", *p[0], "finally:", *p[1]]),
        st.tuples(st.sampled_from(NAMES), body).map(
            lambda p: [f"with manager(coin()) as {p[0]}:", *p[1]]
        ),
        st.tuples(body, body).map(
            lambda p: [
                "match coin():",
                "    case True:",
                *_indent(p[0]),
                "    case y:",
                *_indent(p[1]),
            ]
        ),
    )


def _body(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    statement = _simple(in_loop)
    if depth > 0:
        statement = st.one_of(statement, _compound(depth, in_loop))
    return st.lists(statement, min_size=1, max_size=3).map(lambda parts: list(chain(*parts)))


def programs(*, cells: bool = True) -> st.SearchStrategy[str]:
    """The source of a function `f(coin)`; in one of two an inner function shares a local, if allowed."""
    inner = st.sampled_from(["", "    inner = lambda: z\n"]) if cells else st.just("")
    return st.tuples(inner, _body(3, False)).map(
        lambda p: "def f(coin):\n" + p[0] + "\n".join(_indent(p[1])) + "\n"
    )


coins = st.lists(st.booleans(), max_size=30)
