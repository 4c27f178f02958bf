"""`torch.compile(f).aot_compile(...)`: what is mended is saved, and loaded where nobody mends."""

from __future__ import annotations

import ast
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.exc import Unsupported

import graphmend_bc as gm
from graphmend_bc.dynamo.rollback import saved_frames
from tests.processes import python
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
FROM_2_13 = pytest.mark.skipif(
    not since(2, 13), reason="2.11 saves less, and breaks at `getLogger` and in wrapped functions."
)


def listed(x: torch.Tensor) -> list[torch.Tensor]:
    if x.sum() > 0:
        return [x * 2]
    return [x - 1, x]


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    if x.sum() > 0:
        x = x * 2
    return x


def repeated(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x[0].item())):
        x = x + 1
    return x


CALLS = 0


def counted(x: torch.Tensor) -> list[torch.Tensor]:
    global CALLS
    CALLS = 1
    return listed(x)


def asked(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("sum", x.sum(), file=sys.stderr)
    return x * 2


def set_count() -> None:
    global CALLS
    CALLS = 2


def counted_below(x: torch.Tensor) -> list[torch.Tensor]:
    set_count()
    return listed(x)


def named(x: torch.Tensor) -> torch.Tensor:
    logging.getLogger("a logger of its own").warning("named")
    return x + 1


OWN = logging.Logger("own")


def unnamed(x: torch.Tensor) -> torch.Tensor:
    return x + OWN.level if OWN.isEnabledFor(10) else x


def drawn(x: torch.Tensor) -> torch.Tensor:
    return x + np.random.rand()


@pytest.fixture(autouse=True)
def aot() -> Any:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(enable_aot_compile=True), gm.enabled():
        yield


def ahead_of_time(function: Callable[..., Any]) -> Any:
    compiled: Any = torch.compile(function, fullgraph=True, backend="eager")
    return compiled.aot_compile(((UP,), {}))


@pytest.mark.parametrize(
    ("function", "line"),
    [
        *((repeated, 1), (counted, 0), (counted_below, 0), (asked, 2)),
        *((unnamed, 1), (drawn, 1)),
        pytest.param(named, 1, marks=FROM_2_13),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_what_cannot_be_saved_is_declined_by_name(function: Any, line: int) -> None:
    """Values of before the graph, globals that are set, objects, loggers that may not be there."""
    with pytest.raises(Unsupported) as raised:
        ahead_of_time(function)
    notes = "".join(raised.value.__notes__)
    assert "under-export" in notes
    if line:
        assert f"{__file__}:{function.__code__.co_firstlineno + line}" in notes
    assert gm.report().mends == []


@FROM_2_13
def test_what_torch_itself_can_save_is_saved() -> None:
    """The symbols of a graph are pickled with it."""
    compiled: Any = torch.compile(lambda x: x.nonzero() + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled.aot_compile(((UP,), {}))(UP), UP.nonzero() + 1)


@pytest.mark.parametrize(("function", "strategy"), [(doubled, "where"), (listed, "speculate")])
def test_what_is_mended_works_before_it_is_saved(
    function: Callable[..., Any], strategy: str
) -> None:
    compiled = ahead_of_time(function)
    for x in (UP, DOWN, UP):
        torch.testing.assert_close(compiled(x), function(x))
    assert [mend.strategy for mend in gm.report().mends] == [strategy]


def test_what_other_versions_have_saved_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = ahead_of_time(listed)
    compiled.save_compiled_function(str(tmp_path / "listed"))
    others = lambda: ("3.11.0", "2.12.0", "0.0.1")  # noqa: E731
    monkeypatch.setattr(saved_frames, "running_versions", others)
    with (
        (tmp_path / "listed").open("rb") as file,
        pytest.raises(
            RuntimeError, match=r"^listed \(.*\) was compiled ahead of time with Python "
        ),
    ):
        torch.compiler.load_compiled_function(file)


@FROM_2_13
def test_original_code_without_its_globals_says_what_it_needs(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"__name__": "a_module_that_is_gone", "torch": torch}
    source = "def f(x):\n    return [x] if x.sum() > 0 else helper(x)\ndef helper(x): return x, 1"
    exec(source, scope)
    saved = tmp_path / "f"
    ahead_of_time(scope["f"]).save_compiled_function(str(saved))
    with saved.open("rb") as file:
        alone = torch.compiler.load_compiled_function(file)
    assert torch.equal(alone(UP)[0], UP)
    with pytest.raises(RuntimeError, match="needs helper, which module 'a_module_that_is_gone'"):
        alone(DOWN)
    with saved.open("rb") as file:
        loaded = torch.compiler.load_compiled_function(file, f_globals=scope)
    assert torch.equal(loaded(UP)[0], UP)
    assert loaded(DOWN)[1] == 1


def test_original_code_sees_what_changes_in_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although torch gives the code that it loads a copy of the globals."""
    module = types.ModuleType("a_module_that_changes")
    source = "K = 1\ndef bump():\n    global K; K += 1\n"
    source += "def f(x):\n    if x.sum() > 0: return [x]\n    bump(); return x, K"
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    ahead_of_time(module.f).save_compiled_function(str(tmp_path / "f"))
    for given in ({"f_globals": vars(module)}, {}):
        with (tmp_path / "f").open("rb") as file:
            loaded = torch.compiler.load_compiled_function(file, **given)
        module.K = 1
        assert [loaded(DOWN)[1], loaded(DOWN)[1], module.K] == [2, 3, 3]


FUNCTIONS = """
import torch

def where(x, w):
    if x.sum() > 0:
        x = x * 2
    return x + 1

def fold(x, w):
    if (x * x).sum() < 0:
        x = x + 5
    return x * 2

def cond(x, w):
    if x.sum() > 0:
        y = w @ x
    else:
        y = x + 1
    return y * 2

def while_loop(x, w):
    x = x + 1
    while x.abs().sum() > 1:
        x = torch.tanh(x) * 0.25
    return x + 1

ALL = (where, fold, cond, while_loop)
CALLS = [(sign * torch.ones(4), torch.eye(4) * 3) for sign in (1, -1, 0.125)]
"""

WATCHED = """
import logging, os, warnings
import torch

log = logging.getLogger("functions")

def helper(x):
    return [x - 1, x]

def speculate(x, w, *, k=3):
    if x.sum() > 1:
        return [x * k]
    return helper(w @ x)

def raises(x, w):
    if (x < 0).any():
        raise ValueError(f"negative: {x.min().item()}")
    return x + 1

def writes(x, w):
    x.add_(1)
    if x.sum() > 6:
        return [x * 2]
    x.mul_(3)
    return [x - 1, x]

def tells(x, w):
    x = x + 1
    print("sum", x.sum())
    log.warning("mean %.2f", x.mean().item())
    log.debug("said where it is loaded")
    return x * 2

def warns(x, w):
    if x.sum() > 0:
        warnings.warn("positive")
    return x * 2

def capture(x, w):
    return x * 2, x.sum().item()

def probe(x, w):
    return x * len(os.getcwd())

def level(x, w):
    return x + log.getEffectiveLevel() if log.hasHandlers() else x

def enabled(x, w):
    if log.isEnabledFor(logging.DEBUG):
        print("enabled", x.sum().item())
    return x + 1

def make(n):
    def closed(x, w):
        return [x] if x.sum() > n else (x * n, n)
    return closed

closed = make(1)
ALL = (speculate, raises, writes, tells, warns, capture, probe, level, enabled, closed)
CALLS = [(sign * torch.ones(4), torch.eye(4) * 3) for sign in (1, -1, 0.125, 2)]
"""

COMPARES = """
import io, logging, os, sys, warnings
import torch
import functions

logging.basicConfig(
    stream=sys.stdout, format="%(levelname)s %(module)s:%(lineno)s %(funcName)s %(message)s"
)
functions.log.setLevel(logging.DEBUG)

def seen(function, call):
    x, w = (t.clone() for t in call)
    sys.stdout, out = io.StringIO(), sys.stdout
    logging.getLogger().handlers[0].setStream(sys.stdout)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = function(x, w)
            except ValueError as error:
                result = error
        warned = [(str(w.message), w.filename, w.lineno) for w in told]
        return repr(result), x.tolist(), sys.stdout.getvalue(), warned
    finally:
        sys.stdout = out

different = []
for function in functions.ALL:
    with open(f"{sys.argv[1]}/{function.__name__}", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    for place in (sys.argv[1], "/"):
        os.chdir(place)
        for call in functions.CALLS * 2:
            with torch.no_grad():
                expected, found = seen(function, call), seen(loaded, call)
            if found != expected:
                different.append((function.__name__, expected, found))
import graphmend_bc
print(different, graphmend_bc.report().mends)
"""

SAVES = """
import sys
import torch
import functions
import graphmend_bc as gm

gm.enable(cache=False)
torch._dynamo.config.enable_aot_compile = True
with torch.no_grad():
    for function in functions.ALL:
        compiled = torch.compile(function, fullgraph=True).aot_compile((functions.CALLS[0], {}))
        compiled.save_compiled_function(f"{sys.argv[1]}/{function.__name__}")
print(sorted(mend.strategy for mend in gm.report().mends))
"""

LOADS = """
import sys
import torch
import functions

with torch.no_grad():
    for function in functions.ALL:
        with open(f"{sys.argv[1]}/{function.__name__}", "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        for call in functions.CALLS:
            torch.testing.assert_close(loaded(*call), function(*call))
print("graphmend_bc" in sys.modules)
"""


def said_by(folder: Path, functions: str, loads: str) -> list[str]:
    """What the process that saves functions prints, and the one that loads them."""
    for name, text in {"functions": functions, "saves": SAVES, "loads": loads}.items():
        (folder / f"{name}.py").write_text(text)
    said = []
    for script in ("saves", "loads"):
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = python(str(folder / f"{script}.py"), str(folder), env=env)
        assert not done.returncode, done.stderr
        said.append(done.stdout.strip())
    return said


@pytest.mark.slow
def test_what_is_saved_is_loaded_without_us(tmp_path: Path) -> None:
    """Nothing of ours is in the files; both arms are."""
    saved, loaded = said_by(tmp_path, FUNCTIONS, LOADS)
    assert (saved, loaded) == ("['cond', 'where', 'where', 'while_loop']", "False")


@pytest.mark.slow
def test_what_runs_around_the_graph_is_saved_with_it(tmp_path: Path) -> None:
    """Checks, original code, deferred calls, questions to the process; nobody mends there."""
    saved, loaded = said_by(tmp_path, WATCHED, COMPARES)
    assert set(ast.literal_eval(saved)) == {"defer", "probe", "speculate", "where"}
    assert loaded == "[] []"
