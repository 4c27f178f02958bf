"""`itertools.groupby`, with its key by position and by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphmend_bc.contrib.groupby import groups
from tests.oracle import check

X, KINDS = torch.tensor([1.0, -2.0]), torch.tensor([1, 3, 2, 4, 4, 5])
CALLS = [(X, KINDS), (-X, KINDS), (X, KINDS.flip(0))]


def agrees(body: str, mends: str, **options: Any) -> None:
    check(
        f"""
import itertools
NAMES = ["a", "b", "cc", "dd", "e"]
asked = []

def asking(name):
    asked.append(name)
    return len(name)

def f(x, kinds):
{body}
""",
        CALLS,
        mends,
        declines=None,
        breaks=None,
        orders=1,
        **options,
    )


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        (
            """
    spans = []
    for kind, group in itertools.groupby(enumerate(kinds.tolist()), lambda item: item[1] % 2):
        group = list(group)
        spans.append((kind, group[0][0], group[-1][0] + 1))
    return [x[:1] * last for _, _, last in spans], spans
""",
            "hoist@12 polyfill@12",
        ),
        (
            """
    for size, group in itertools.groupby(iterable=NAMES, key=len):
        x = x * (size + len(list(group)))
    return x
""",
            "polyfill@11",
        ),
        (
            """
    pairs = [(len(name), name > "b") for name in NAMES]
    return x, [(key, len(list(group))) for key, group in itertools.groupby(pairs, None)]
""",
            "polyfill@12",
        ),
        (
            """
    late = list(itertools.groupby(NAMES, len))
    return x * len(late), [(size, list(group)) for size, group in late]
""",
            "polyfill@11",
        ),
        (
            """
    for size, group in itertools.groupby(NAMES, asking):
        asked.append(size)
        if size == 2:
            x = x + len(next(group))
            break
    return x, list(asked)
""",
            "polyfill@11",
        ),
        (
            """
    whole = itertools.groupby(NAMES, len)
    kinds = type(whole).__name__, isinstance(whole, itertools.groupby), iter(whole) is whole
    return x, kinds, type(next(whole)[1]).__name__
""",
            "polyfill@11",
        ),
        (
            """
    for size, group in itertools.groupby(NAMES, len):
        print(size, list(group))
        x = x * size
    return x
""",
            "polyfill@11 defer@12",
        ),
        (
            """
    try:
        for part, group in itertools.groupby(NAMES, lambda name: 1 / (len(name) - 2)):
            x = x + part
    except ZeroDivisionError:
        x = x - len(asked)
    return x
""",
            "polyfill@12",
        ),
    ],
    ids=[
        "by position",
        "by name",
        "no key",
        "groups used late",
        "as lazily",
        "types",
        "effects",
        "raises",
    ],
)
def test_groups(body: str, mends: str) -> None:
    agrees(body, mends, fullgraph=True)


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("    return itertools.groupby(NAMES, len), x + 1", ""),
        (
            "    for size, group in itertools.groupby(NAMES, len): x.tolist(); asked.append(list(group))\n    return x",
            "defer@10 polyfill@10",
        ),
        ("    return [k for k, _ in itertools.groupby([x, x, -x], torch.sum)]", ""),
        (
            "    return [k for k, _ in itertools.groupby(NAMES, lambda name: 1 / (len(name) - 2))], x + 1",
            "",
        ),
        ("    return itertools.groupby(), x", ""),
        ("    return hasattr(itertools.groupby(NAMES, len), 'send'), x + 1", ""),
        ("    return [group for _, group in itertools.groupby(NAMES, len)], x + 1", ""),
        ("    return [k for k, _ in itertools.groupby(3, len)], x", ""),
    ],
    ids=[
        "escapes",
        "a break in the loop",
        "tensors as keys",
        "a key that raises",
        "no",
        "asked",
        "groups",
        "no items",
    ],
)
def test_what_else_they_do(body: str, mends: str) -> None:
    agrees(body, mends)


@given(
    st.lists(st.integers(0, 2), max_size=8),
    st.booleans(),
    st.lists(st.integers(-1, 3), max_size=24),
)
def test_as_lazy_as_the_original(items: list[int], named: bool, asked: list[int]) -> None:
    """-1 asks for the next group, n for an item of the n-th group."""

    def run(function: Callable[..., Any]) -> list[object]:
        seen: list[object] = []

        def key(item: int) -> bool:
            seen.append(item)
            return item > 0

        whole = function(items, *(() if named else (key,)))
        parts: list[Any] = []
        for number in asked:
            source = whole if number < 0 or not parts else parts[number % len(parts)]
            given = next(source, None)
            if source is whole and given is not None:
                parts.append(given[1])
            seen.append(given[0] if source is whole and given is not None else given)
        return [value for value in seen if not isinstance(value, Iterator)]

    assert run(groups.groupby) == run(itertools.groupby)
