"""More surroundings of programs: objects and classes of the program's own (see `surroundings.py`)."""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import DOUBLE, TREBLE, Surrounding, quietly

_MODE = "import enum\n\nclass Mode({}):\n    PLAIN = 'plain'\n    WIDE = ' wide '\n{}\n\nmode = Mode.PLAIN"

TEXT_MEMBERS: Final = Surrounding(
    name="mode",
    definitions=(
        _MODE.format("str, enum.Enum", ""),
        _MODE.format("enum.StrEnum", ""),
        _MODE.format("str, enum.Enum", "\n    def __str__(self):\n        return self.name"),
        _MODE.format("str, enum.Enum", "\n    def upper(self):\n        return 'mine'"),
        _MODE.format("enum.Enum", ""),
        "class Mode(str):\n    PLAIN, WIDE = ('plain', ' wide ')\n\nmode = Mode('plain')",
    ),
    vector=(
        "({vector} * 2 if mode.strip() == 'wide' else {vector})",
        "{vector} * len(mode.upper())",
        "{vector} + mode.count('l')",
        "{vector} * len(f'{{mode}}')",
        "({vector} if mode == 'plain' else -{vector})",
        "{vector} * {{'plain': 2, 'wide': 4}}.get(mode, 3)",
        "{vector} + len(mode.join(['a', 'b', 'c']))",
        "{vector} * len(mode.replace('a', 'bb'))",
        "{vector} - len(Mode.WIDE.strip())",
    ),
    number=("mode.find('w')", "len(mode.split('a'))", "len(mode)"),
    test=(
        "mode.startswith('pl')",
        "mode.lower().endswith(('n', 'e'))",
        "mode is Mode.PLAIN",
        "mode.title() == 'Plain'",
        "isinstance(mode.strip(), Mode)",
        "mode.isspace()",
    ),
    statements=(
        "try:\n    {vector_old} = {vector} * mode.index('w')\nexcept ValueError as error:\n    print(error)\n    <block>",
        "print(mode.upper(), mode.split('a'), {vector}.detach())",
        "<i> = mode.strip()\nif {test}:\n    <i> = mode.upper()\nprint(<i>, {vector}.detach())",
        "for <i> in mode.partition('a'):\n    {vector_old} = {vector} + len(<i>)",
        "try:\n    {vector_old} = {vector} * len(mode.strip(3))\nexcept TypeError as error:\n    print(error)",
    ),
    changes={
        "member is another": ("mode = Mode.WIDE", "mode = Mode.PLAIN"),
        "member is a text": ("mode = 'plain'", "mode = ' wide '"),
        "method of text comes": (
            "Mode.strip = lambda self: 'wide'",
            "Mode.upper = lambda self: 'LONGER'",
        ),
        "method of text goes": tuple(
            quietly(f"del Mode.{name}", "AttributeError") for name in ("strip", "upper")
        ),
        "method of member comes": (
            quietly("vars(mode)['strip'] = lambda: 'wide'", "TypeError"),
            quietly("vars(mode)['upper'] = lambda: 'x'", "TypeError"),
        ),
    },
)

_OP = (
    "class Op:\n    def __init__(self, t):\n        self.held = t\n\n"
    "    def __matmul__(self, other):\n        if isinstance(other, str):\n            return NotImplemented\n"
    "        return Op(self.held * getattr(other, 'held', other))\n\n"
    "    def __add__(self, other):\n        return Op(self.held + getattr(other, 'held', other))\n\n"
    "    def __radd__(self, other):\n        return Op(other - self.held)\n\n"
    "    def __mul__(self, other):\n        {}return Op(self.held * getattr(other, 'held', other))\n\n"
    "    def __rmul__(self, other):\n        return Op(other * self.held + 1)\n\n"
    "class Special(Op):\n    def __rmatmul__(self, other):\n        return Op(other.held - 1)\n\n"
    "    def __imatmul__(self, other):\n        self.held = self.held + other.held\n        return self\n\n"
    "left, right = (Op(torch.ones(3)), Special(torch.ones(3) * 2))"
)

OPERATORS: Final = Surrounding(
    name="left",
    definitions=(
        _OP.format(""),
        _OP.format("if self.held.sum() > 0:\n            return Op(-self.held)\n        "),
        _OP.format("print('times', self.held.detach())\n        "),
    ),
    vector=(
        "(Op({vector}) @ Op({vector})).held",
        "(left @ Op({vector})).held",
        "(Op({vector}) @ right).held",
        "(right @ left).held + {vector}",
        "(Op({vector}) + {vector}).held",
        "({vector} + Op({vector})).held",
        "({number} * Op({vector})).held",
        "(left * {vector}).held",
        "({vector} * left).held",
        "sum([Op({vector}), left], Op({vector})).held",
        "(Op({vector}) * {vector}.sum()).held",
    ),
    statements=(
        "<i> = Special({vector})\n<i> @= left\n{vector_old} = <i>.held",
        "<i> = right\n<i> @= Op({vector})\n{vector_old} = <i>.held + right.held",
        "<i> = left\n<i> += {vector}\n{vector_old} = <i>.held * left.held",
        "try:\n    {vector_old} = (left @ 'text').held\nexcept TypeError as error:\n    print(error)\n    <block>",
        "try:\n    {vector_old} = (left - {vector}).held\nexcept TypeError:\n    <block>",
        "<i> = left @ Op({vector}) if {test} else left * {vector}\n{vector_old} = <i>.held",
    ),
    changes={
        "operator is replaced": (
            "Op.__matmul__ = lambda self, other: Op(self.held + 7)",
            "Op.__add__ = lambda self, other: NotImplemented",
            "Op.__mul__ = None",
        ),
        "reflected operator comes": (
            "Op.__rmatmul__ = lambda self, other: Op(self.held + 8)",
            "Op.__rmul__ = lambda self, other: Op(self.held * 5)",
        ),
        "reflected operator goes": tuple(
            quietly(f"del {name}", "AttributeError")
            for name in ("Special.__rmatmul__", "Op.__radd__", "Op.__rmul__")
        ),
        "operator in place comes": ("Op.__iadd__ = lambda self, other: self",),
        "object has an attribute of its name": ("left.__matmul__ = lambda other: other",),
        "operand is another": (f"left = Special({DOUBLE})", "left = right", f"left = Op({TREBLE})"),
        "held changes type": ("left.held = 2.0", "left.held = torch.ones(3, dtype=torch.float64)"),
    },
)

CLASS_WRITES: Final = Surrounding(
    name="marked",
    definitions=(
        "class Marked:\n    pass\n\nclass Below(Marked):\n    pass\n\nmarked = Below()",
        "class Marked:\n    mark = 2\n\nclass Below(Marked):\n    mark = 3\n\nmarked = Below()",
        "class Meta(type):\n    def __getattr__(cls, name):\n        if name == 'mark':\n            return 6\n"
        "        raise AttributeError(name)\n\nclass Marked(metaclass=Meta):\n    pass\n\n"
        "class Below(Marked):\n    pass\n\nmarked = Below()",
    ),
    vector=(
        "{vector} * getattr(Marked, 'mark', 3)",
        "{vector} * vars(Below).get('mark', 2)",
        "{vector} * getattr(marked, 'mark', 1)",
        "{vector} + len([n for n in vars(Marked) if not n.startswith('_')])",
        "({vector} * 2 if hasattr(Below, 'mark') else {vector})",
        "({vector} * 3 if 'mark' in Marked.__dict__ else {vector})",
    ),
    number=("getattr(Below, 'total', 1)",),
    test=("hasattr(marked, 'mark')", "'mark' in vars(Below)", "hasattr(Marked, 'total')"),
    statements=(
        "Marked.mark = {number}\n{vector_old} = {vector} * getattr(Below, 'mark', 2)",
        "if hasattr(Marked, 'mark'):\n    {vector_old} = {vector} * Marked.mark\n    <block>\nelse:\n    Marked.mark = 2",
        "with contextlib.suppress(AttributeError):\n    del Marked.mark\n    <block>",
        "Marked.total = getattr(Marked, 'total', 0) + 1",
        "Below.mark = {vector}.detach()\n{vector_old} = {vector} * marked.mark",
        "setattr(marked, 'mark', 4)\n{vector_old} = {vector} * marked.mark\ndel marked.mark",
        "if {test}:\n    Below.mark = 5\n{vector_old} = {vector} + Below.__dict__.get('mark', 0)",
        "Marked.total = 2\ndel Marked.total\n{vector_old} = {vector} + hasattr(Below, 'total')",
    ),
    changes={
        "mark comes": ("Marked.mark = 4", "Below.mark = 0.5"),
        "mark goes": tuple(
            quietly(f"del {name}.mark", "AttributeError") for name in ("Marked", "Below")
        ),
        "mark is a property": ("Marked.mark = property(lambda self: 7)",),
        "object has a mark": ("vars(marked)['mark'] = 9", "vars(marked).pop('mark', None)"),
        "class is another": ("marked = Marked()",),
    },
)

ACCUMULATIONS: Final = Surrounding(
    name="meter",
    definitions=(
        "class Meter:\n    def __init__(self):\n        self.count, self.total, self.seen = (0, 0.0, [])\n\n"
        "    def add(self, x, n=1):\n        self.count += n\n        self.total += n * 0.5\n"
        "        self.seen.append(n)\n        return x\n\nmeter, tally = (Meter(), {'n': 0})",
        "class Meter(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.count, self.total, self.seen = (0, 0.0, [])\n"
        "        self.register_buffer('mean', torch.zeros(3))\n\n"
        "    def add(self, x, n=1):\n        self.count += n\n        self.mean += x.detach()\n"
        "        if x.sum() > 0:\n            self.seen.append(self.count)\n        return x * 2\n\n"
        "meter, tally = (Meter(), {'n': 0})",
        "import collections\n\nclass Meter:\n    count, total, seen = (0, 0, collections.deque(maxlen=3))\n\n"
        "    def add(self, x, n=1):\n        self.total = self.total + n\n        self.seen.append(x.detach())\n"
        "        return x\n\nmeter, tally = (Meter(), collections.defaultdict(int))",
    ),
    vector=(
        "meter.add({vector})",
        "meter.add({vector}, {number})",
        "{vector} * meter.count",
        "{vector} + len(meter.seen)",
        "{vector} * (1.0 - math.pow(0.9, abs(meter.count)))",
        "{vector} / math.sqrt(1.5 - math.pow(abs(meter.count) + 1, -0.8))",
    ),
    number=("meter.count", "tally['n']", "int(9.0 * math.pow(0.7, abs(meter.count) + 1))"),
    test=(
        "meter.count > 2",
        "len(meter.seen) > 1",
        "math.pow(0.9, abs(meter.count)) * 3.0 - 0.1 < 2.0",
    ),
    statements=(
        "meter.count += 1",
        "meter.count -= {number}",
        "meter.total += {number}",
        "meter.total = meter.total * 2",
        "meter.seen.append({number})",
        "meter.seen.append({vector}.detach())",
        "tally['n'] += 1",
        "tally[k] = {number}\ntally[k] += 2",
        "meter.total += {vector}.detach().sum().item()",
        "if {test}:\n    meter.count += 1\n    <block>",
        "meter.seen += [k, 1]",
        "for <i> in range(3):\n    meter.count += <i>\n    tally['n'] += 1",
        "meter.count += 1\nmeter.rate = meter.total / max(meter.count, 1)",
        "try:\n    tally['m'] += 1\nexcept KeyError:\n    <block>",
    ),
    changes={
        "count changes type": ("meter.count = 2.5", "meter.count = True", "meter.total = 3"),
        "count is a tensor": ("meter.count = torch.tensor(2)", f"meter.total = {DOUBLE}"),
        "count is large": ("meter.count = 2 ** 70", "meter.total = float('nan')"),
        "list is another": ("meter.seen = list(meter.seen)[:1]", "meter.seen = []"),
        "list is a tuple": ("meter.seen = ()",),
        "dict is of the object": ("tally = vars(meter)", "tally = {'n': 5}", "tally = {}"),
        "count is a property": (
            "type(meter).count = property(lambda self: 4, lambda self, value: None)",
        ),
        "setting is watched": (
            "type(meter).__setattr__ = lambda self, name, value: "
            "object.__setattr__(self, name, value * 2 if name == 'count' else value)",
        ),
        "counts are another's": ("meter = type(meter)()",),
    },
)
