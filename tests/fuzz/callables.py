"""More surroundings of programs: what they call and go over (see `surroundings.py`)."""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import (
    ATTRIBUTES,
    CLASSES,
    DOUBLE,
    GLOBALS,
    KEYS,
    MODES,
    NESTED,
    OTHER_TYPE,
    TREBLE,
    Surrounding,
    quietly,
)

_CELLS = (
    "def make_cells():\n    rate, extra = (2.0, 0.5)\n\n"
    "    def rated(x):\n        return x * rate\n\n"
    "    def summed(x):\n        try:\n            return x + extra\n"
    "        except NameError:\n            return x\n\n"
    "    def turn(value):\n        nonlocal rate\n        rate = value\n\n"
    "    def put(value):\n        nonlocal extra\n        extra = value\n\n"
    "    def empty():\n        nonlocal extra\n        del extra\n\n"
    "    return (rated, summed, turn, put, empty)\n\n"
    "rated, summed, turn, put, empty = make_cells()"
)

CELLS: Final = Surrounding(
    definitions=(_CELLS, f"{_CELLS}\nempty()"),
    vector=("rated({vector})", "summed({vector})"),
    number=("len(rated.__closure__)",),
    changes={
        "cell is rebound": ("turn(3.0)", f"turn({TREBLE})", f"put({DOUBLE})", "put(1.5)"),
        "cell changes type": ("turn(2)", "put(True)", f"turn({OTHER_TYPE})"),
        "cell is set from outside": ("rated.__closure__[0].cell_contents = 4.0",),
        "cell is emptied": (quietly("empty()", "NameError"),),
    },
)

DEFAULTS: Final = Surrounding(
    definitions=(
        "def scaled(x, by=2.0, *, plus=1.0):\n    return x * by + plus",
        "def scaled(x, by=2.0, *, plus=1.0):\n    if x.sum() > 0:\n        return x * by\n    return x * plus",
    ),
    vector=(
        "scaled({vector})",
        "scaled({vector}, plus=0)",
        "{vector} * getattr(scaled, 'mark', 2)",
        "{vector} + len(scaled.__defaults__ or ())",
    ),
    test=("hasattr(scaled, 'mark')", "scaled.__defaults__ is None"),
    statements=(
        "try:\n    {vector_old} = scaled({vector})\nexcept TypeError:\n    <block>",
        "try:\n    {vector_old} = {vector} * scaled.mark\nexcept AttributeError:\n    print('no mark', {vector}.detach())",
    ),
    changes={
        "defaults change": ("scaled.__defaults__ = (3.0,)", f"scaled.__defaults__ = ({TREBLE},)"),
        "defaults go": ("scaled.__defaults__ = None", "scaled.__kwdefaults__ = None"),
        "keyword defaults change": ("scaled.__kwdefaults__ = {'plus': 2.5}",),
        "keyword default is written": ("(scaled.__kwdefaults__ or {}).update(plus=4.0)",),
        "attribute of function comes": ("scaled.mark = 3", f"scaled.mark = {DOUBLE}"),
        "attribute of function goes": ("vars(scaled).pop('mark', None)",),
    },
)

_LAYER = (
    "class Layer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.weight = nn.Parameter(torch.ones(3))\n\n"
    "    def forward(self, x):\n        {}return x * self.weight\n\nlayer = Layer()\nhandles = []\n\n"
    "def after(module, args, out):\n    return out * 2\n\n"
    "def after_if(module, args, out):\n    if out.sum() > 0:\n        return out - 1\n    return None\n\n"
    "def before(module, args):\n    return (args[0] + 1,)\n\n"
    "def before_print(module, args):\n    print('before', args[0].detach())"
)

HOOKS: Final = Surrounding(
    name="layer",
    definitions=(
        _LAYER.format(""),
        _LAYER.format("if x.sum() > 0:\n            x = x + 1\n        "),
        _LAYER.format("")
        + "\n\nlayer = nn.Sequential(layer, nn.ReLU())",
    ),
    vector=("layer({vector})", "({vector} + 1 if layer._forward_hooks else {vector})"),
    number=("len(layer._forward_pre_hooks)",),
    changes={
        "forward hook comes": tuple(
            f"handles.append(layer.register_forward_hook({hook}))"
            for hook in ("after", "after_if", "after, prepend=True")
        ),
        "forward pre-hook comes": tuple(
            f"handles.append(layer.register_forward_pre_hook({hook}))"
            for hook in ("before", "before_print")
        ),
        "inner hook comes": (
            "[handles.append(part.register_forward_hook(after_if)) for part in layer.children()]",
        ),
        "hook goes": ("if handles:\n    handles.pop().remove()", "if handles:\n    handles.pop(0).remove()"),
        "all hooks go": ("while handles:\n    handles.pop().remove()",),
        "forward is replaced": ("layer.forward = lambda x: x * 3",),
        "forward is put back": ("vars(layer).pop('forward', None)",),
    },
)  # fmt: skip

FLAGS: Final = Surrounding(
    name="gate",
    definitions=(
        "class Gate(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.ones(3))\n        self.inner = nn.Dropout(0.5)\n"
        "        self.flag = False\n\n"
        "    def forward(self, x):\n        x = self.inner(x) + self.weight\n        if self.flag:\n"
        "            x = x * 2\n        if hasattr(self, 'extra'):\n            x = self.extra(x)\n"
        "        return x + getattr(self, 'late', 1)\n\ngate = Gate()",
    ),
    vector=(
        "gate({vector})",
        "{vector} * gate.weight",
        "({vector} * 2 if gate.training else {vector})",
        "{vector} + getattr(gate, 'late', 1)",
        "{vector} * len(list(gate.children()))",
        "{vector} * len(list(gate.parameters()))",
    ),
    test=("gate.flag", "gate.training", "hasattr(gate, 'late')", "gate.inner.training"),
    statements=(
        "for <i> in gate.children():\n    {vector_old} = <i>({vector})\n    <block>",
        "try:\n    {vector_old} = gate.extra({vector})\nexcept AttributeError:\n    <block>",
        "if gate.training:\n    <block>\nelse:\n    {vector_old} = gate({vector})",
        "if 'late' in dict(gate.named_buffers()):\n    {vector_old} = {vector} * gate.late",
    ),
    changes={
        "flag changes": ("gate.flag = not gate.flag", "gate.flag = True"),
        "flag changes type": ("gate.flag = 2",),
        "training is off": ("gate.eval()", "gate.inner.eval()"),
        "training is on": ("gate.train()", "gate.inner.train()"),
        "part comes": ("gate.extra = nn.ReLU()", "gate.extra = nn.Sigmoid()"),
        "part goes": ("gate._modules.pop('extra', None)",),
        "buffer comes": (quietly(f"gate.register_buffer('late', {TREBLE})", "KeyError"),),
        "buffer goes": ("gate._buffers.pop('late', None)",),
        "parameter is replaced": (f"gate.weight = nn.Parameter({DOUBLE})",),
        "parameter is frozen": ("gate.weight.requires_grad_(False)",),
    },
)

HELPERS: Final = Surrounding(
    definitions=(
        "import types\n\ndef shift(x):\n    return x + 1\n\n"
        "def slide(x):\n    if x.sum() > 0:\n        return x - 5\n    return x * 5\n\n"
        "def talk(x):\n    print('talk', x.detach())\n    return x * 7\n\n"
        "tools = types.SimpleNamespace(shift=shift)",
    ),
    vector=("shift({vector})", "tools.shift({vector})", "getattr(tools, 'slide', shift)({vector})"),
    test=("shift is tools.shift", "shift.__name__ == 'slide'"),
    statements=(
        "try:\n    {vector_old} = tools.slide({vector})\nexcept AttributeError:\n    <block>",
        "{vector_old} = sum([<i>({vector}) for <i> in (shift, tools.shift)])",
    ),
    changes={
        "helper is replaced": ("shift = slide", "shift = talk", "shift = lambda x: x * 4"),
        "helper is wrapped": ("shift = (lambda old: lambda x: old(x) * 2)(shift)",),
        "code of helper is replaced": (quietly("shift.__code__ = slide.__code__", "ValueError"),),
        "helper of namespace is replaced": ("tools.shift = slide",),
        "helper comes": ("tools.slide = talk", "tools.slide = slide"),
        "helper goes": ("vars(tools).pop('slide', None)",),
    },
)

WHOLE: Final = Surrounding(
    definitions=(
        "calls, hooks = ([], [])\n\ndef noted(module, args, out):\n    if args[0].sum() > 0:\n        return (out, 1)\n    return None\n\n"
        "def seen(module, args, out):\n    calls.append(args[0].detach() * 2)\n\n"
        "def raised(module, args):\n    return (args[0] + 1, *args[1:])\n\n"
        "def shown(module, args):\n    print('shown', args[0].detach())",
    ),
    vector=("({vector} * 2 if len(calls) > 1 else {vector})",),
    changes={
        "hook of f comes": tuple(f"hooks.append(f.register_forward_hook({hook}))" for hook in ("noted", "seen")),
        "pre-hook of f comes": tuple(
            f"hooks.append(f.register_forward_pre_hook({hook}))" for hook in ("raised", "shown")
        ),
        "hook of f goes": ("while hooks:\n    hooks.pop().remove()",),
        "mode of f changes": ("f.eval()", "f.train()"),
    },
)  # fmt: skip
"""For programs whose `f` is a module."""

MEMBERS: Final = Surrounding(
    name="rows",
    definitions=(
        "rows, marks = ([torch.ones(3)], {'a'})",
        "rows, marks = ([], set())",
        "import collections\nrows, marks = (collections.deque([torch.ones(3)]), {'a': 1}.keys() | set())",
    ),
    readers="def second(rows, x):\n    try:\n        return x + rows[1]\n    except IndexError:\n        return x",
    vector=(
        "{vector} * len(rows)",
        "sum(rows, {vector})",
        "(rows[-1] + {vector} if rows else {vector})",
        "second(rows, {vector})",
        "({vector} + 2 if 'b' in marks else {vector})",
        "{vector} * next(iter(rows), 4.0)",
    ),
    number=("len(rows)", "len(marks)"),
    test=("not rows", "'a' in marks", "len(rows) > 1"),
    statements=(
        "try:\n    {vector_old} = {vector} * rows[0]\nexcept IndexError:\n    <block>",
        "for <i> in rows:\n    {vector_old} = {vector} + <i>\n    <block>",
        "for <i> in rows:\n    print({vector}.detach() * <i>)\nelse:\n    <block>",
        "with contextlib.suppress(IndexError):\n    {vector_old} = {vector} * rows[1]\n    <block>",
        "try:\n    marks.remove('b')\nexcept KeyError:\n    <block>",
    ),
    changes={
        "item comes": (f"rows.append({DOUBLE})", "rows.append(2.0)", f"rows.insert(0, {TREBLE})"),
        "item goes": ("if rows:\n    rows.pop()", "rows.clear()"),
        "item changes type": ("if rows:\n    rows[0] = 3.0", "if rows:\n    rows[0] = 3"),
        "list is another": (f"rows = [{TREBLE}, 2.0]", f"rows = ({DOUBLE},) * 2\nrows = [*rows]"),
        "member comes": ("marks.add('a')", "marks.add('b')"),
        "member goes": ("marks.discard('a')",),
    },
)

SURROUNDINGS: Final[dict[str, Surrounding]] = {
    "keys": KEYS,
    "attributes": ATTRIBUTES,
    "classes": CLASSES,
    "globals": GLOBALS,
    "cells": CELLS,
    "defaults": DEFAULTS,
    "hooks": HOOKS,
    "flags": FLAGS,
    "helpers": HELPERS,
    "members": MEMBERS,
    "modes": MODES,
    "nested": NESTED,
    "whole": WHOLE,
}
"""By the name of their group of forms."""
