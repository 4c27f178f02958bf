"""Filters of warnings in a block of `warnings.catch_warnings`."""

from __future__ import annotations

import warnings

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.contrib.warning_filters.recorded import recorded
from tests.oracle import Change, agrees, check

X = torch.tensor([1.0, -2.0, 3.0])

BLOCK = """
import warnings

def f(x):
    with warnings.catch_warnings():
        {filter}
        y = x.abs()
        {inside}
    {after}
    return y + 1
"""


def program(
    filter: str = "warnings.simplefilter('ignore')", inside: str = "pass", after: str = "pass"
) -> str:
    return BLOCK.format(filter=filter, inside=inside, after=after)


FILTERS = (
    "warnings.simplefilter('ignore')",
    "warnings.simplefilter('ignore', UserWarning)",
    "warnings.simplefilter(action='ignore', category=FutureWarning)",
    "warnings.filterwarnings('ignore', message='.*degrees.*')",
    "warnings.filterwarnings('ignore', '.*freedom.*', UserWarning)",
    "warnings.filterwarnings('error', category=DeprecationWarning)",
    "warnings.simplefilter('always', FutureWarning); warnings.simplefilter('ignore', UserWarning)",
)
DEVIATION = "y = y + x[:1].std(correction=x.shape[0])"
"""Warns for tensors of one or more elements."""


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_block_in_which_nothing_warns_is_one_graph(filter: str, backend: str) -> None:
    outcome = check(program(filter), [X, -X, X[:2]], None, backend=backend, grad=True)
    assert "flags@" in outcome.mends


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("where", ["inside", "after"])
def test_an_operator_warns(filter: str, where: str) -> None:
    agrees(program(filter, **{where: DEVIATION}), [X, -X, X, -X, X, -X])


def test_what_the_graph_did_before_it_warned_is_undone() -> None:
    source = """
        import warnings

        def f(x, out):
            out.add_(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                noise = torch.rand(3)
                out.mul_(x[:1].std() + 1)
            return x + noise
        """
    agrees(source, [(X, X.clone()), (-X, X.clone()), (X, X.clone())])


def test_an_operator_raises() -> None:
    source = """
        import warnings

        def f(x, places):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = x.index_select(0, places)
            return y + 1
        """
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 9])
    check(source, [(X, good), (X, bad), (X, good), (X, bad)], "flags@5")


CALLEE = """
import warnings

def old(x):
    warnings.warn({said})
    return x * 2

def f(x):
    with warnings.catch_warnings():
        warnings.{filter}
        y = old(x)
    return y + 1
"""


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ("simplefilter('ignore')", "'old is old'"),
        ("simplefilter('ignore')", "f'old of {x.shape}', FutureWarning, stacklevel=2"),
        ("simplefilter('ignore', Warning)", "f'{x.sum()}'"),
        ("filterwarnings('ignore', category=DeprecationWarning)", "'old', DeprecationWarning"),
        ("filterwarnings('ignore', 'OLD.*')", "'old is old'"),
    ],
)
def test_a_warning_that_the_filter_hides_is_left_out(filter: str, said: str) -> None:
    check(CALLEE.format(filter=filter, said=said), [X, -X], "flags@4 flags@9")


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ("simplefilter('always')", "'old is old'"),
        ("simplefilter('error')", "'old is old'"),
        ("simplefilter('ignore', FutureWarning)", "'old is old'"),
        ("filterwarnings('ignore', 'new.*')", "'old is old'"),
        ("filterwarnings('ignore', module='torch')", "'old is old'"),
        ("filterwarnings('ignore', '.*-.*')", "f'{x.sum()}'"),
        ("simplefilter('ignore')", "UserWarning('old')"),
        ("simplefilter('ignore')", "'old', int"),
        ("simplefilter('ignore')", "'old', stacklevel='2'"),
        ("simplefilter('ignore')", "'old', level=2"),
        ("simplefilter('ignore')", "'old', UserWarning, 1, None, 5, 6"),
    ],
)
def test_another_warning_is_left_to_python(filter: str, said: str) -> None:
    assert "flags@4" not in agrees(CALLEE.format(filter=filter, said=said), [X, -X]).mends


def test_a_text_that_runs_code_is_left_to_python() -> None:
    source = """
        import warnings

        class Meter:
            shown = 0
            def __format__(self, spec):
                Meter.shown += 1
                return "meter"

        meter = Meter()

        def f(x):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = x * 2
                warnings.warn(f"of {meter}")
            return y, Meter.shown
        """
    assert "flags@" not in agrees(source, [X, -X]).mends


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_an_operator_says_is_an_error(backend: str) -> None:
    source = """
        import warnings

        def f(x):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    y = x.std()
            except UserWarning:
                return x + 1
            return y
        """
    assert "flags@" not in agrees(source, [X[:1], X, X[:1]], backend=backend).mends


def test_a_warning_after_the_block_has_its_line_in_every_call() -> None:
    source = program(after="warnings.warn('seen')")
    assert "flags@" not in agrees(source, [X] * 10).mends


QUIET = """
import contextlib, functools, warnings

@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

def quietly(g):
    @functools.wraps(g)
    def inner(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return g(*args)
    return inner

def old(x):
    warnings.warn("hidden")
    return x * 2
"""

PLACES = {
    "a function that is inlined": "return quietly(old)(x) + 1",
    "a context manager": "with quiet():\n        y = old(x)\n    return y + 1",
    "a loop": "for k in range(3):\n        x = quietly(old)(x) + k\n    return x",
    "after a break": "torch._dynamo.graph_break()\n    return quietly(old)(x) + 1",
    "blocks in a block": "with quiet():\n        x = quietly(old)(x)\n        return old(x)",
    "an exception that is caught": "try:\n        with quiet():\n            raise KeyError\n"
    "    except KeyError:\n        x = quietly(old)(x)\n    return x",
}


@pytest.mark.parametrize("body", PLACES.values(), ids=PLACES.keys())
def test_blocks_in_many_places(body: str) -> None:
    outcome = agrees(f"{QUIET}\ndef f(x):\n    {body}\n", [X, -X, X[:2]])
    assert "flags@" in outcome.mends
    assert outcome.declines in ("", "break-requested@22")


def test_an_arm_in_a_block_is_assumed_and_checked() -> None:
    inside = "if x.sum() > 3:\n            raise ValueError(f'{x.sum()}')"
    outcome = agrees(program(inside=inside), [X, X + 1, -X, X + 2])
    assert "flags@" in outcome.mends
    assert "speculate@" in outcome.mends


LEFT = {
    "appended": program("warnings.simplefilter('ignore', append=True)"),
    "appended by place": program("warnings.filterwarnings('ignore', '', Warning, '', 0, True)"),
    "wrong": program("warnings.simplefilter('nothing')"),
    "not constant": program("warnings.filterwarnings('ignore', f'{x.sum()}')"),
    "read": program(inside="y = y * len(warnings.filters)"),
    "printed": program(after="print(y)"),
    "warned before": "def again(): warnings.warn('again')\n"
    + program().replace("    with", "    again()\n    with"),
    "recorded": program().replace("catch_warnings()", "catch_warnings(record=True)"),
    "a break inside": program(inside="torch._dynamo.graph_break()"),
    "an exception": program(inside="raise ValueError('no')"),
    "no operators": "import warnings\n\ndef f(x):\n    with warnings.catch_warnings():\n"
    "        warnings.simplefilter('ignore')\n    return x",
}


@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT.keys())
def test_other_blocks_are_left(source: str) -> None:
    before = list(warnings.filters)
    assert "flags@" not in agrees(source, [X, -X]).mends
    assert warnings.filters == before


def test_a_block_in_an_arm_is_entered_if_the_arm_is_taken() -> None:
    source = """
        import warnings

        def f(x):
            if x.sum() > 0:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    x = x * 2
            return x + 1
        """
    agrees(source, [X, -X, X, -X])


def test_a_filter_without_a_block_stays() -> None:
    source = """
        import warnings

        def quiet():
            warnings.simplefilter("ignore")

        def f(x):
            with warnings.catch_warnings():
                quiet()
                y = x * 2
            warnings.warn("shown")
            return y + 1
        """
    agrees(source, [X, -X])


def test_another_function_of_that_name() -> None:
    calls = [X, Change("warnings.simplefilter = lambda *args: None"), X, -X]
    stock = warnings.simplefilter
    try:
        agrees(program(), calls, orders=1)
    finally:
        warnings.simplefilter = stock


def test_what_was_shown_is_shown_again_after_a_block() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x * 2

    def shown(called: object) -> int:
        assert callable(called)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                warnings.warn("again", stacklevel=1)
                called(X)
        return len(caught)

    with gm.enabled():
        assert shown(torch.compile(f, backend="eager")) == shown(f) == 3
        assert [mend.strategy for mend in gm.report().mends] == ["flags"]


def test_a_block_of_another_thread_that_ends_later_leaves_no_trace() -> None:
    filters, show = list(warnings.filters), warnings.showwarning
    others = warnings.catch_warnings()
    with warnings.catch_warnings():
        with recorded() as said:
            warnings.warn("recorded", stacklevel=1)
            others.__enter__()
        others.__exit__(None, None, None)
        assert [str(each) for each in said] == ["recorded"]
        assert warnings.filters == filters
        with pytest.warns(UserWarning, match="shown"):
            warnings.warn("shown", stacklevel=1)
        assert len(said) == 1
    assert (list(warnings.filters), warnings.showwarning) == (filters, show)
    assert not torch.is_warn_always_enabled()


@pytest.mark.parametrize("fullgraph", [False, True])
def test_calls_that_warn_are_left_to_python_unless_that_is_an_error(fullgraph: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x * 2 + x[:1].std()

    with gm.enabled(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = torch.compile(f, backend="eager", fullgraph=fullgraph)
        for _ in range(gm.config.failed_check_limit + 2):
            assert torch.isnan(compiled(X)).all()
        assert not caught
        assert ("flags-not-neutral" in {d.reason for d in gm.report().declines}) != fullgraph
        assert [mend.strategy for mend in gm.report().mends] == ["flags"] * fullgraph
