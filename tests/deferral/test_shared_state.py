"""Streams, handlers, filters and hooks of the program's own, and what they share with a function."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, check
from tests.releases import STOCK_IS_WRONG, since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP]

STREAMS = """
import sys, types, weakref, functools

class Lines:
    kept = 0

    def __init__(self):
        self.lines, self.sizes, self.seen = [], {}, 0
        self.mark = ""

    def write(self, text):
        self.lines.append(self.mark + text)
        self.sizes[len(text)] = True
        self.seen += 1
        Lines.kept += 1

    def flush(self):
        pass

class Scaling(Lines):
    scale = torch.ones(3)

    def write(self, text):
        self.scale.mul_(2)

class Passing:
    def __init__(self, to):
        self.to = to

    def __getattr__(self, name):
        return getattr(self.to, name)

total = 0

def count(text):
    global total
    total += 1

def counter():
    seen = 0

    def write(text):
        nonlocal seen
        seen = seen + 1

    return types.SimpleNamespace(write=write), lambda: seen

def collected(into):
    while True:
        into.append((yield))

rows = []
receiving = collected(rows)
next(receiving)
out = Lines()
"""


def with_streams(body: str) -> tuple[str, int]:
    """A program with these streams, and the number of its first line after them."""
    lines = STREAMS.strip("\n") + "\n\n"
    return lines + "\n".join(line[4:] for line in body.strip("\n").split("\n")), lines.count("\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "after"),
    [
        ("out", "len(out.lines)"),
        ("out", "out.seen"),
        ("out", "len(out.sizes)"),
        ("out", "Lines.kept"),
        ("Passing(out)", "out.seen"),
        ("Scaling()", "stream.scale"),
        ("types.SimpleNamespace(write=rows.append)", "len(rows)"),
        ("types.SimpleNamespace(write=functools.partial(list.append, rows))", "len(rows)"),
        ("types.SimpleNamespace(write=lambda text: rows.extend(text))", "len(rows)"),
        ("types.SimpleNamespace(write=receiving.send)", "len(rows)"),
        (
            "types.SimpleNamespace(write=lambda text, at=weakref.ref(out): at().write(text))",
            "out.seen",
        ),
        ("types.SimpleNamespace(write=count)", "total"),
        ("types.SimpleNamespace(write=lambda text: setattr(out, 'seen', len(text)))", "out.seen"),
        ("types.SimpleNamespace(write=lambda text: out.__dict__.update(seen=3))", "out.seen"),
    ],
)
def test_what_a_stream_changes_is_read(stream: str, after: str) -> None:
    if after == "Lines.kept" and not since(2, 13):
        pytest.skip(STOCK_IS_WRONG)
    source, first = with_streams(
        f"""
    stream = {stream}

    def f(x):
        y = x * 2
        print("sum", y.sum(), file=stream)
        return y + {after}
    """
    )
    check(source, BOTH, declines=f"effect-shares@{first + 5}", breaks=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("seen = out.seen", "(y, seen)"),
        ("lines = out.lines", "(y, lines, len(lines))"),
        ("seen = [out.seen]", "(y, seen)"),
    ],
)
def test_what_was_read_before_stays_as_it_was(before: str, after: str) -> None:
    source, first = with_streams(
        f"""
    def f(x):
        y = x * 2
        {before}
        print("sum", y.sum(), file=out)
        return {after}
    """
    )
    check(source, BOTH, declines=f"effect-shares@{first + 4}", breaks=None)


def test_variable_of_a_closure() -> None:
    source, first = with_streams(
        """
    stream, seen = counter()

    def f(x):
        print("sum", x.sum(), file=stream)
        return x + seen()
    """
    )
    check(source, BOTH, declines=f"effect-shares@{first + 4}", breaks=None)


@pytest.mark.parametrize(
    "change",
    [
        'out.mark = "> "',
        'out.lines.append("own")',
        "out.lines = []",
    ],
)
def test_what_a_stream_reads_is_changed_before(change: str) -> None:
    source, first = with_streams(
        f"""
    def f(x):
        {change}
        print("sum", x.sum(), file=out)
        out.mark = ""
        return x + 1
    """
    )
    adds = "append" in change and (since(2, 14) or not since(2, 13))
    if adds:  # after the graph, before the call
        check(source, BOTH, mends=f"accumulate@{first + 2} defer@{first + 3}")
    else:
        check(source, BOTH, declines=f"effect-shares@{first + 3}", breaks=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream",
    [
        "out",
        "Passing(out)",
        "types.SimpleNamespace(write=rows.append)",
        "types.SimpleNamespace(write=count)",
        "counter()[0]",
        "sys.__stdout__",
    ],
)
def test_streams_that_share_nothing(stream: str) -> None:
    """They run right after the graph; what comes later, outside the function, sees what they did."""
    source, first = with_streams(
        f"""
    stream = {stream}
    class State:
        calls, parts = 0, []

    state = State()

    def f(x):
        y = x * 2
        print("sum", y.sum(), file=stream)
        state.calls += 1
        state.parts.append(y.sum())
        return y + len(state.parts)
    """
    )
    check(source, BOTH, mends=f"defer@{first + 9}")


@pytest.mark.slow
def test_stdout_is_the_programs() -> None:
    source, _ = with_streams(
        """
    def f(x):
        sys_stdout_is_ours()
        y = step(x)
        sys.stdout = usual
        return y, len(out.lines)

    def sys_stdout_is_ours():
        global usual
        usual, sys.stdout = sys.stdout, out

    @torch.compile(backend="eager")
    def step(x):
        print("sum", x.sum())
        return x + out.seen
    """
    )
    check(source, BOTH, declines=None, breaks=None)


HANDLERS = """
import sys, warnings

log = logging.getLogger("program.own")
log.handlers, log.filters, lines = [], [], []

class Counting(logging.Handler):
    seen = 0

    def emit(self, record):
        self.seen += 1

class Emptying(logging.Handler):
    def emit(self, record):
        record.args[0].zero_()

class Keeping(logging.Filter):
    def filter(self, record):
        lines.append(record.levelname)
        return True

class Marking(logging.Formatter):
    marks = 0

    def format(self, record):
        Marking.marks = Marking.marks + 1
        return super().format(record)

handler, formatted = Counting(), logging.StreamHandler(sys.__stderr__)
formatted.setFormatter(Marking("%(message).0s"))
"""


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("handler", "handler.seen"),
        ("Emptying()", "0"),
        pytest.param(
            *("formatted", "Marking.marks"),
            marks=pytest.mark.skipif(
                not since(2, 13), reason="2.11 does not say that it reads a number from a class."
            ),
        ),
    ],
)
def test_what_a_handler_changes_is_read(given: str, after: str) -> None:
    lines = HANDLERS.strip("\n") + "\n\n"
    source = (
        lines
        + f"""
added = {given}

def f(x):
    y = x * 2
    log.warning("sum %s", y)
    return y * {after} + y

def change(call):
    log.handlers = [added]
"""
    )
    first = lines.count("\n") + 1
    outcome = check(source, BOTH, declines=None, mends=None, breaks=None, orders=1)
    assert f"effect-shares@{first + 5}" in outcome.declines.split()
    assert f"defer@{first + 5}" not in outcome.mends.split()


def test_what_a_filter_changes_is_read() -> None:
    source = (
        HANDLERS.strip("\n")
        + """

def f(x):
    log.warning("sum %s", x.sum())
    return x * len(lines)

def change(call):
    log.filters = [Keeping()]
"""
    )
    outcome = check(source, BOTH, declines=None, mends=None, breaks=None, orders=1)
    assert "effect-shares" in outcome.declines


def test_shown_warnings_are_counted() -> None:
    check(
        """
        import warnings

        shown = []

        def f(x):
            warnings.warn("large")
            return x + len(shown)

        def change(call):
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *rest: shown.append(str(message))
        """,
        BOTH,
        declines="effect-shares@6",
        breaks=1,
    )


def test_function_that_is_said_to_observe() -> None:
    """What the user says of it does not go against what can be seen."""
    source = """
        import graphmend_bc as gm

        history, best = [], {}

        def note(value):
            history.append(float(value))

        gm.config.effects[:] = [note]

        def f(x):
            y = x * 2
            note(y.sum())
            return y + len(AFTER)
        """
    import graphmend_bc as gm

    with gm.config.patch(effects=[]):
        check(
            source.replace("AFTER", "history"),
            BOTH,
            declines="effect-shares@12",
            mends=None,
            breaks=None,
        )
        check(source.replace("AFTER", "best"), BOTH, mends="defer@12")


def test_another_object_in_another_call() -> None:
    """The guards on the list are the same; it is the stream's own in the second call."""
    program = (
        STREAMS
        + """
def step(x, rows):
    print("sum", x.sum(), file=out)
    return x + len(rows)

def f(x, own):
    return step(x, out.lines if own else rows)

def change(call):
    out.lines.clear()
"""
    )
    calls = [(UP, False), (UP, True), (DOWN, False), (DOWN, True)]
    outcome = check(program, calls, mends=None, declines=None, breaks=None, orders=1)
    assert "effect-shares" in outcome.declines
    assert "defer" in outcome.mends


def test_kind_of_stream_changes_between_calls() -> None:
    program = (
        STREAMS
        + """
held = types.SimpleNamespace(stream=sys.__stdout__)

def f(x):
    print(end="", file=held.stream)
    return x + out.seen
"""
    )
    ours = Change("held.stream = out")
    usual = Change("held.stream = sys.__stdout__")
    calls = [UP, ours, DOWN, UP, usual, DOWN, ours, UP]
    outcome = check(program, calls, mends=None, declines=None, breaks=None, orders=1)
    assert "effect-shares" in outcome.declines
    assert "defer" in outcome.mends


def test_stream_with_a_method_of_its_own() -> None:
    program = (
        STREAMS
        + """
import io
plain = io.TextIOWrapper(io.BytesIO())

def f(x):
    print("sum", x.sum(), file=plain)
    return x + len(rows)
"""
    )
    calls = [UP, Change("plain.write = rows.append"), DOWN, UP]
    outcome = check(program, calls, mends=None, declines=None, breaks=None, orders=1)
    assert "effect-shares" in outcome.declines
    assert "defer" in outcome.mends


@pytest.mark.parametrize(
    "statement",
    [
        "for i in tqdm(range(2), file=out, bar_format='{n}', mininterval=0): x = x + i",
        "tqdm.write('text', file=out)",
    ],
)
def test_what_a_bar_writes_to_is_read(statement: str) -> None:
    pytest.importorskip("tqdm")
    source, first = with_streams(
        f"""
    from tqdm import tqdm

    def f(x):
        {statement}
        return x + (len(out.lines) > 0)
    """
    )
    outcome = check(source, BOTH, declines=None, mends=None, breaks=None)
    assert f"effect-shares@{first + 4}" in outcome.declines.split()
    assert "defer" not in outcome.mends


def test_handlers_above_and_adapters() -> None:
    source = (
        HANDLERS.strip("\n")
        + """

root = logging.getLogger("program.own.part.piece")
adapter = logging.LoggerAdapter(root, {"step": 1})

def f(x):
    adapter.warning("sum %s", x.sum())
    return x * handler.seen + x

def change(call):
    log.handlers = [handler]
"""
    )
    outcome = check(source, BOTH, declines=None, mends=None, breaks=None, orders=1)
    assert "effect-shares" in outcome.declines


def test_attribute_of_a_module() -> None:
    program = (
        STREAMS
        + """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        print("sum", x.sum(), file=out)
        return x + self.seen

    def write(self, text):
        self.seen += 1

layer = Layer()
out = types.SimpleNamespace(write=layer.write)

def f(x):
    return layer(x)
"""
    )
    outcome = check(program, BOTH, declines=None, breaks=None)
    assert "effect-shares" in outcome.declines


@pytest.mark.slow
def test_graph_that_cannot_be_rolled_back() -> None:
    """The guard comes before the graph, so nothing has to be taken back."""
    program = (
        STREAMS
        + """
memory = torch.zeros(2**23)

def f(x):
    memory.add_(1)
    print("sum", x.sum(), file=out)
    return x + memory[0]
"""
    )
    check(program, BOTH, mends=f"defer@{STREAMS.count(chr(10)) + 5}")
