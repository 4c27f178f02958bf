"""Objects as arguments of effects: the user's own, enums, dataclasses, modules, containers of them."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

OBJECTS = """
import argparse, collections, dataclasses, enum, pathlib, types
from typing import NamedTuple

logger = logging.getLogger("program")

class Plain:
    size = 3

    def __repr__(self):
        return f"Plain({self.size})"

class Listed:
    def __init__(self, *values):
        self.values, self.plain = values, 3

    @property
    def first(self):
        return self.values[0]

    def __str__(self):
        inside = ", ".join(f"{k}={v!r}" for k, v in vars(self).items())
        return f"{type(self).__name__}: {self.first} {inside} {self.name()}"

    def name(self):
        return self.__class__.__qualname__.upper()

@dataclasses.dataclass
class Data:
    rate: float = 0.1
    inner: object = None

@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 0.1

class Mode(enum.Enum):
    TRAIN = "train"

class Number(enum.IntEnum):
    ONE = 1

class Text(str, enum.Enum):
    A = "a"

class Pair(NamedTuple):
    one: int
    two: object

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.width = 3

    def extra_repr(self):
        return f"width={self.width}"

class Counting:
    shown = 0

    def __repr__(self):
        self.shown += 1
        return f"shown {self.shown} times"

class Filling:
    @property
    def known(self):
        self.__dict__["seen"] = True
        return self.seen

    def __repr__(self):
        return f"{self.known}"

class Calling:
    def __init__(self, other):
        self.other = other

    def __repr__(self):
        return f"{self.other.known}"

plain, listed, data, frozen, net = Plain(), Listed(1, "b"), Data(), Frozen(), Net()
nested = Data(inner=[plain, {"key": frozen}, Mode.TRAIN])
holder = Data(inner=torch.ones(2))
names = {"b", "a"}
order = collections.OrderedDict(a=1)
rows = collections.defaultdict(list, a=[1])
recent = collections.deque([1], maxlen=3)
pair = Pair(1, [2])
torch.manual_seed(0)
for p in net.parameters():
    p.data.copy_(torch.randn_like(p))

"""
FIRST = OBJECTS.count("\n") + 1
"""The line of `def f`."""


def program(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{OBJECTS.lstrip()}def f(x):\n{body}    return x + 1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        "print(plain, [plain, x.sum().item()], {'a': plain})",
        "logger.warning('%s of %r', plain, data)",
        "logger.warning('step', extra={'plain': plain})",
        "print(f'{plain} {data}', '{}'.format(plain))",
        "print(listed, nested, frozen, net, net.layers[0])",
        "print(Mode.TRAIN, Number.ONE, Text.A, Pair(1, 2), [Mode.TRAIN], Mode)",
        "print(x.shape, x.dtype, x.device, torch.float16, torch.Size([1]), torch.finfo(x.dtype))",
        "print(names, order, rows, recent, frozenset)",
        "print(net.layers[0].bias, holder)",
        "print(types, logging.getLogger, len)",
    ],
)
def test_shown_as_they_are(call: str) -> None:
    formats = since(2, 14) and "f'" in call  # whose Dynamo traces `__repr__` there
    declines = None if formats else ""
    check(program(call), BOTH, f"defer@{FIRST}", declines)


@pytest.mark.parametrize(
    "change",
    [
        "plain.size = 5",
        "data.rate, nested.inner = 0.5, None",
        "names.clear()",
        "order['b'] = rows['b'] = 3",
        "recent.append(4)",
        "net.width = 4",
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_changed_by_the_function(change: str, when: str) -> None:
    shows = "print(plain, data, nested, names, order, rows, recent, net)"
    if when == "after":
        check(program(shows, change), BOTH, mends=f"defer@{FIRST}", orders=1)
        return
    outcome = check(program(change, shows), BOTH, declines=None, mends="", breaks=None, orders=1)
    assert f"effect-argument@{FIRST + 1}" in outcome.declines


@pytest.mark.parametrize(
    ("breaks", "lines"),
    [
        (2, ("n = {1}", "print(n)", "n.add(2)", "print(n)")),
        (1, ("n = Pair([1], 2)", "print(n)", "n.one.append(2)", "print(n)")),
        (2, ("n = collections.deque([1])", "print(n)", "n.append(2)", "print(n)")),
        (2, ("n = collections.OrderedDict(a=1)", "print(n)", "n['b'] = 2", "print(n)")),
        (4, ("n = order.keys()", "print(n)", "order['z'] = 2", "print(n)")),
        (1, ("n = [1]", "n.append(n)", "print(n)")),
        (1, ("n = Data(0.3)", "print(n)")),
        (1, ("print(f'{plain:>9}')",)),
        (1, ("y = F.dropout(x, 0.5)", "print(plain)")),
        (1, ("print(holder)", "holder.inner.add_(1)")),
        (1, ("print(net.layers[0].bias)", "with torch.no_grad(): net.layers[0].bias.add_(1)")),
        (1, ("global text", "text = 'set'", "print(plain)")),
    ],
)
def test_not_known_to_be_the_same_later(breaks: int, lines: tuple[str, ...]) -> None:
    outcome = check(program(*lines), BOTH, declines=None, mends=None, breaks=breaks, orders=1)
    assert "effect-argument" in outcome.declines


def test_a_list_that_is_only_added_to_is_shown_as_it_is_then() -> None:
    lines = ("pair.two.append(3)", "print(pair)", "pair.two.append(4)", "print(pair)")
    mends = "accumulate@94 defer@95 accumulate@96 defer@97"
    check(program(*lines), [*BOTH, UP], mends=mends, orders=1)


@pytest.mark.parametrize("made", ["Counting()", "Filling()", "Calling(Filling())"])
def test_text_that_changes_something(made: str) -> None:
    source = f"""
    {OBJECTS.lstrip().replace(chr(10), chr(10) + "    ")}
    odd = Data(inner={made})

    def f(x):
        print(odd.inner)
        return x + len(vars(odd.inner))
    """
    outcome = check(source, [UP, UP], declines=None, mends="", breaks=1, orders=1)
    assert "effect-argument" in outcome.declines


def test_object_that_is_another_kind_in_a_later_call() -> None:
    check(
        program(
            "if x is None:",
            "    data.inner = Counting()",
            "    return None",
            "print(data)",
            "if x.sum() > 0:",
            "    print('positive', data)",
        ),
        [UP, DOWN, None, UP, DOWN],
        mends="defer@97 where@98 defer@99",
        breaks=None,
        orders=1,
    )


def test_text_that_raises_is_raised_at_the_call() -> None:
    check(
        """
        class Ratio:
            parts = 4

            def __str__(self):
                return str(1 / self.parts)

        ratio = Ratio()

        def f(x):
            return step(x) if isinstance(x, torch.Tensor) else setattr(ratio, "parts", x)

        def step(x):
            try:
                print("ratio", ratio, f"{ratio}")
            except ZeroDivisionError as error:
                print("caught", error)
            return x + 1
        """,
        [UP, 2, DOWN, 0, UP, DOWN],
        mends="defer@14",
        breaks=None,
        declines=None,
        orders=1,
    )


def test_in_an_arm() -> None:
    check(
        program("if x.sum() > 0:", "    print(plain, data)", "else:", "    print(net)"),
        BOTH,
        mends=f"where@{FIRST} defer@{FIRST + 1} defer@{FIRST + 3}",
    )


def test_own_configuration_in_a_training_step() -> None:
    check(
        """
        import dataclasses

        logger = logging.getLogger("program")

        @dataclasses.dataclass
        class Config:
            width: int = 3
            name: str = "net"

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.config = Config()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                logger.warning("%s of %s", type(self).__name__, self.config)
                loss = self.linear(x).square().mean()
                print(self.config.name, self, loss.item())
                self.config.width += 1
                return loss

        torch.manual_seed(0)
        model = Model()

        def f(x):
            return model(x)
        """,
        BOTH,
        mends="defer@17 defer@19",
        grad=True,
        backend="aot_eager",
    )


def test_effect_of_the_users_own_gets_the_object() -> None:
    import graphmend_bc as gm

    class Config:
        pass

    config, seen = Config(), list[object]()

    def observe(value: object, step: int) -> None:
        seen.append((value, step))

    def f(x: torch.Tensor, step: int) -> torch.Tensor:
        observe(config, step)
        return x + 1

    with gm.config.patch(effects=[observe]), gm.enabled():
        assert torch.equal(torch.compile(f, backend="eager", fullgraph=True)(UP, 3), UP + 1)
    assert seen == [(config, 3)]
