"""Lists that are sorted by tensors, numbers read from them, or tuples of them."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch

from tests.oracle import agrees, check
from tests.releases import since

T = TypeVar("T")

TRACED = since(2, 14)
"""torch 2.14 compares tuples by itself, and breaks where tensors in them decide."""


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values)


CALLS = [rows(1.0, 3.0, 2.0), rows(3.0, 2.0, 1.0), rows(1.0, 1.0, 1.0), rows(2.0, 1.0, 3.0)]


def _unless_it_flips(wanted: T) -> dict[str, T | None]:
    """With more calls, each in another order, it is given up."""
    return {"forward": wanted, "twice": None, "both ways": None}


@pytest.mark.parametrize("reverse", [False, True])
def test_list_sorted_by_a_tensor(reverse: bool) -> None:
    check(
        f"""
        def f(x):
            items = [("a", x[0]), ("b", x[1]), ("c", x[2])]
            items.sort(key=lambda item: item[1] * 2, reverse={reverse})
            return items
        """,
        calls=CALLS,
        mends=_unless_it_flips("speculate@3"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )


def test_tensors_sorted_by_themselves() -> None:
    check(
        """
        def f(x):
            items = [x[0], x[1], x[2]]
            items.sort()
            return items[0] * 2, items[2]
        """,
        calls=[*CALLS, rows(float("nan"), 1.0, 0.0)],
        mends=_unless_it_flips("speculate@3"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )


def test_a_list_of_the_programs_stays_the_same_list() -> None:
    check(
        """
        def f(x, items):
            items.sort(key=lambda i: x[i])
            return x[items[0]]
        """,
        calls=[(x, [0, 1, 2]) for x in CALLS],
        mends="speculate@2",
    )


def test_keys_of_several_elements_raise() -> None:
    check(
        """
        def f(x):
            items = [x, x + 1]
            print(len(items))
            items.sort()
            return items
        """,
        calls=CALLS[:2],
        mends="defer@3",
        declines="predicate-not-scalar@4",
        breaks=1,
    )


def test_sorted() -> None:
    check(
        """
        def f(x):
            return sorted((0, 1, 2), key=lambda i: x[i]), sorted({"a": x[0], "b": x[1]}), x + 1
        """,
        calls=CALLS,
        mends=_unless_it_flips("speculate@2"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )


@pytest.mark.parametrize(
    "pairs",
    [
        "sorted({'b': x, 'a': x * 2}.items())",
        "sorted([('b', x), ('a', x * 2)], reverse=True)",
        "sorted([(1, 2, x), (1, 2), (1, 1, x)])",  # a shorter one is less
        "sorted([((1, 'b'), x), ((1, 'a'), x)])",
        "sorted([(t.dim(), i, t) for i, t in enumerate((x, x[:1]))])",
        "sorted([(1, x, 2), (1, x, 1)])",  # the same object is equal, whatever it holds
        "sorted((name, t) for name, t in (('b', x), ('a', x * 2)))",
    ],
)
def test_names_decide_and_no_tensor_is_asked(pairs: str) -> None:
    source = f"""
        def f(x):
            return {pairs}, x + 1
        """
    check(source, [*CALLS, rows_with_nan()], "" if TRACED else "polyfill@2")


def rows_with_nan() -> torch.Tensor:
    return rows(float("nan"), 1.0, 0.0)


def test_keywords_and_parameters_by_their_names() -> None:
    source = """
        def total(**named):
            return [value for _, value in sorted(named.items())]

        def f(x):
            first, second = total(b=x, a=x * 2)
            return first - second
        """
    check(source, CALLS, "" if TRACED else "polyfill@2")


@pytest.mark.parametrize(
    "tied",
    [
        "[(1, x[0]), (1, x[1]), (0, x[2])]",
        "[((1, x[0]), 2), ((1, x[1]), 1), ((0, x[2]), 0)]",
        "[[1, x[0], 1], [1, x[0]], [1, x[1]]]",
        "[(1, x[0].item()), (1, x[1].item())]",
        "[(x[0].item(), 'a'), (x[1].item(), 'b'), (0.5, 'c')]",
    ],
)
def test_a_tie_asks_the_tensors(tied: str) -> None:
    source = f"""
        def f(x):
            return sorted({tied}), x + 1
        """
    for calls in (CALLS, [rows_with_nan(), *CALLS[:2]]):
        outcome = agrees(source, calls, orders=1)
        assert ("speculat" in outcome.mends + outcome.declines) != TRACED


def test_a_tie_of_tensors_with_several_elements_raises() -> None:
    source = """
        def f(x):
            print("sorting")
            return sorted([(1, x), (1, x + 1)])
        """
    why = "call-not-traced" if TRACED else "predicate-not-scalar"
    check(source, CALLS[:2], "defer@2", f"{why}@3", breaks=1)


@pytest.mark.parametrize(
    "key",
    [
        "lambda t: t.item()",
        "lambda t: -t.item()",
        "lambda t: float(t)",
        "lambda t: (t.item(), 1)",
        "lambda t: t.long().item()",
        "lambda t: (t > 1).item()",
        "lambda t: t.half().item()",
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_numbers_read_from_tensors(key: str, reverse: bool) -> None:
    source = f"""
        def f(x):
            items = [x[0], x[1], x[2]]
            items.sort(key={key}, reverse={reverse})
            return items[0] * 2, items
        """
    breaks = TRACED and key.endswith(", 1)")
    mends = "defer@3" if breaks else "defer@3 speculate@3"
    check(source, [CALLS[0]] * 2, mends, breaks=int(breaks))
    calls = [*CALLS, CALLS[0]] if "long" in key else [*CALLS, rows_with_nan(), CALLS[0]]
    agrees(source, calls, orders=1)


def test_large_integers_are_told_apart() -> None:
    source = """
        def f(x):
            return sorted([x[0], x[1]], key=lambda t: t.item()), x + 1
        """
    check(source, [torch.tensor([2**53 + 1, 2**53])] * 2, "defer@2 speculate@2")


@pytest.mark.parametrize(
    ("before", "keys", "why"),
    [
        ("", "[(1, x), ('a', x)]", "call-not-traced"),  # raises
        ("", "[x[0].item(), x[1].long().item()]", "predicate-not-exact"),
        ("", "[(A, x[0]), (B, x[1])]", "call-not-traced"),
        ("", "{('b', x), ('a', x)}", "call-not-traced"),
        ("class Row(tuple):\n    __lt__ = tuple.__gt__", "[Row((1, x)), Row((2, x))]", ""),
    ],
)
def test_what_is_left_to_python(before: str, keys: str, why: str) -> None:
    source = f"A, B = float('nan'), float('nan')\n{before}\ndef f(x):\n    return sorted({keys})"
    declines = agrees(source, CALLS[:2], orders=1).declines
    assert TRACED or (why or "call-not-traced") in declines


def test_the_list_is_empty_while_its_keys_are_computed() -> None:
    source = """
        def f(x):
            items = [x[0], x[1], x[2]]
            items.sort(key=lambda t: (len(items), t))
            return items
        """
    mends, declines = ("", "call-not-traced@3") if TRACED else ("speculate@3", "")
    check(source, CALLS[:1] * 2, mends, declines, breaks=int(TRACED))
