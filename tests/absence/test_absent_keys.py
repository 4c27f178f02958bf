"""Keys that were absent while a frame was traced, and come: frames with a mend guard on them."""

from __future__ import annotations

import pytest

from tests.absence.test_absent_names import MENDED
from tests.releases import since
from tests.surroundings import changing

DICTS = {
    "plain": "{}",
    "ordered": "collections.OrderedDict()",
    "default": "collections.defaultdict()",
    "counter": "collections.Counter()",
    "user": "collections.UserDict()",
    "chain": "collections.ChainMap({}, {})",
    "subclass": "type('D', (dict,), {})()",
}

MISSING = {
    "KeyError": "try: w = d['k']\nexcept KeyError: w = 1",
    "LookupError": "try: w = d['k']\nexcept LookupError: w = 1",
    "Exception": "try: w = d['k']\nexcept Exception: w = 1",
    "suppress": "w = 1\nwith contextlib.suppress(KeyError): w = d['k']",
    "helper": "w = fetch('k')",
    "comprehension": "w = [fetch(k) for k in ('j', 'k')][1]",
    "get": "w = d.get('k', 1)",
    "contains": "w = d['k'] if 'k' in d else 1",
    "first": "w = next(iter(d.values()), 1)",
}


@pytest.mark.parametrize("made", DICTS.values(), ids=DICTS)
@pytest.mark.parametrize("asked", MISSING.values(), ids=MISSING)
def test_key_that_comes_and_goes(asked: str, made: str) -> None:
    changing(
        f"d = {made}\ndef fetch(k):\n    try: return d[k]\n    except KeyError: return 1\n",
        f"{asked}\n{MENDED}\nreturn (w + 1) * x",
        "d['k'] = 3",
        "del d['k']",
        "d['other'] = 9; d['k'] = 7",
    )


@pytest.mark.parametrize(
    "mended",
    [MENDED, "if x.sum() > 1000: raise ValueError('large')", "x = x + x.sum().item()"],
    ids=["effect", "speculation", "number"],
)
def test_key_under_each_kind_of_mend(mended: str) -> None:
    changing(
        "d = {'inner': {}}",
        f"try: w = d['inner']['k']\nexcept KeyError: w = 1\n{mended}\nreturn w * x",
        "d['inner']['k'] = 3",
        "del d['inner']",
        "d['inner'] = {'k': 5}",
    )


def test_print_in_the_handler() -> None:
    changing(
        "d = {}",
        f"""
found = []
for k in ("a", "b"):
    try: w = d[k]
    except KeyError:
        {MENDED}
        continue
    found.append(w * x)
return found
""",
        "d['a'] = torch.ones(3) * 3",
        "d['b'] = 2.0",
        "del d['a']",
    )


@pytest.mark.parametrize("key", ["'k'", "0", "int", "(1, 'a')", "Key()", "torch.ones(1)", "Name.A"])
def test_key_of_each_type(key: str) -> None:
    changing(
        "import enum\nclass Key: pass\nclass Name(enum.Enum):\n    A = 1\n"
        f"k, other = {key}, 'z'\nd = {{}}",
        f"try: w = d[k]\nexcept KeyError: w = 1\n{MENDED}\nreturn w * x",
        "d[k] = 3",
        "del d[k]",
        "d['z'] = 5",
        "k = other",
    )


@pytest.mark.parametrize(
    "taken",
    ["del d['k']", "d.pop('k')", "d.popitem()", "d.move_to_end('k')", "next(iter(d))"],
)
def test_taking_what_is_not_there(taken: str) -> None:
    if taken == "del d['k']" and not since(2, 13):
        pytest.skip("Stock ends in an internal error.")
    changing(
        "d = collections.OrderedDict()",
        f"w = 1\ntry: {taken}\nexcept (KeyError, StopIteration): w = 2\n{MENDED}\nreturn w * x",
        "d['k'] = 3",
    )


def test_order_of_keys_that_are_taken() -> None:
    changing(
        "d = {'a': 1, 'b': 2}",
        f"k, w = d.popitem()\nd[k] = w\n{MENDED}\nreturn w * x",
        "d['a'] = d.pop('a')",
        "d['c'] = 9",
    )


def test_text_of_a_dict() -> None:
    changing("d = {}", f"{MENDED}\nreturn x * len(str(d)), repr(d), f'{{d}}'", "d['k'] = 3")


WHOLE = {
    "truth": "w = 2 if d else 1",
    "not": "w = 1 if not d else 2",
    "list": "w = len(list(d)) + 1",
    "unpacked": "w = len([*d]) + 1",
    "unpacked into a dict": "w = len({**d}) + 1",
    "extended": "k = []\nk.extend(d)\nw = len(k) + 1",
    "set": "w = len(set(d)) + 1",
    "updated": "k = set()\nk.update(d)\nw = len(k) + 1",
    "fromkeys": "w = len(dict.fromkeys(d)) + 1",
    "copied": "w = len(dict(d)) + 1",
    "largest": "w = len(max(d, default=''))",
    "sorted": "w = len(''.join(sorted(d)))",
    "any": "w = 2 if any(d) else 1",
    "in a text": "w = len(str([d]))",
    "compared": "w = 2 if d == {'k': 3} else 1",
}


@pytest.mark.parametrize("asked", WHOLE.values(), ids=WHOLE)
def test_dict_that_is_taken_whole(asked: str) -> None:
    changing(
        "d = {}",
        f"{asked}\n{MENDED}\nreturn w * x",
        "d['k'] = 3",
        "d['long'] = d.pop('k')",
        "d.clear()",
    )


@pytest.mark.parametrize(
    "asked",
    [
        "w = 1 if 'k' in s else 2",
        "w = 1 if key in s else 2",
        "w = 1\ntry: s.remove('k')\nexcept KeyError: w = 2",
        "w = len(s) + 1",
        "w = 1 if s else 2",
    ],
)
def test_set(asked: str) -> None:
    changing("s = set()\nkey = 'k'", f"{asked}\n{MENDED}\nreturn w * x", "s.add('k')", "s.add('j')")
