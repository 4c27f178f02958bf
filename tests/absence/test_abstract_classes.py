"""Classes that are registered with an abstract one between calls."""

from __future__ import annotations

import pytest

from tests.surroundings import changing

CLASSES = """
import abc
class Base(abc.ABC): pass
class Thing: pass
class Other: pass
thing = Thing()
"""


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(thing, Base)",
        "isinstance(thing, (int, Base))",
        "isinstance(thing, int | Base)",
        "issubclass(Thing, Base)",
        "isinstance(Thing(), Base)",
        "isinstance([x], Base)",
        "isinstance(thing, collections.abc.Sequence)",
    ],
)
@pytest.mark.parametrize(
    "step",
    [
        "Base.register(Other)",
        "Base.register(Thing)",
        "Base.register(list)",
        "collections.abc.Sequence.register(Thing)",
    ],
)
def test_a_class_is_registered_later(question: str, step: str) -> None:
    body = f"print('called')\nreturn x * 2 if {question} else x + 1"
    changing(f"import collections.abc\n{CLASSES}", body, step)


def test_a_pattern_asks_for_a_class() -> None:
    body = "print('called')\nmatch thing:\n    case Base(): return x * 2\n    case _: return x + 1"
    changing(CLASSES, body, "Base.register(Thing)")
