"""What serves a single library: on by default, and stock behaviour with a reason if switched off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.catalog.observers import CALLED, Observer, observer_names, observer_of
from graphmend_bc.contrib.load import extensions
from graphmend_bc.dynamo.patches.seam import ABSENT
from graphmend_bc.rules.registry import BUILT_IN, all_rules
from graphmend_bc.rules.rule import Rule
from tests.oracle import Outcome, check
from tests.rules.test_first_use import calls, eager, made, same

BUILT_IN_NAMES = {rule.name for rule in BUILT_IN}
X = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 5.0], [4.0, 2.0, 1.0]])
LOGITS = torch.linspace(-1, 1, 30).reshape(2, 5, 3)
LABELS = torch.tensor([[1, 2, 1], [2, 1, 2]])


@dataclass(frozen=True)
class Program:
    """A program that needs one extension.

    Attributes:
        source: it.
        mends: what is mended with the extension.
        declines: what must be among the reasons without it.
        calls: the arguments.
        needs: a module that must be installed.
    """

    source: str
    mends: str
    declines: str
    calls: tuple[tuple[Any, ...], ...] = ((X,), (-X,))
    needs: str = ""


PROGRAMS = {
    "cudnn": Program(
        """
        def f(x):
            with torch.backends.cudnn.flags(deterministic=True):
                y = x.exp()
            return y + 1
        """,
        "flags@2",
        "call-not-traced",
    ),
    "warnings": Program(
        """
        import warnings

        def f(x):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = x.exp()
            return y + 1
        """,
        "flags@5",
        "call-not-traced",
    ),
    "ctc": Program(
        """
        def f(log_probs, labels):
            scores = log_probs @ torch.eye(3)
            known = scores.sum(-1)[:, :3] < 9
            targets = labels.masked_select(known)
            lengths = torch.full((2,), 5), known.sum(-1)
            return F.ctc_loss(scores.log_softmax(-1).transpose(0, 1), targets, *lengths)
        """,
        "capture@4 capture@6",
        "hoist-too-dear",
        ((LOGITS, LABELS), (-LOGITS, LABELS)),
    ),
    "groupby": Program(
        """
        import itertools

        def f(x):
            for kind, run in itertools.groupby([1, 1, 4, 3], lambda n: n % 2):
                x = x * (kind + 2) + sum(run)
            return x
        """,
        "polyfill@4",
        "call-not-traced",
    ),
    "moe list": Program(
        """
        def f(x):
            chosen = F.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            total = x * 0
            for e in (chosen > 0).nonzero().flatten().tolist():
                total = total + (e + 1) * x
            return total
        """,
        "capture@4 speculate@4",
        "hoist-too-dear",
        ((X,),),
    ),
    "moe rows": Program(
        """
        def f(x):
            chosen = F.one_hot((x @ torch.eye(3)).argmax(-1), 3).sum(0)
            total = x * 0
            for e in chosen.nonzero():
                total = total + (e[0] + 1) * x
            return total
        """,
        "capture@4 speculate@4",
        "hoist-too-dear",
        ((X,),),
    ),
    "tqdm bar": Program(
        """
        from tqdm import tqdm

        def f(x):
            for n in tqdm([1, 2], disable=True):
                x = x * n
            return x
        """,
        "defer@4",
        "call-not-traced",
        needs="tqdm",
    ),
    "tqdm method": Program(
        """
        from tqdm import tqdm

        bar = tqdm(total=9, disable=True)

        def f(x):
            bar.update(2)
            return x + 1
        """,
        "defer@6",
        "call-not-traced",
        needs="tqdm",
    ),
    "tqdm class": Program(
        """
        import io
        from tqdm import tqdm

        out = io.StringIO()

        def f(x):
            tqdm.write("half way", file=out)
            return x + 1
        """,
        "defer@7",
        "call-not-traced",
        needs="tqdm",
    ),
    "loguru": Program(
        """
        from loguru import logger

        logger.remove()
        logger.add(lambda message: None)

        def f(x):
            logger.info("norm")
            return x + 1
        """,
        "defer@7",
        "call-not-traced",
        needs="loguru",
    ),
    "absl": Program(
        """
        from absl import logging as absl_logging

        def f(x):
            absl_logging.debug("norm")
            return x + 1
        """,
        "defer@4",
        "unhandled-instruction",
        needs="absl",
    ),
}


def outcome(name: str, mends: str | None, breaks: int | None) -> Outcome:
    program = PROGRAMS[name]
    pytest.importorskip(program.needs or "torch")
    return check(program.source, list(program.calls), mends, declines=None, breaks=breaks, orders=1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_off_it_is_left_as_stock_has_it_and_on_it_is_mended(name: str) -> None:
    with gm.config.patch(contrib=False):
        found = outcome(name, mends=None, breaks=None)
    assert found.breaks > 0
    assert not set(PROGRAMS[name].mends.split()) <= set(found.mends.split())
    assert PROGRAMS[name].declines in {entry.split("@")[0] for entry in found.declines.split()}
    outcome(name, PROGRAMS[name].mends, breaks=0)


def test_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch)
    expected = eager()
    made(monkeypatch)
    with gm.config.patch(contrib=False):
        seen, report = calls()
        assert same(seen, expected)
    assert "once" not in {mend.strategy for mend in report.mends}
    assert "unhandled-instruction" in {decline.reason for decline in report.declines}


def test_tensorboard() -> None:
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    for is_on in (True, False):
        with gm.config.patch(contrib=is_on), gm.enabled():
            assert (observer_of(writer.add_scalar) is not None) is is_on
            assert ("add_scalar" in observer_names()) is is_on


def test_every_extension_comes_and_goes() -> None:
    ours = {rule.name for extension in extensions() for rule in extension.rules}
    assert ours == {"flags", "filters", "polyfill", "hits", "rows"}
    places = [place for ext in extensions() for seam in ext.seams for place in seam.places()]
    for is_on in (True, False, True):
        before = [place.value() for place in places]
        with gm.config.patch(contrib=is_on), gm.enabled():
            assert ours.isdisjoint(rule.name for rule in all_rules()) is not is_on
            fake = [place.value() for place in places if isinstance(place.owner, dict)]
            assert all(value is not ABSENT for value in fake) is is_on
        assert [place.value() for place in places] == before


def test_a_name_of_ours_is_taken() -> None:
    with gm.config.patch(contrib=False), gm.enabled():
        pass
    handle = gm.register_rule(Rule("rows", "speculate", 1, lambda break_site: None))
    try:
        with pytest.raises(ValueError, match="named 'rows' already"):
            gm.enable()
        assert not gm.is_enabled()
        assert {rule.name for rule in all_rules()} == {*BUILT_IN_NAMES, "rows"}
        with gm.config.patch(contrib=False), gm.enabled():
            assert gm.is_enabled()
    finally:
        handle.remove()
    with gm.enabled():
        assert "hits" in {rule.name for rule in all_rules()}


def tell(x: torch.Tensor) -> None:
    """Only observes."""
    TOLD.append(x.sum().item())


TOLD: list[float] = []


def test_an_extension_of_the_users() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        tell(x)
        return x + 1

    mine = gm.Extension("mine", observers={(__name__, "tell"): Observer(CALLED)})
    handle = gm.register(mine)
    try:
        assert "tell" in observer_names()
        with gm.enabled():
            torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
            assert [mend.strategy for mend in gm.report().mends] == ["defer"]
        assert TOLD == [2.0]
    finally:
        handle.remove()
    assert observer_of(tell) is None
    assert "tell" not in observer_names()


def test_an_extension_is_registered_whole_or_not_at_all() -> None:
    rules = tuple(Rule(name, "where", 1, lambda break_site: None) for name in ("mine", "where"))
    with pytest.raises(ValueError, match="named 'where' already"):
        gm.register(gm.Extension("mine", rules, {(__name__, "tell"): Observer(CALLED)}))
    assert "mine" not in {rule.name for rule in all_rules()}
    assert observer_of(tell) is None
