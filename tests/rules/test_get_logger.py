"""`logging.getLogger` in the function, for loggers that exist and for one that does not yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import torch

import graphmend_bc as gm
from tests.backends import TORCH
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """Loggers stay for as long as the process runs."""
    loggers = logging.Logger.manager.loggerDict
    before = dict(loggers)
    yield
    loggers.clear()
    loggers.update(before)


KNOWN = pytest.mark.skipif(TORCH < (2, 13), reason="torch does not know the class of a logger")


@KNOWN
@pytest.mark.parametrize(
    "call",
    [
        'logging.getLogger("program").warning("sum %s", x.sum().item())',
        'logger = logging.getLogger(name="program"); logger.info("sum"); logger.error(f"{x[0]}")',
        'logging.getLogger("program.part").warning("made in the first call")',
        'logging.getLogger(f"program.{x.dim()}").warning("sum %s", x.sum())',
        'x = x * 2 if x.sum() > 0 else x + 1; logging.getLogger("program").warning("%s", x)',
    ],
)
def test_records(call: str) -> None:
    program = (
        f"import logging\nlogging.getLogger('program')\n\ndef f(x):\n    {call}\n    return x * 2"
    )
    branch = "where@5 " if " if " in call else ""
    check(program, [UP, DOWN, UP], f"defer@5 {branch}polyfill@__init__.py")


@pytest.mark.parametrize(
    "name", ['""', "None", '"root"', "5", "x.sum()", "logging.root.name", "[1]"], ids=str
)
def test_other_names(name: str) -> None:
    check(
        f"""
        import logging

        def f(x):
            print(x.sum())
            return x * 2, logging.getLogger({name}).name
        """,
        [UP, DOWN],
        mends="" if name in ("5", "[1]", "x.sum()") else "defer@4",  # those raise
        declines=None,
        breaks=None,
    )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of loggers that were made of a class of the user's, in force from now on."""
    names = []

    class Own(logging.Logger):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            names.append(name)

    monkeypatch.setattr(logging, "_loggerClass", Own)
    return names


def _compiled(condition: str) -> Callable[[torch.Tensor], torch.Tensor]:
    scope = {"torch": torch, "logging": logging}
    body = f"    if {condition}:\n        logging.getLogger('new').debug('x')\n    return x * 2"
    exec(f"def f(x):\n{body}", scope)
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(scope["f"], backend="eager")  # type: ignore[call-overload]
    return compiled


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["x.sum() > 0", "x.sum() * torch.rand(3).sum() > 0"])
def test_loggers_are_made_where_eager_makes_them(condition: str) -> None:
    with gm.enabled():
        compiled = _compiled(condition)
        compiled(DOWN)
        assert "new" not in logging.Logger.manager.loggerDict
        compiled(UP)
        assert "new" in logging.Logger.manager.loggerDict


def test_loggers_of_a_class_of_the_users(made: list[str]) -> None:
    with gm.enabled():
        compiled = _compiled("x.dim() == 1")
        assert made == []
        for x in (UP, DOWN, UP):
            compiled(x)
            assert made == ["new"]


@KNOWN
def test_loggers_that_are_gone(made: list[str]) -> None:
    """A guard looks for the logger in each call."""
    logging.getLogger("new")
    with gm.enabled():
        compiled = _compiled("x.dim() == 1")
        compiled(UP)
        assert "polyfill" in {mend.strategy for mend in gm.report().mends}
        del logging.Logger.manager.loggerDict["new"]
        compiled(UP)
    assert made == ["new", "new"]
