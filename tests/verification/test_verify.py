"""Calls of mended frames are compared with eager Python, and the program does not notice."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.processes import forked

PRELUDE = """
import json, logging, random, struct, threading, warnings
import numpy, torch
import graphmend_bc as gm
from tests import wrong_rule

wrong_rule.register()
gm.enable(cache=False)
gm.config.disk_cache = False
logger = logging.getLogger("program")
STATE, COUNT = [], 0

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.seen = 0, []
        self.register_buffer("total", torch.zeros(3))

def number():
    return struct.calcsize("ii")
"""


def run(body: str, settings: str = "verify=1") -> tuple[str, list[dict[str, object]], str]:
    """What a program prints, what came of comparing its calls, and what is written to stderr."""
    ends = "print(json.dumps(gm.report().as_dict()['verified']))"
    program = f"gm.config.load_config(dict({settings}))\n{textwrap.dedent(body)}\n{ends}"
    out, err = forked(f"{PRELUDE}\n{program}")
    shown, _, verified = out.rstrip("\n").rpartition("\n")
    return shown, json.loads(verified), err


def called(function: str, calls: str = "torch.ones(3)") -> str:
    """A program that compiles `f` and makes some calls of it; None, or what each raises, follows."""
    return "\n".join(
        [
            textwrap.dedent(function),
            "c = torch.compile(f, backend='eager')",
            f"for args in [{calls}]:",
            "    try:",
            "        print(c(*args) if isinstance(args, tuple) else c(args))",
            "    except ValueError as error:",
            "        print(repr(error))",
        ]
    )


WRONG = {
    "values": ("return x + number()", "the result: 3 of 3 values differ, by at most 1"),
    "one of several": ("return {'a': [x, x * number()]}", "the result['a'][1]: 3 of 3"),
    "a number": ("return x * 2, number()", "the result[1]: 8 in eager, 9 mended"),
    "a dtype": (
        "return x.to(torch.float64 if number() == 8 else torch.float32)",
        "the result: dtype is torch.float64 in eager, torch.float32 mended",
    ),
    "a shape": ("return x.new_zeros(number())", "the result: shape is torch.Size([8]) in eager"),
    "strides": (
        "y = torch.ones(2, 3).t()\n    return y if number() == 8 else y.contiguous()",
        "the result: strides are (1, 3) in eager, (2, 1) mended",
    ),
    "identity": ("return x if number() == 8 else x.clone()", "the argument 'x': it is another"),
    "memory": (
        "return x[:2] if number() == 8 else x[:2].clone()",
        "memory: 1 tensor shares memory with others than in eager",
    ),
    "a written argument": ("x.add_(number())\n    return x * 2", "the argument 'x': 3 of 3 values"),
    "a written global": ("STATE.append(number())\n    return x * 2", "the global 'STATE'[0]: 8 in"),
    "a global": (
        "global COUNT\n    COUNT += number()\n    return x * 2",
        "the global 'COUNT': 8 in eager, 9 mended",
    ),
    "what is raised": (
        "if number() < 9:\n        raise ValueError(8)\n    return x * 2",
        "the result: eager raises ValueError(8), mended returns",
    ),
    "random numbers": (
        "return x + torch.rand(2 * number())[0]",
        "random numbers: the generators of torch differ afterwards",
    ),
    "what is printed": (
        "n = number()\n    print('n is', n, x.sum())\n    return x",
        r"output: 'n is 8 tensor(3.)\n' in eager, 'n is 9 tensor(3.)\n' mended",
    ),
    "what is logged": (
        "n = number()\n    logger.warning('n is %d', n)\n    return x * 2",
        r"output: 'WARNING of program: n is 8\n' in eager, 'WARNING of program: n is 9\n' mended",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("body", "found"), WRONG.values(), ids=WRONG.keys())
def test_a_difference_is_told_once_and_reported(body: str, found: str) -> None:
    shown, (verified,), err = run(called(f"def f(x):\n    {body}", "torch.ones(3), torch.ones(3)"))
    assert (verified["compared"], verified["left"]) == (2, {})
    assert verified["differing"] == 2, shown
    assert any(text.startswith(found) for text in verified["differences"]), verified
    assert err.count("is not what eager Python does") == 1
    said = ("A mended call of f (<program>:", "polyfill <program>:", "graphmend-bc bisect")
    assert all(text in err for text in (*said, "rules_off", "leave_alone")), err


def test_closures_and_attributes_are_compared() -> None:
    body = """
    def made():
        n, net = 0, Net()
        def f(x):
            nonlocal n
            n += number()
            net.n = number()
            net.seen.append(x)
            return x + n
        return f, net

    f, net = made()
    c = torch.compile(f, backend="eager")
    for _ in range(2):
        c(torch.ones(3))
    print(net.n, len(net.seen), f.__closure__[0].cell_contents)
    """
    shown, verified, _ = run(body)
    assert shown == "9 2 18"  # as it is mended, without a trace of the comparison
    text = "\n".join(each for known in verified for each in known["differences"])
    assert "the variable 'n': 8 in eager, 9 mended" in text
    assert "the variable 'net'.n: 8 in eager, 9 mended" in text


EXACT = {
    "prints and branches": called(
        """
        def f(x):
            print("sum", x.sum())
            return x * 2 if x.sum() > 0 else x - 1
        """,
        "torch.ones(3), -torch.ones(3), torch.ones(3)",
    ),
    "speculations that fail": called(
        """
        def f(x):
            if x.sum() > 0:
                STATE.append(1)
                print("up", x)
                x.mul_(2)
            return x
        """,
        "torch.ones(3), -torch.ones(3), torch.ones(3)",
    ),
    "random numbers": called(
        """
        torch.manual_seed(0), random.seed(0), numpy.random.seed(0)

        def f(x):
            y = x * random.random() + numpy.random.rand()
            return y + torch.rand(3) if y.sum() > 0 else y
        """,
        "torch.ones(3), -torch.ones(3), torch.ones(3)",
    ),
    "modules with state": """
        class Counting(Net):
            def forward(self, x, items):
                global COUNT
                COUNT += 1
                self.n += 1
                self.total.add_(x.detach())
                items.append(x.sum())
                logger.warning("call %d", self.n)
                self.seen.append(x.sum().item())
                return x * 2 if x.sum() > 0 else x, items, self

        net = Counting()
        c = torch.compile(net, backend="eager")
        for sign in (1, -1, 1):
            items = []
            out = c(torch.full((3,), sign * 1.0, requires_grad=True) * 1, items)
            print(out[0].tolist(), out[1] is items, out[2] is net, len(items))
            out[0].sum().backward()
        print(net.n, net.total, net.seen, COUNT)
        """,
    "exceptions": called(
        """
        def f(x):
            x.add_(1)
            if x.sum() > 100:
                raise ValueError("large")
            return x
        """,
        "torch.ones(3), torch.full((3,), 99.0), torch.ones(3)",
    ),
    "a training step": """
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def f(x):
            opt.zero_grad()
            loss = net(x).pow(2).sum()
            loss.backward()
            opt.step()
            print("loss", loss.item())
            return loss.detach()

        c = torch.compile(f, backend="eager")
        for _ in range(3):
            print(c(torch.ones(3)))
        print(net.weight, net.weight.grad)
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("body", EXACT.values(), ids=EXACT.keys())
def test_an_exact_program_does_as_without(body: str) -> None:
    shown, verified, err = run(body)
    without, none, _ = run(body, "verify=0")
    assert (shown, none) == (without, [])
    assert sum(known["compared"] for known in verified) >= 2, verified
    assert all(known["differing"] == 0 for known in verified), verified
    assert "is not what eager Python does" not in err


LEFT = {
    "an iterator": (
        "print('sum', x.sum())\n    return x * 2, it",
        "(x, iter_of())",
        "It cannot be copied",
    ),
    "a file": (
        "print('sum', x.sum())\n    return x, file",
        "(x,)",
        "It cannot be copied: TypeError",
    ),
    "a warning": ("warnings.warn('w')\n    return x * 2", "(x,)", "kept from the program"),
    "a break": (
        "print('sum', x.sum())\n    open(__import__('os').devnull).close()\n    return x * 2",
        "(x,)",
        "A graph break is left in it",
    ),
    "a handler": ("own.warning('w')\n    return x * 2", "(x,)", "runs code of the program's"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("body", "args", "why"), LEFT.values(), ids=LEFT.keys())
def test_what_cannot_be_repeated_is_counted(body: str, args: str, why: str) -> None:
    program = f"""
def iter_of():
    def steps():
        yield 1
    return steps()

class Handler(logging.Handler):
    def emit(self, record):
        STATE.append(1)

own, file, x = logging.getLogger("own"), open(__import__("os").devnull), torch.ones(3)
own.addHandler(Handler())

def f(x, it=None):
    {body}

print(torch.compile(f, backend="eager")(*{args})[:1])
print(len(STATE))
"""
    shown, verified, err = run(program)
    assert shown == run(program, "verify=0")[0]
    assert sum(known["compared"] for known in verified) == 0
    assert any(why in reason for known in verified for reason in known["left"]), verified
    assert "is not what eager Python does" not in err


def test_an_arm_that_was_not_traced_is_not_repeated() -> None:
    """What it does is not known: here it changes the attribute of a module."""
    body = """
    import types
    other = types.ModuleType("other")
    other.count = 0

    def rare(x):
        other.count += 1
        open(__import__("os").devnull).close()
        return x

    def f(x):
        print("sum", x.sum())
        return rare(x) if x.sum() < 0 else x * 2

    c = torch.compile(f, backend="eager")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        print(c(x), other.count)
    """
    shown, verified, _ = run(body)
    assert shown == run(body, "verify=0")[0]
    (known,) = (each for each in verified if each["site"]["name"] == "f")
    assert (known["compared"], known["differing"]) == (2, 0)
    assert known["left"] == {"A check failed, so that the original code ran.": 1}


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "Late"])
def test_what_a_signal_raises_is_passed_on(error: str) -> None:
    """Whether it comes in the mended code or in its repetition."""
    body = f"""
    import signal, time
    class Late(Exception):
        pass

    def handle(*_):
        raise {error}("too late")

    signal.signal(signal.SIGALRM, handle)

    def f(x):
        print("sum", x.sum())
        for _ in range(40):
            x = torch.tanh(x @ x)
        return x

    c, x = torch.compile(f, backend="eager"), torch.randn(300, 300)
    c(x)
    for after in (0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.016, 0.02, 0.025, 0.03):
        signal.setitimer(signal.ITIMER_REAL, after)
        passed = ""
        try:
            for _ in range(1000):
                c(x)
        except {error} as raised:
            passed = str(raised)
        assert passed == "too late", after
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert torch.equal(c(x), f(x))
    """
    _, (verified,), err = run(body)
    assert verified["compared"] >= 2
    assert verified["differing"] == 0, verified
    assert "is not what eager Python does" not in err


def test_globals_are_left_where_another_thread_might_see_copies() -> None:
    function = called("def f(x):\n    STATE.append(1)\n    print(x.sum())\n    return x")
    shown, (verified,), _ = run(
        "ready = threading.Event()\n"
        "other = threading.Thread(target=ready.wait, name='other')\nother.start()\n"
        f"{function}\nready.set()\nprint(len(STATE))"
    )
    assert (shown[-1], verified["compared"]) == ("1", 0)
    assert list(verified["left"]) == ["The thread 'other' might see copies of globals."]


def test_a_copy_that_is_not_equal_is_not_used() -> None:
    """`deepcopy` leaves out the attributes of a parameter, and a list may append in its own way."""
    body = """
    class Doubling(list):
        def append(self, value):
            super().append(2 * value)

    def f(x, p):
        print("sum", x.sum())
        return x * p * (2 if hasattr(p, "w") else 3), [*d]

    d = Doubling([1])
    p, plain = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    p.w = 1
    c = torch.compile(f, backend="eager")
    print(c(torch.ones(3), plain), c(torch.ones(3), p))
    d = [1]
    print(c(torch.ones(3), plain), c(torch.ones(3), p))
    """
    shown, (verified,), _ = run(body)
    assert shown == run(body, "verify=0")[0]
    assert (verified["compared"], verified["differing"]) == (1, 0), verified
    assert sum(verified["left"].values()) == 3
    assert all(why.startswith("A copy is not equal") for why in verified["left"]), verified


def test_every_so_many_calls() -> None:
    calls = ", ".join(["torch.ones(3)"] * 7)
    _, (verified,), _ = run(called("def f(x):\n    return x + number()", calls), "verify=3")
    assert (verified["compared"], verified["differing"]) == (3, 3)


def test_a_difference_may_be_raised() -> None:
    body = """
    def f(x):
        return x + number()

    c = torch.compile(f, backend="eager")
    for _ in range(2):
        try:
            c(torch.ones(3))
        except AssertionError as error:
            print(str(error).partition(". ")[2][:40])
    """
    shown, (verified,), err = run(body, "verify=1, verify_action='raise'")
    assert shown.splitlines() == ["the result: 3 of 3 values differ, by at "] * 2
    assert (verified["differing"], err.count("is not what")) == (2, 0)


def test_code_is_as_it_was_without_the_setting() -> None:
    body = """
    def f(x):
        print(x.sum())
        return x * 2

    def names():
        torch._dynamo.reset()
        torch.compile(f, backend="eager")(torch.ones(3))
        (entry,) = torch._dynamo.eval_frame._debug_get_cache_entry_list(f.__code__)
        return {name for name in entry.code.co_varnames if name.startswith("__gm_")}

    off = names()
    gm.config.verify = 1
    print(sorted(off), sorted(names() - off))
    """
    shown, _, _ = run(body, "verify=0")
    assert (
        shown.splitlines()[-1] == "['__gm_argument_0'] ['__gm_call', '__gm_given_0', '__gm_result']"
    )


def test_inductor_is_compared_within_torchs_tolerances() -> None:
    body = """
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))

    def f(x):
        y = net(x)
        print("mean", y.mean())
        return y.softmax(0), y.mean().item()

    def drawing(x):
        print(x.mean())
        return x + torch.rand(8)

    for function in (f, drawing):
        c = torch.compile(function)
        for _ in range(2):
            c(torch.randn(4, 8))
    """
    _, (exact, drawn), _ = run(body)
    assert (exact["compared"], exact["differing"]) == (2, 0), exact["left"]
    assert drawn["compared"] == 0
    assert any("other random numbers" in why for why in drawn["left"])
