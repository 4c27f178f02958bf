# ruff: noqa: B023, C416, F842, RUF005, RUF012 - bad habits must compile too
"""Functions with most things that compile to something of their own, and calls to make of them.

`CALLS` maps the name of a function to argument tuples. Generators and coroutines are run to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any


def branches(a, b=2, *rest, key="k", **more):
    """Has a docstring."""
    if a > b:
        result = "more"
    elif a == b:
        result = "same"
    else:
        result = "less"
    return result, rest, key, sorted(more.items())


def short_circuits(a, b, c):
    return (a or b) and c, a and (b or c), not a, a if b else c, a is None, b is not None


def chained(a, b, c):
    return a < b < c, a <= b != c, a in b if isinstance(b, list) else None, a not in [c]


def early(n):
    if n is None:
        return "none"
    if not n:
        return
    assert n > 0, f"{n!r:>4} is {'negative':^10}"
    return n


def loop(values):
    total = 0
    for number, value in enumerate(values):
        if value < 0:
            continue
        if value > 90:
            break
        total += value * number
    else:
        total = -total
    while total > 7:
        total //= 2
    return total


def nested(rows):
    found = []
    for row in rows:
        for cell in row:
            if cell == "skip":
                break
            if cell == "stop":
                return found, "stopped"
            found.append(cell)
        else:
            found.append("|")
    return found


def catches(action, *args):
    log = []
    try:
        log.append(action(*args))
    except (ValueError, ZeroDivisionError) as error:
        log.append(type(error).__name__)
        try:
            raise KeyError("inner") from error
        except LookupError as inner:
            log.append(repr(inner.__cause__))
    except TypeError:
        log.append("type")
        raise
    else:
        log.append("fine")
    finally:
        log.append("finally")
    return log


def finally_wins(n):
    for i in range(n):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            yield i
        finally:
            yield f"after {i}"


def group(kind):
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(1), kind("x")])
    except* ValueError as error:
        seen.append(len(error.exceptions))
    except* OSError:
        seen.append("os")
    return seen


def managers(swallow, fail):
    log = []

    @contextlib.contextmanager
    def manager(name):
        log.append(f"+{name}")
        try:
            yield name
        except ValueError:
            log.append(f"!{name}")
            if not swallow:
                raise
        finally:
            log.append(f"-{name}")

    with manager("a") as a, manager("b") as (b):
        log.append(a + b)
        if fail:
            raise ValueError(fail)
    return log


def matches(subject):
    match subject:
        case 0 | 1:
            return "small"
        case [x, y, *rest] if x == y:
            return "pair", rest
        case {"k": value, **others}:
            return value, others
        case complex(real=r, imag=1):
            return r
        case str() as text:
            return text.upper()
        case None:
            return "none"
        case [[inner]]:
            return inner
        case _:
            return "other"


def closures(a, *args, k=1):
    b = a + 1

    def add(c, d=b):
        nonlocal b
        b += c
        return a + b + c + d + k

    def reader():
        return a, b, args

    a += 10
    return add(1), add(2), reader(), [x + a for x in args], (lambda q=b: q + a)()


def rebinds_argument(x):
    def set_to(value):
        nonlocal x
        x = value

    set_to(x * 2)
    first = x
    del x
    try:
        return first, x
    except NameError as error:
        return first, str(error)


class Base:
    attribute = "base"

    def method(self, n=1):
        return [self.attribute, n]


class Derived(Base):
    attribute = "derived"

    def method(self, n=1):
        return [*super().method(n), __class__.__name__, super().attribute]


def classes(name):
    class Made(Base):
        attribute = name
        copies = [name for _ in range(2)]

        def method(self, n=5):
            return super().method(n) + [__class__ is Made, name]

    return Made().method(), Made.copies, Derived().method(3)


def comprehensions(n):
    x = "outer"
    squares = [x * x for x in range(n) if x % 2]
    table = {x: y for x in range(n) for y in "ab"}
    unique = {x % 3 for x in range(n)}
    lazily = (x + y for x in range(n) for y in (1, 2))
    makers = [lambda: x for x in range(n)]
    rows = [[x for x in range(x)] for x in range(3)]
    return x, squares, table, unique, list(lazily), [f() for f in makers], rows


def comprehension_fails(n):
    try:
        return [x / (n - x) for x in range(5)]
    except ZeroDivisionError:
        return "zero"


def unbound(flag):
    if flag:
        value = 1
    try:
        return value
    except UnboundLocalError as error:
        return str(error)


def unpacks(a):
    first, *middle, last = a
    (b, c), d = (first, last), middle
    b, c = c, b
    a[0], a[1] = a[1], a[0]
    a[1:2] = [9, 9]
    return b, c, d, a, a[::2], [*a, *d], {**{"a": 1}, "b": 2}, (*a,)


def calls(f):
    return f(1, 2, sep=""), f(*[1], **{"sep": "-"}), f(1, *[2, 3], sep="+"), f.__name__.upper()


def texts(a, b):
    return f"{a}{b!s:>5}{a!r}{b:.{a}f}" + "xy"


def generator(n):
    got = yield "start"
    while n:
        got = yield got, n
        n -= 1
    return "end"


def delegates(n):
    result = yield from generator(n)
    try:
        yield result
    except GeneratorExit:
        return


def throws_into(n):
    made = delegates(n)
    return next(made), made.send(5), observe_throw(made), list(made)


def observe_throw(made):
    try:
        return made.throw(KeyError("thrown"))
    except KeyError as error:
        return repr(error)


def imports():
    import os.path as path
    from math import floor, pi

    global _imported
    _imported = path.basename("/a/b")
    return floor(pi), _imported


def deletes(a):
    b = {"x": 1, "y": [1, 2, 3]}
    del b["x"], b["y"][0]
    a.gone = 1
    del a.gone
    return b, hasattr(a, "gone")


def operators(a, b):
    c = a
    c += b
    c <<= 1
    return a + b, a - b, a * b, a // b, a % b, a**b, a & b, a | b, a ^ b, ~a, -a, +a, a / b, c


def annotated(a: int) -> list[int]:
    b: int = a
    c: str
    return [b]


def star_only(*args, **kwargs):
    return args, kwargs


async def ticks(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


@contextlib.asynccontextmanager
async def room(log):
    log.append("in")
    try:
        yield log
    finally:
        log.append("out")


async def asynchronous(n):
    log: list[Any] = []
    async with room(log) as inside:
        async for tick in ticks(n):
            if tick == 3:
                break
            inside.append(tick)
        else:
            inside.append("all")
    values = [v async for v in ticks(2) if v or True]
    try:
        await asyncio.wait_for(asyncio.sleep(9), 0)
    except TimeoutError:
        log.append("late")
    return log, values, await asyncio.gather(*(one(v) for v in values))


async def one(v):
    return v + 1


class Thing:
    pass


CALLS: dict[str, list[tuple[Any, ...]]] = {
    "branches": [(1,), (2,), (3, 1, 5, 6)],
    "short_circuits": [(0, 1, 2), (1, 0, 2), (None, None, None), ("", [], 3)],
    "chained": [(1, 2, 3), (3, 2, 2), (1, [1], 1)],
    "early": [(None,), (0,), (5,), (-5,)],
    "loop": [([1, 2, 3],), ([-1, 50, 60],), ([1, 99, 3],), ([],)],
    "nested": [([[1, 2], ["skip", 3], [4]],), ([[1], ["stop"]],)],
    "catches": [(int, "7"), (int, "x"), (divmod, 1, 0), (int, [])],
    "finally_wins": [(0,), (2,), (5,)],
    "group": [(ValueError,), (OSError,), (KeyError,)],
    "managers": [(True, ""), (True, "bad"), (False, "bad")],
    "matches": [(0,), ([2, 2, 3],), ({"k": 1, "z": 2},), (3 + 1j,), ("t",), (None,), ([[5]],), (9.5,)],
    "closures": [(1,), (1, 2, 3)],
    "rebinds_argument": [(4,)],
    "classes": [("n",)],
    "comprehensions": [(0,), (4,)],
    "comprehension_fails": [(3,), (9,)],
    "unbound": [(True,), (False,)],
    "unpacks": [([1, 2, 3, 4],)],
    "calls": [(print,)],
    "texts": [(2, 3.14159)],
    "generator": [(2,)],
    "delegates": [(2,)],
    "throws_into": [(3,)],
    "imports": [()],
    "deletes": [(Thing(),)],
    "operators": [(7, 3), (1, 0)],
    "annotated": [(1,)],
    "star_only": [(1, 2), ()],
    "asynchronous": [(2,), (6,)],
}  # fmt: skip

__all__ = ["CALLS", "AsyncIterator", "Iterator"]
