"""Special methods that a class gains and loses: frames with a mend guard on what was looked up."""

from __future__ import annotations

import pytest

from tests.absence.test_absent_names import MENDED
from tests.releases import since
from tests.surroundings import changing

BEFORE = """
class Base: pass
class O(Base): pass
class D(dict): pass
o, p, d = O(), O(), D()
def increased(value):
    value += 1
    return value
"""

ASKED = {
    "len(o)": ("O.__len__", "lambda self: 3"),
    "sum(i for i in o)": ("O.__iter__", "lambda self: iter([1, 2])"),
    "sum([*o])": ("O.__iter__", "lambda self: iter([1, 2])"),
    "sum(i for i, _ in enumerate(o))": ("O.__getitem__", "lambda self, i: [1, 2, 3][i]"),
    "o[0]": ("O.__getitem__", "lambda self, i: 3"),
    "int(1 in o) + 2": ("O.__contains__", "lambda self, i: True"),
    "5 if callable(o) else 2": ("O.__call__", "lambda self: 3"),
    "2 if o else 3": ("O.__bool__", "lambda self: False"),
    "2 if not o else 3": ("O.__len__", "lambda self: 0"),
    "2 if o == 1 else 3": ("O.__eq__", "lambda self, other: True"),
    "2 if 1 != o else 3": ("O.__eq__", "lambda self, other: True"),
    "2 if o == p else 3": ("O.__eq__", "lambda self, other: True"),
    "2 if o < 1 else 3": ("O.__lt__", "lambda self, other: True"),
    "-o": ("O.__neg__", "lambda self: 3"),
    "abs(o)": ("O.__abs__", "lambda self: 3"),
    "o + 1": ("O.__add__", "lambda self, other: 3"),
    "1 + o": ("O.__radd__", "lambda self, other: 3"),
    "increased(o)": ("O.__iadd__", "lambda self, other: 3"),
    "divmod(o, 2)[0]": ("O.__divmod__", "lambda self, other: (3, 1)"),
    "int(o)": ("O.__index__", "lambda self: 3"),
    "float(o)": ("O.__float__", "lambda self: 3.0"),
    "[1, 2, 3, 4][o]": ("O.__index__", "lambda self: 3"),
    "len(list(reversed(o)))": ("O.__reversed__", "lambda self: iter([1, 2, 3])"),
    "3 if O[int] else 2": ("O.__class_getitem__", "classmethod(lambda cls, k: True)"),
    "o.rate": ("O.__getattr__", "lambda self, name: 3"),
    "d['k']": ("D.__missing__", "lambda self, key: 3"),
    "len(O())": ("O.__len__", "lambda self: 3"),
}


# torch 2.11 breaks the graph where an operator raises a TypeError.
MENDS = True if since(2, 13) else None


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_that_comes_and_goes(asked: str) -> None:
    if asked == "sum([*o])" and not since(2, 13):
        pytest.skip("Stock ends in NotImplementedError.")
    method, made = ASKED[asked]
    in_base = method.replace("O.", "Base.").replace("D.__", "O.__")
    changing(
        BEFORE,
        f"try: w = {asked}\nexcept (TypeError, AttributeError, KeyError): w = 1\n{MENDED}\n"
        "return w * x",
        f"{method} = {made}",
        f"del {method}",
        f"{in_base} = {made}",
        mends=MENDS,
    )


def test_that_comes_where_the_handler_is_mended() -> None:
    changing(
        BEFORE,
        "try: x = x * len(o)\nexcept TypeError: print('none', x.sum())\nreturn x + 0",
        "Base.__len__ = lambda self: 0",
        "del Base.__len__",
        mends=MENDS,
    )


def test_of_two_classes() -> None:
    changing(
        BEFORE + "class Other: pass\nq = Other()",
        f"w = (2 if o else 3) + (4 if q else 7)\n{MENDED}\nreturn w * x",
        "Other.__bool__ = lambda self: False",
        "O.__bool__ = lambda self: False",
        "Other.__bool__ = lambda self: True",
    )


@pytest.mark.parametrize("base", ["dict", "list", "collections.OrderedDict", "nn.ModuleDict"])
def test_methods_of_containers(base: str) -> None:
    changing(
        f"class D({base}):\n    def m(self): return 2\n    def k(self): return 5\n"
        "class E(D): pass\nd = E()",
        f"w = d.m()\n{MENDED}\nreturn (w + d.m()) * x",
        "D.m = lambda self: 3",
        "E.m = D.k",
        "del E.m",
    )
