"""Questions about the process are answered while tracing; a guard asks them again at every call."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check
from tests.releases import since

X = torch.tensor([1.0, -2.0])
SETTERS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "torch.get_num_threads()": (
        lambda: torch.set_num_threads(1),
        lambda: torch.set_num_threads(2),
    ),
    "len(torch.get_float32_matmul_precision())": (
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: torch.set_float32_matmul_precision("high"),
    ),
    "torch.get_deterministic_debug_mode()": (
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.use_deterministic_algorithms(True),
    ),
    "len(os.getcwd())": (lambda: os.chdir("/"), lambda: os.chdir("/proc")),
}


@pytest.fixture(autouse=True)
def settings_put_back() -> Iterator[None]:
    threads, folder = torch.get_num_threads(), os.getcwd()
    yield
    os.chdir(folder)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "question",
    [
        "torch.backends.mps.is_available()",
        "torch.backends.mps.is_built()",
        "torch.backends.cudnn.is_available()",
        "torch.backends.cuda.is_built()",
        "torch.backends.mkldnn.is_available()",
        "torch.mps.is_available()",
        "torch.get_num_threads()",
        "torch.get_deterministic_debug_mode()",
        "os.cpu_count()",
        "os.getpid()",
        "os.getcwd()",
    ],
)
def test_one_graph(question: str) -> None:
    in_torch = "backends.mps.is_available" in question  # a Python function of torch's asks
    is_stocks = "mps" in question and since(2, 14)
    mends = "" if is_stocks else "probe@__init__.py" if in_torch else "probe@4"
    outcome = check(
        f"""
        import os

        def asked():
            return {question}

        def f(x):
            for _ in range(2):
                x = x * 2 if asked() else x * 3
            return x, asked()
        """,
        [X, -X],
        mends,
        fullgraph=True,
    )
    assert outcome.graphs == 1


@pytest.mark.parametrize("question", SETTERS)
def test_a_changed_answer_compiles_anew(question: str) -> None:
    scope: dict[str, Callable[..., torch.Tensor]] = {"torch": torch, "os": os}  # type: ignore[dict-item]
    exec(f"def f(x):\n    return x + {question}", scope)
    f, graphs = scope["f"], [0]

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        graphs[0] += 1
        return module.forward

    with gm.enabled():
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        for way in (0, 1, 1, 0, 0, 1, 0):
            SETTERS[question][way]()
            assert torch.equal(compiled(X), f(X))
    assert graphs == [2]


def test_a_fork_is_another_process() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + os.getpid()

    with gm.enabled():
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        compiled(X.double())
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(compiled(X.double()), f(X.double())) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_what_somebody_put_in_its_place_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """By identity: neither a wrapper with the same names, nor the function it was compiled for."""
    stock, calls = torch.backends.mps.is_built, []

    @functools.wraps(stock)
    def patched() -> bool:
        calls.append(1)
        return not stock()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.backends.mps.is_built() else x * 3

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for _ in range(2):
            assert torch.equal(compiled(X), X * (2 if stock() else 3))
            with monkeypatch.context() as patch:
                patch.setattr(torch.backends.mps, "is_built", patched)
                assert torch.equal(compiled(X), X * (3 if stock() else 2))
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return x + os.path.getsize('/proc')", "probe-not-fixed@"),
        ("return x, time.monotonic() > 0", "probe-not-fixed@"),
        ("return x, datetime.datetime.now().year > 0", "probe-not-fixed@"),
        ("return x, len(str(uuid.uuid4())) > 0", "probe-not-fixed@"),
        (
            "torch.use_deterministic_algorithms(not x.numel())\n"
            "    return x * (3 if torch.get_deterministic_debug_mode() else 2)",
            "probe-not-fixed@",
        ),
    ],
)
def test_what_may_change_is_declined(body: str, reason: str) -> None:
    source = f"import datetime, os, time, uuid\n\ndef f(x):\n    {body}\n"
    outcome = check(source, [X, -X], "", None, None)
    assert reason in outcome.declines


def test_a_setter_that_breaks_the_graph_is_seen_by_what_follows() -> None:
    torch.set_num_threads(1)
    check(
        """
        def f(x):
            y = x * 2
            torch.set_num_threads(2)
            y = y + torch.get_num_threads()
            torch.set_num_threads(1)
            return y + torch.get_num_threads()
        """,
        [X, -X],
        mends="probe@4 probe@6",
        declines="call-not-traced@3 call-not-traced@5",
        breaks=2,
    )


def test_a_function_that_caches_its_results_asks_once() -> None:
    torch.use_deterministic_algorithms(False)
    outcome = check(
        """
        import functools

        @functools.lru_cache
        def is_fixed():
            return torch.get_deterministic_debug_mode()

        def f(x):
            return x * (3 if is_fixed() else 2)
        """,
        [X],
        mends="",
        declines=None,
        breaks=1,
    )
    assert "probe-not-fixed@5" in outcome.declines


def test_a_question_that_raises_raises_as_in_eager(tmp_path: object) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        try:
            return y + len(os.getcwd())
        except FileNotFoundError:
            return y

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        folder = os.path.join(str(tmp_path), "gone")
        for _ in range(2):
            assert torch.equal(compiled(X), f(X))
            os.mkdir(folder)
            os.chdir(folder)
            os.rmdir(folder)
            assert torch.equal(compiled(X), X * 2)
            os.chdir("/")


def test_not_under_export() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * os.getpid()

    with gm.enabled(), pytest.raises(Exception, match="getpid"):
        torch.export.export(Net(), (X,), strict=True)
    assert not gm.report().mends


SHARED: dict[int, int] = {}


def test_threads_are_told_apart_by_what_is_asked_of_them() -> None:
    """No thread is compiled for because its number is another one."""
    graphs: list[object] = []

    def backend(module: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(module)
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if threading.get_ident() in SHARED else x * 3

    def call() -> None:
        found.append(compiled(X).equal(f(X)))

    found: list[bool] = []
    with gm.enabled():
        compiled = torch.compile(f, backend=backend, fullgraph=True)  # type: ignore[arg-type]
        call()
        SHARED[threading.get_ident()] = 1
        call()
        for _ in range(3):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        SHARED.clear()
        call()
    assert found == [True] * 6
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "body",
    [
        "return x * 2 if (n := threading.get_ident()) in D else x + n",
        "return x + threading.get_ident()",
        "D[threading.get_ident()] = 1\n    return x * 2 if threading.get_ident() in D else x",
        "D[1] = 1\n    return x * 2 if threading.get_ident() in D else x",
        "D = {-1: 1}\n    return x * 2 if threading.get_ident() in D else x",
        "return x * 2 if threading.get_ident() in E else x",
    ],
)
def test_another_use_of_a_threads_number_breaks(body: str) -> None:
    source = f"""
import threading
D = {{}}
E = {{-1: 1}}

def f(x):
    {body}
"""
    outcome = check(source, [X, -X], mends=None, declines=None, breaks=None)
    assert "probe-not-fixed" in outcome.declines
