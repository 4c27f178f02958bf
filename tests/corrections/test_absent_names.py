"""What was absent while a frame was traced, and comes: frames with a mend guard on it."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.surroundings import changing

MENDED = "print('sum', x.sum())"

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


CLASSES = {
    "plain": "class O: pass",
    "slots": "class O:\n    __slots__ = ('w',)",
    "child": "class Parent: pass\nclass O(Parent): pass",
    "asks": "class O:\n    def __getattr__(self, name): raise AttributeError(name)",
    "default": "class O:\n    def __getattr__(self, name): return 1",
}

ATTRIBUTES = {
    "AttributeError": "try: w = o.w\nexcept AttributeError: w = 1",
    "hasattr": "w = o.w if hasattr(o, 'w') else 1",
    "getattr": "w = getattr(o, 'w', 1)",
    "new": "o = O()\ntry: w = o.w\nexcept AttributeError: w = 1",
}


@pytest.mark.parametrize("made", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("asked", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_attribute_of_the_object_or_its_class(asked: str, made: str) -> None:
    steps = ["o.w = 3", "del o.w"]
    if "slots" not in made:
        steps += ["O.w = 4", "del O.w"]
    changing(f"{made}\no = O()", f"{asked}\n{MENDED}\nreturn w * x", *steps)


@pytest.mark.parametrize(
    "asked",
    [
        "try: w = o.__dict__['w']\nexcept KeyError: w = 1",
        "w = vars(o).get('w', 1)",
        "w = o.w if 'w' in vars(o) else 1",
        "w = len(vars(o)) + 1",
        "w = sum(vars(o).values())",
        "w = len({**vars(o)})",
        "vars(o)['q'] = 1\nw = vars(o).get('w', 1)",
        "w = 1\ntry: del o.w\nexcept AttributeError: w = 2",
    ],
)
def test_dict_of_an_object(asked: str) -> None:
    changing(
        "class O: pass\no = O()",
        f"{asked}\n{MENDED}\nreturn w * x",
        "o.w = 3",
        "vars(o).pop('w', None)",
        "o.v = 4",
    )


@pytest.mark.parametrize(
    "owner",
    [
        "class o: pass",
        "class Parent: pass\nclass o(Parent): pass",
        "def o(): pass",
        "import types\no = types.ModuleType('o')",
        "o = torch.ones(3)",
        "o = nn.Parameter(torch.ones(3))",
        "o = nn.Linear(3, 3)",
        "import types\no = types.SimpleNamespace()",
    ],
)
@pytest.mark.parametrize("asked", list(ATTRIBUTES.values())[:3], ids=list(ATTRIBUTES)[:3])
def test_attribute_of(owner: str, asked: str) -> None:
    changing(owner, f"{asked}\n{MENDED}\nreturn w * x", "o.w = 3", "del o.w", "o.v = 2")


def test_attribute_of_a_metaclass() -> None:
    changing(
        "class Meta(type): pass\nclass O(metaclass=Meta): pass",
        f"try: w = O.w\nexcept AttributeError: w = 1\n{MENDED}\nreturn w * x",
        "Meta.w = 3",
        "del Meta.w",
    )


def test_global_that_hides_a_builtin() -> None:
    changing(
        "def count(n): return [i for i in range(n)]",
        f"w = len(count(3))\n{MENDED}\nreturn w * x",
        "range = lambda n: [1]",
        "del range",
        "len = lambda items: 7",
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


@pytest.mark.parametrize(
    "asked",
    [
        "try: w = items[1]\nexcept IndexError: w = 1",
        "try: w = items.index(3)\nexcept ValueError: w = 7",
        "try: w = next(i for i in items if i > 2)\nexcept StopIteration: w = 9",
        "if len(items) < 2: return x\nw = items[1]",
    ],
)
def test_list(asked: str) -> None:
    changing("items = [1]", f"{MENDED}\n{asked}\nreturn w * x", "items.append(3)", "items.pop()")


@pytest.mark.parametrize(
    "asked",
    [
        "try: w = self.q\nexcept AttributeError: w = 1",
        "w = self.table['k'](x) if 'k' in self.table else 1",
        "try: w = self.table['k'](x)\nexcept KeyError: w = 1",
        "w = 2 if 'q' in self._parameters else 1",
    ],
)
def test_parts_of_a_module(asked: str) -> None:
    lines = f"{asked}\n{MENDED}\nreturn w * x".replace("\n", "\n        ")
    changing(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.table = nn.ModuleDict()\n    def forward(self, x):\n        {lines}\nm = M()",
        "return m(x)",
        "m.q = nn.Parameter(torch.zeros(3))",
        "del m.q",
        "m.register_buffer('q', torch.ones(3) * 4)",
        "m.table['k'] = nn.Identity()",
        "m.table.pop('k')",
    )


def test_no_guards_without_a_mend() -> None:
    """Stock is wrong here, and stays as it is."""
    with pytest.raises(AssertionError, match="value differs"):
        changing(
            "d = {}",
            "try: w = d['k']\nexcept KeyError: w = 1\nreturn w * x",
            "d['k'] = 3",
            mends=False,
        )


def test_an_attribute_that_a_bound_method_lacks() -> None:
    """`nn.Module.__setattr__` asks its method `register_buffer` for one, when a buffer is assigned."""
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(3))

            def forward(self, x):
                return x

        net = Net()

        def f(x):
            if x.sum() > 0:
                x = x * 2
            net.seen = net(x).detach().float()
            return net.seen + 1
        """,
        calls=[torch.ones(3), -torch.ones(3)],
        mends="speculate@12",
    )
