"""Objects of the user's classes as keys of dicts and items of sets."""

from __future__ import annotations

import pytest

from tests.surroundings import after_branch, changing

KEY = """
import dataclasses
class Key:
    def __init__(self, v): self.v = v
    def __eq__(self, other): return self.v == other.v if isinstance(other, Key) else NotImplemented
    def __hash__(self): return hash(self.v)
class Any(Key):
    def __eq__(self, other): return True
    def __hash__(self): return hash(self.v)
class Never:
    def __eq__(self, other): return False
    def __hash__(self): return 1
class Plain:
    def __hash__(self): return 1
class OfTensor:
    def __init__(self, v): self.v = v
    def __eq__(self, other): return bool((self.v == other.v).all())
    def __hash__(self): return 3
@dataclasses.dataclass(unsafe_hash=True)
class Point:
    a: int = 1
"""
READS = {
    "get": "return x * {Key(1): 2.0}.get(Key(1), 3.0), {Key(1): 2.0}.get(Key(2), 3.0)",
    "in": "return x, Key(1) in {Key(1)}, Key(2) in {Key(1)}, 1 in {Key(1): 2}",
    "set": "return x, len({Key(1), Key(1), Key(2)}), {Key(1)} == {Key(1)}, {Key(1)} <= {Key(2)}",
    "operators": "return x, [k.v for k in {Key(1), Key(2)} & {Key(2)}], len({Key(1)} | {Key(1)})",
    "written": "d = {Key(1): x}\nd[Key(1)] = d[Key(1)] + 1\nreturn d[Key(1)], len(d)",
    "deleted": "d = {Key(1): 1, Key(2): 2}\ndel d[Key(1)]\nreturn x * d.pop(Key(2)), len(d)",
    "first is kept": "a, b = Key(1), Key(1)\nd = {a: 1}\nd[b] = 2\nk, = d\nreturn x * d[a], k is a",
    "of subclasses": "return x, Any(1) in {Key(1)}, Key(1) in {Any(1)}, Any(2) in {Key(1)}",
    "never equal": "a, b = Never(), Never()\nreturn x, a in {a}, b in {a}, len({a, a, b})",
    "by identity": "a, b = Plain(), Plain()\nreturn x, a in {a}, b in {a}, {a: 1}.get(b, 5)",
    "of tensors": "return x, OfTensor(x) in {OfTensor(x)}, OfTensor(x + 1) in {OfTensor(x)}",
    "dataclass": "return x, Point(1) in {Point(1)}, len({Point(1), Point(1), Point(2)})",
    "defaultdict": "d = collections.defaultdict(list)\nd[Key(1)].append(x)\n"
    "d[Key(1)].append(x + 1)\nreturn d[Key(1)], len(d)",
    "counter": "c = collections.Counter([Key(1), Key(1)])\nreturn x * c[Key(1)], len(c)",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_keys_that_are_made(read: str) -> None:
    assert after_branch(KEY, read).mends


@pytest.mark.parametrize("limit", [0, 9], ids=["taken", "not taken"])
def test_keys_that_were_there(limit: int) -> None:
    changing(
        f"{KEY}\nKEPT, OTHER = {{Key(1): 2.0}}, Key(1)",
        f"if x.sum() > {limit}: x = x * 2\nreturn x * KEPT.get(OTHER, 7.0), OTHER in KEPT",
        "OTHER.v = 5",
        "KEPT[OTHER] = 9.0",
        "KEPT.clear()",
        "KEPT[Key(5)] = 4.0",
    )
