"""Python's generators: numbers are drawn before the graph, and what is chosen is guarded."""

from __future__ import annotations

import random

import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import Outcome, check, load

A, B, C = torch.ones(4, 3), -torch.ones(4, 3), torch.arange(12.0).reshape(4, 3)
CALLS = [A, B, C, A, C]
HEAD = """import random
from random import choice, random as uniform_01, uniform
R = random.Random(3)
order, keep, fs = [0, 1, 2], [], [torch.sin, torch.cos]
def f(x):
    """


def drawn(body: str, mends: str, **kwargs: object) -> Outcome:
    """The program is whole and exact, and something was drawn before its graph."""
    assert "draw@" in mends
    return check(HEAD + body, CALLS, mends, fullgraph=True, **kwargs)  # type: ignore[arg-type]


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("return x * random.random() + random.random()", "draw@6"),
        ("return x * random.uniform(0.5, 2) + uniform(b=2, a=1)", "draw@6"),
        ("return x * random.gauss(0, 1) + random.triangular() * random.getrandbits(4)", "draw@6"),
        ("return x[: random.randint(1, 3)].clone()", "capture@6 draw@6"),
        ("return x * choice([1, 2, 3])", "draw@6"),
        ("return x * choice((1, 2.5))", "draw@6"),
        ("random.seed(5)\n    return x * random.random()", "draw@6 draw@7"),
        ("return x.long() * random.uniform(1, 2)", "draw@6"),
        ("return x * R.random() + R.randint(1, 5) * random.random()", "draw@6"),
        ("S = R\n    return x * S.random() - R.random()", "draw@7"),
        ("return x + 1, random.random(), [R.random()]", "draw@6"),
        ("g = R.random\n    return x * g()", "draw@7"),
        (
            "S = random.Random(5)\n    return x * S.random() - R.random() * S.randint(1, 9)",
            "draw@7",
        ),
        (
            "S = random.Random(5)\n    R.setstate(S.getstate())\n    return x * R.random()",
            "draw@7 draw@8",
        ),
        (
            "R.random()\n    random.setstate(random.Random(2).getstate())\n    return x * random.random()",
            "draw@6 draw@7 draw@8",
        ),
    ],
)
def test_numbers(body: str, mends: str, backend: str) -> None:
    drawn(body, mends, backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("return x[:, random.randint(0, 2)] * random.random()", "draw@6"),
        ("return choice(fs)(x)", "draw@6"),
        ("return R.choice(fs)(x) + random.random() * R.random()", "draw@6"),
        ("a = [x, x + 1, x * 2]\n    return random.choice(a) * 2", "draw@7"),
        ("a = [2, 0, 1]\n    random.shuffle(a)\n    return x[:, a]", "draw@7"),
        ("return [x * v for v in map(R.uniform, [1, 2], [2, 3])]", "draw@6"),
        ("a = [0, 1, 2]\n    R.shuffle(a)\n    return x[:, a], a", "draw@7"),
        ("return x[:, random.sample(range(3), 2)]", "draw@6"),
        (
            "return sum(v * n for n, v in enumerate(random.sample([x, x + 1, x * 2], k=2)))",
            "draw@6",
        ),
        ("return {k: x * 2 for k in random.choices(['a', 'b'], k=2)}", "draw@6"),
        ("return {k: x * 2 for k in random.choices(['a', 'b'], [1, 3], k=2)}", "draw@6"),
        (
            "a = random.random()\n    return (x + a) if choice('ab'.split()) == 'a' else x * random.random()",
            "draw@6 draw@7",
        ),
        ("return x[random.randrange(0, 6, 3)]", "capture@6 draw@6"),
        ("return sum(x * R.random() for _ in range(3))", "draw@6"),
    ],
)
def test_what_is_chosen(body: str, mends: str) -> None:
    check(HEAD + body, CALLS, mends)


def test_a_choice_is_made_as_often_as_it_is_compiled() -> None:
    outcome = check(HEAD + "return choice(fs)(x)", CALLS, mends="draw@6")
    assert outcome.graphs == 2


def test_a_choice_of_too_many_breaks_the_graph() -> None:
    check(
        HEAD + "return {choice(list('abcdefgh')): x * 2}",
        CALLS,
        mends="",
        declines="hoist-not-input@6",
        breaks=None,
    )


def test_what_is_drawn_steers() -> None:
    """A draw that is made on one way only is rolled back where the speculation is wrong."""
    drawn(
        """if random.random() + x.sum() * 0 < 0.5:
        return x * R.random()
    print("other")
    return x + R.randint(0, 3) * random.random()
""",
        "draw@6 speculate@6 draw@7 defer@8 draw@9",
    )


def test_a_state_that_was_set_is_rolled_back() -> None:
    """The first failed check runs the frame's own code, which sets the state anew."""
    drawn(
        """S = random.Random(x.shape[0])
    a = S.random() * R.random()
    R.setstate(S.getstate())
    if x.sum() > 0:
        return x * a
    return x + R.random() - S.random()
""",
        "draw@7 draw@8 speculate@9",
    )


def test_two_names_of_one_generator() -> None:
    """The order of the calls counts, whatever the names stand for in a call."""
    check(
        """
        import random
        R, S = random.Random(3), random.Random(4)
        def f(x, r, s):
            r.setstate(random.Random(7).getstate())
            return x * s.random() + r.random()
        def change(number):
            global R, S
            R.seed(number), S.seed(number)
        def g(x, same):
            return f(x, R, R if same else S)
        f, g = g, f
        """.replace("return f(x, R", "return g(x, R"),
        [(A, False), (B, True), (C, False), (A, True)],
        mends="draw@4 draw@5",
    )


def test_an_exception_after_a_draw() -> None:
    drawn(
        """a = random.random()
    if x.sum() < 0:
        raise ValueError("below")
    return x * a * R.random()
""",
        "draw@6 speculate@7 draw@9",
    )


@pytest.mark.slow
def test_a_list_of_the_programs_is_shuffled_once() -> None:
    """The graph fails after the shuffle, which the frame's own code makes again."""
    check(
        HEAD
        + """R.shuffle(order)
    y = x[:, order]
    if y.sum() < 0:
        raise ValueError("below")
    order.append(order.pop(0))
    return y
""",
        CALLS,
        mends={"forward": "draw@6 speculate@8", "twice": "speculate@8", "both ways": "speculate@8"},
        declines={"forward": "", "twice": "hoist-varies@6", "both ways": "hoist-varies@6"},
        breaks={"forward": 0, "twice": 1, "both ways": 1},
    )


def test_in_an_arm() -> None:
    check(
        HEAD
        + """if x.sum() > 0:
        x = x * random.uniform(1, 2)
    return x + R.random()
""",
        CALLS,
        mends="speculate@6 draw@7 draw@8",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "mends", "declines", "breaks"),
    [
        (
            "state = R.getstate()\n    y = x * R.random()\n    R.setstate(state)\n    return y",
            "draw@7 draw@8",
            "hoist-not-input@6",
            1,
        ),
        (
            "R.seed(x.shape[0])\n    return x * R.random(), R.getstate()[1][0]",
            "draw@6",
            "hoist-not-input@7",
            2,
        ),
        (
            "keep.append(g := (R.random() for _ in range(3)))\n    return x * next(g)",
            "",
            "hoist-not-input@6",
            1,
        ),
        (
            "return x * random.SystemRandom().randrange(1, 2)",
            "",
            "call-not-traced@6 call-not-traced@__init__.py",
            2,
        ),
        ("return x * random.Random(7).random()", "", "", 0),
        ("return x * R.uniform(0, x.sum().item() ** 2)", "draw@6 hoist@6", "", 0),
        ("return x * R.choice([])", "", "hoist-not-input@6", 1),
        ("return x * R.sample([1, 2], 3)[0]", "", "hoist-not-input@6", 1),
    ],
)
def test_what_is_left_alone_is_exact(body: str, mends: str, declines: str, breaks: int) -> None:
    check(HEAD + body, CALLS, mends, declines, breaks)


def test_a_generator_of_each_module() -> None:
    """The generator is found where the frame has it, and not compiled in."""
    check(
        """
        import random

        class Noise(nn.Module):
            def __init__(self, seed):
                super().__init__()
                self.rng = random.Random(seed)

            def forward(self, x):
                return x * self.rng.uniform(1, 2)

        layers = [Noise(seed) for seed in range(3)]

        def f(x, i):
            return layers[i](x) + x * layers[0].rng.random()
        """,
        [(A, 0), (B, 1), (A, 2), (C, 0)],
        mends="draw@9 draw@14",
    )


def test_another_generator_under_the_same_name() -> None:
    check(
        HEAD
        + """return x * R.random()

def change(number):
    global R
    if number % 2:
        R = random.Random(number)
""",
        CALLS,
        mends="draw@6",
    )


@pytest.mark.parametrize("name", ["random", "uniform", "choice"])
def test_another_function_under_the_same_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"random": "()", "uniform": "(1, 2)", "choice": "([1, 2, 3])"}[name]
    module = load(f"import random\n\ndef f(x):\n    return x * random.{name}{call}")
    seen = []

    def other(*args: object) -> float:
        seen.append(args)
        return 3.0

    with gm.enabled():
        torch._dynamo.reset()
        compiled = torch.compile(module.f, backend="eager")
        for _ in range(2):
            random.seed(1)
            wanted = module.f(A)
            seen.clear()
            random.seed(1)
            assert torch.equal(compiled(A), wanted)
            monkeypatch.setattr(random, name, other)
    assert len(seen) == 1


def test_a_generator_whose_method_is_replaced() -> None:
    check(
        HEAD
        + """return x * R.uniform(1, 2)

def change(number):
    if number == 2:
        R.random = lambda: 0.25
""",
        CALLS,
        mends="draw@6",
    )


def test_the_rule_may_be_switched_off() -> None:
    with gm.config.patch(rules_off=("drawn", "chosen")):
        check(HEAD + "return x * uniform_01()", CALLS, mends="", declines=None, breaks=None)


def test_generators_whose_seed_varies() -> None:
    """Stock asks a symbol for its number, and ends in an error of its own."""
    source = """
    import random

    def f(x, seed):
        drawn = random.Random(seed)
        return x * drawn.random() + drawn.randrange(10)
    """
    check(source, [(torch.ones(3), seed) for seed in (3, 5, 8)], mends=None, declines=None)


def test_a_seed_that_a_tensor_holds() -> None:
    """The trace needs the number: it is computed before the graph, or it is said why not."""
    source = """
    import random

    def f(x, seed):
        own = random.Random({given})
        return x * own.random() + own.randrange(5)
    """
    calls = [(x, torch.tensor(seed)) for seed in (3, 3, 4, 3) for x in (torch.ones(2),)]
    check(source.replace("{given}", "seed.item()"), calls, mends=None)
    drawn = source.replace("{given}", "torch.randint(0, 10000, ()).item()")
    check(drawn, calls, mends="", declines="hoist-not-input@4", breaks=1)
