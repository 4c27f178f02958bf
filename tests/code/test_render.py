from __future__ import annotations

import inspect
import textwrap

import pytest

from graphmend_bc.code import facts
from graphmend_bc.code.render import render
from tests.code.kit import function, standard_library

GOLDEN = {
    """
    def f(a, b):
        if a > b:
            x = 1
        else:
            x = 2
        return a(x, b, key=x)
    """: """
    f(a, b)
    b0
      load a
      load b
      compare >
      branch: b1 if true, b3 if false
    b1
      const 1
      store x
      go to b2
    b2
      load a
      load x
      load b
      load x
      call 3, naming key
      return
    b3
      const 2
      store x
      go to b2
    region b0 to b2: b1 | b3
    """,
    """
    def f(a):
        if a is None:
            return 0
        a.x += a[0]
        return a
    """: """
    f(a)
    b0
      load a
      branch: b1 if None, b2 if not None
    b1
      const 0
      return
    b2
      load a
      copy 1
      load attr x
      load a
      const 0
      subscript
      binary +=
      swap 2
      store attr x
      load a
      return
    region b0 to the end: b1 | b2
    """,
    """
    def f(a, b, c):
        x = a or b and c
        return a.m(x, *c)
    """: """
    f(a, b, c)
    b0
      load a
      copy 1
      branch: b1 if true, b2 if false
    b1
      store x
      load a
      load attr m
      load x
      build list 1
      load c
      list extend 1
      list to tuple
      call with unpacking
      return
    b2
      pop
      load b
      copy 1
      branch: b3 if true, b1 if false
    b3
      pop
      load c
      go to b1
    region b0 to b1: nothing | b2 b3
    region b2 to b1: b3 | nothing
    """,
    """
    def f(a):
        t = 0
        for x in a:
            if x < 0:
                continue
            t += x
        return len(a) + t
    """: """
    f(a)
    b0
      const 0
      store t
      load a
      iterate
      go to b1
    b1
      branch: b2 if a value comes, b4 if none is left
    b2
      store x
      load x
      const 0
      compare <
      branch: b1 if true, b3 if false
    b3
      load t
      load x
      binary +=
      store t
      go to b1
    b4
      load global len
      load a
      call 1
      load t
      binary +
      return
    region b1 to b4: b1 b2 b3 | nothing
    region b2 to b1: nothing | b3
    loop b1: b1 b2 b3
    """,
    """
    def f(a):
        b = 1
        def g(c=a):
            return b + c
        return g
    """: """
    f(a)
    b0
      const 1
      store cell b
      load a
      build tuple 1
      cell b
      build tuple 1
      const <code g>
      make function, closure, defaults
      store g
      load g
      return
    """,
}

LOOP = """
    def f(a):
        while a:
            yield a.x
            a = a.y
"""

TESTED_TWICE = """
    f(a)
    b0
      load a
      branch: b1 if true, b3 if false
    b1
      load a
      load attr x
      yield
      pop
      load a
      load attr y
      store a
      load a
      branch: b1 if true, b2 if false
    b2
      const None
      return
    b3
      const None
      return
    region b0 to the end: b1 b2 | b3
    region b1 to b2: b1 | nothing
    loop b1: b1
"""

TESTED_ONCE = """
    f(a)
    b0
      load a
      branch: b1 if true, b2 if false
    b1
      load a
      load attr x
      yield
      pop
      load a
      load attr y
      store a
      go to b0
    b2
      const None
      return
    region b0 to b2: b0 b1 | nothing
    loop b0: b0 b1
"""


@pytest.mark.parametrize("source", GOLDEN)
def test_one_text_for_all_versions(source: str) -> None:
    assert render(function(source).__code__) == textwrap.dedent(GOLDEN[source]).strip()


def test_a_while_loop() -> None:
    want = TESTED_TWICE if facts.WHILE_TESTS_TWICE else TESTED_ONCE
    assert render(function(LOOP).__code__) == textwrap.dedent(want).strip()


def test_the_docstrings_example() -> None:
    def f(x: object) -> int:
        if x:
            return 1
        return 2

    shown = textwrap.indent(render(f.__code__), " " * 8)
    assert shown in inspect.cleandoc(render.__doc__ or "")


def test_every_code_object_has_a_text() -> None:
    for code in standard_library(every=300):
        first = render(code).splitlines()[0]
        assert first.startswith(f"{code.co_name}(")
