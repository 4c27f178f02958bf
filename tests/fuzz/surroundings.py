"""What programs read that is not theirs: how it is defined, read, and changed between two calls.

A trace learns from its surroundings, from what is there and from what is not. Each surrounding here is a
group of forms (see `grammar.py`) for programs that have it, with the changes that a program's `change(number)`
may make before a call. Two more fields in statements: `<i>` is a name that nothing else has, `<block>` stands
for statements. `{vector_old}` is a bound variable that the statement binds again.

A change never raises, and changes nothing outside the program's module but the grad mode, which the
oracle puts back.

Adding a surrounding, a form or a change here is all it takes to have it in the programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TREBLE: Final = "torch.ones(3) * 3"
DOUBLE: Final = "torch.full((3,), 2.0)"
OTHER_TYPE: Final = "torch.full((3,), 2.0, dtype=torch.float64)"


@dataclass(frozen=True)
class Surrounding:
    """One thing that programs read.

    Attributes:
        definitions: module texts, one of which defines it.
        changes: by kind of change, the statements that make it.
        name: the variable that holds it, if a function may also get it as a default or in a cell.
        readers: text of functions that read it when they are called.
        vector, number, test: expressions that read it.
        statements: statements that read it.
    """

    definitions: tuple[str, ...]
    changes: dict[str, tuple[str, ...]]
    name: str = ""
    readers: str = ""
    vector: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()


def quietly(statement: str, error: str) -> str:
    """A change that is none where there is nothing to change."""
    return f"with contextlib.suppress({error}):\n    {statement}"


KEYS: Final = Surrounding(
    name="table",
    definitions=(
        "table = {}",
        "table = {'a': torch.ones(3)}",
        "import collections\ntable = collections.OrderedDict(a=torch.ones(3))",
        "import collections\ntable = collections.ChainMap({}, {'b': torch.ones(3)})",
        "import collections\ntable = collections.defaultdict(float, a=torch.ones(3))",
        "import collections\ntable = collections.UserDict(b=torch.ones(3))",
        "class Table(dict):\n    def __missing__(self, key):\n        if key == 'b':\n"
        "            return 4.0\n        raise KeyError(key)\n\ntable = Table(a=torch.ones(3))",
    ),
    readers=(
        "def fetched(table, key, x):\n    try:\n        found = table[key]\n"
        "    except KeyError:\n        return x\n    return x * found"
    ),
    vector=(
        "table.get('a', {vector})",
        "{vector} * table.get('b', {constant})",
        "({vector} * table['a'] if 'a' in table else {vector})",
        "fetched(table, 'b', {vector})",
        "{vector} * len(table)",
        "sum(table.values(), {vector})",
        "{vector} + sum([2 for key in ('a', 'b') if key in table])",
    ),
    number=("len(table)", "table.get('n', 2)"),
    test=("'b' in table", "table.get('a') is None", "not table", "list(table) == ['a']"),
    statements=(
        "try:\n    {vector_old} = {vector} * table['a']\nexcept KeyError:\n    print('missing', {vector}.detach().sum())",
        "try:\n    {vector_old} = {vector} * table['b']\nexcept KeyError:\n    <block>",
        "for <i> in ('a', 'b'):\n    try:\n        {vector_old} = {vector} + table[<i>]\n"
        "    except KeyError:\n        print(<i>, 'missing')\n        continue\n    <block>",
        "with contextlib.suppress(KeyError):\n    {vector_old} = {vector} + table['b']\n    <block>",
        "for <i> in table.values():\n    {vector_old} = {vector} + <i>\n    <block>",
        "for <i> in list(table):\n    print(<i>, {vector}.detach() * table[<i>])",
        "if 'b' in table:\n    {vector_old} = {vector} * table['b']\nelse:\n    <block>",
        "if (<i> := table.get('a')) is not None:\n    {vector_old} = {vector} + <i>",
        "table.pop('b', None)",
    ),
    changes={
        "key comes": (f"table['a'] = {TREBLE}", f"table['b'] = {DOUBLE}", "table['n'] = 5"),
        "key goes": (
            quietly("del table['a']", "KeyError"),
            "table.pop('b', None)",
            "table.clear()",
        ),
        "value changes type": ("table['a'] = 3.0", "table['a'] = 3", f"table['b'] = {OTHER_TYPE}"),
        "keys change order": ("table['a'] = table.pop('a', 1.5)",),
        "dict is another": (f"table = {{'b': {TREBLE}}}", "table = {}"),
    },
)

ATTRIBUTES: Final = Surrounding(
    name="held",
    definitions=(
        "class Held:\n    pass\n\nheld = Held()",
        "class Held:\n    pass\n\nheld = Held()\nheld.u = torch.ones(3)",
        "class Held:\n    __slots__ = ('u', 'v', 'n')\n\nheld = Held()",
        "class Held:\n    u = torch.ones(3)\n\nheld = Held()",
        "class Held(nn.Module):\n    u = 1.5\n\nheld = Held()",
        "import types\nheld = types.SimpleNamespace(u=torch.ones(3))",
        "import types\nheld = types.ModuleType('held')\nheld.u = torch.ones(3)",
        "class Held:\n    def __getattr__(self, name):\n        if name == 'u':\n            return 2.5\n"
        "        raise AttributeError(name)\n\nheld = Held()",
    ),
    readers=(
        "def asked(held, x):\n    try:\n        found = held.v\n"
        "    except AttributeError:\n        return x\n    return x * found"
    ),
    vector=(
        "{vector} * getattr(held, 'u', 2)",
        "{vector} * getattr(held, 'v', {constant})",
        "(held.u + {vector} if hasattr(held, 'u') else {vector})",
        "{vector} + getattr(held, '__dict__', {{}}).get('v', {constant})",
        "asked(held, {vector})",
        "{vector} * held.u",
    ),
    number=("getattr(held, 'n', 1)", "len(getattr(held, '__dict__', ()))"),
    test=("hasattr(held, 'v')", "getattr(held, 'u', None) is None", "'v' in dir(held)"),
    statements=(
        "try:\n    {vector_old} = {vector} * held.v\nexcept AttributeError:\n    print('none', {vector}.detach().sum())",
        "try:\n    {vector_old} = {vector} + held.u\nexcept AttributeError:\n    <block>",
        "with contextlib.suppress(AttributeError):\n    {vector_old} = {vector} - held.v\n    <block>",
        "for <i> in ('u', 'v'):\n    if not hasattr(held, <i>):\n        print(<i>, 'missing')\n        continue\n"
        "    {vector_old} = {vector} * getattr(held, <i>)",
        "if 'v' in getattr(held, '__dict__', ()):\n    {vector_old} = {vector} * held.v\nelse:\n    <block>",
        "held.n = getattr(held, 'n', 0) + 1",
    ),
    changes={
        "attribute comes": (f"held.u = {TREBLE}", f"held.v = {DOUBLE}", "held.n = 4"),
        "attribute goes": tuple(quietly(f"del held.{name}", "AttributeError") for name in "uv"),
        "attribute changes type": ("held.u = 3.0", f"held.v = {OTHER_TYPE}", "held.u = 2"),
        "attribute becomes None": ("held.v = None",),
    },
)

CLASSES: Final = Surrounding(
    name="kind",
    definitions=(
        "class Base:\n    pass\n\n"
        "class Other(Base):\n    def scaled(self, x):\n        return x + 9\n\n"
        "class Kind(Base):\n    def scaled(self, x):\n        return x * getattr(self, 'rate', 2)\n\n"
        "kind = Kind()",
    ),
    vector=(
        "kind.scaled({vector})",
        "{vector} * getattr(kind, 'rate', 3)",
        "{vector} * vars(Kind).get('rate', 1)",
        "({vector} + 1 if hasattr(type(kind), 'rate') else {vector})",
        "{vector} * getattr(Base, 'rate', 5)",
    ),
    test=("isinstance(kind, Other)", "hasattr(Kind, 'rate')", "not kind", "kind == 1", "callable(kind)"),
    statements=(
        "try:\n    {vector_old} = {vector} * kind.rate\nexcept AttributeError:\n    <block>",
        "try:\n    {vector_old} = {vector} * len(kind)\nexcept TypeError:\n    print('no length', {vector}.detach())",
        "try:\n    {vector_old} = {vector} * Kind.__dict__['rate']\nexcept KeyError:\n    <block>",
    ),
    changes={
        "class attribute comes": ("Kind.rate = 4", "Base.rate = 0.5"),
        "class attribute goes": tuple(
            quietly(f"del {name}.rate", "AttributeError") for name in ("Kind", "Base")
        ),
        "class attribute is shadowed": ("vars(kind)['rate'] = 7",),
        "shadow goes": ("vars(kind).pop('rate', None)",),
        "property comes": ("Kind.rate = property(lambda self: 6)",),
        "method is replaced": ("Kind.scaled = lambda self, x: x - 1", "vars(kind)['scaled'] = lambda x: -x"),
        "special method comes": (
            "Kind.__len__ = lambda self: 0",
            "Kind.__getattr__ = lambda self, name: 8",
            "Kind.__eq__ = lambda self, other: True",
            "Kind.__call__ = lambda self: None",
        ),
        "object changes class": ("kind.__class__ = Other", "kind.__class__ = Kind"),
    },
)  # fmt: skip

GLOBALS: Final = Surrounding(
    definitions=("level = 2.0", "level = torch.ones(3)\nspare = 2"),
    readers="def levelled(x):\n    try:\n        return x * spare\n    except NameError:\n        return x",
    vector=(
        "{vector} * level",
        "levelled({vector})",
        "{vector} + globals().get('spare', 1)",
        "(spare * {vector} if 'spare' in globals() else {vector})",
        "abs({vector})",
    ),
    test=("'spare' in globals()", "isinstance(level, float)", "'level' not in globals()"),
    statements=(
        "try:\n    {vector_old} = {vector} * spare\nexcept NameError:\n    <block>",
        "try:\n    {vector_old} = {vector} + level\nexcept NameError:\n    print('no level', {vector}.detach())",
        "with contextlib.suppress(NameError):\n    {vector_old} = spare - {vector}\n    <block>",
    ),
    changes={
        "global is rebound": ("level = 3.0", "level = 0.5", f"level = {TREBLE}"),
        "global changes type": ("level = 2", "level = True", f"level = {OTHER_TYPE}"),
        "global comes": ("spare = 3.0", f"spare = {DOUBLE}"),
        "global goes": ("globals().pop('level', None)", "globals().pop('spare', None)"),
        "builtin is shadowed": ("abs = lambda x: x * 2",),
        "shadow of builtin goes": ("globals().pop('abs', None)",),
    },
)

NESTED: Final = Surrounding(
    name="nest",
    definitions=(
        "import types\nnest = {'in': {'a': torch.ones(3)}, 'at': types.SimpleNamespace(rows=[])}",
        "import types\nnest = {'at': types.SimpleNamespace(u={}, rows=[torch.ones(3)])}",
    ),
    readers=(
        "def found_in(nest, *path):\n    for key in path:\n        try:\n            nest = nest[key]\n"
        "        except (KeyError, IndexError, TypeError):\n            return None\n    return nest\n\n"
        "def deep(nest, x):\n    found = found_in(nest, 'in', 'b')\n    if found is None:\n        return x\n"
        "    return x + found"
    ),
    vector=(
        "{vector} * nest.get('in', {{}}).get('a', {constant})",
        "deep(nest, {vector})",
        "{vector} + getattr(nest['at'], 'u', {{}}).get('a', {constant})",
        "sum(nest['at'].rows, {vector})",
    ),
    number=("len(nest['at'].rows)",),
    test=("found_in(nest, 'in', 'a') is None", "hasattr(nest['at'], 'u')"),
    statements=(
        "try:\n    {vector_old} = {vector} * nest['in']['b']\nexcept KeyError:\n    <block>",
        "try:\n    {vector_old} = {vector} * nest['at'].u['a']\nexcept (AttributeError, KeyError):\n    <block>",
        "for <i> in ('in', 'out'):\n    if <i> not in nest:\n        print(<i>, 'missing')\n        continue\n"
        "    {vector_old} = sum(nest[<i>].values(), {vector})",
    ),
    changes={
        "inner key comes": (f"nest.setdefault('in', {{}})['a'] = {TREBLE}", f"nest.setdefault('in', {{}})['b'] = {DOUBLE}"),
        "inner key goes": ("nest.get('in', {}).pop('a', None)", "nest.pop('in', None)"),
        "outer key comes": (f"nest['out'] = {{'a': {DOUBLE}}}",),
        "inner attribute comes": (f"nest['at'].u = {{'a': {TREBLE}}}",),
        "inner attribute goes": ("vars(nest['at']).pop('u', None)",),
        "inner item comes": (f"nest['at'].rows.append({DOUBLE})",),
    },
)  # fmt: skip

MODES: Final = Surrounding(
    definitions=("weight = torch.ones(3, requires_grad=True)",),
    vector=(
        "({vector} + 1 if torch.is_grad_enabled() else {vector})",
        "{vector} * weight",
        "({vector} * weight).detach()",
    ),
    test=("torch.is_grad_enabled()", "({vector} * weight).requires_grad"),
    statements=(
        "if torch.is_grad_enabled():\n    <block>\nelse:\n    {vector_old} = {vector} * 2",
    ),
    changes={
        "grad mode is off": ("torch.set_grad_enabled(False)",),
        "grad mode is on": ("torch.set_grad_enabled(True)",),
        "weight is frozen": ("weight.requires_grad_(False)",),
        "weight is trained": ("weight.requires_grad_(True)",),
    },
)
