"""States of features, and the obligations that the seams call."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import graphmend_bc
from graphmend_bc.dynamo.patches import table
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.dynamo.trace.features import Feature, Features

PACKAGE = Path(graphmend_bc.__file__).parent
OBLIGATIONS = {n for n, f in vars(Feature).items() if callable(f) and not n.startswith("_")}


class Early(Feature):
    __slots__ = ()
    order: ClassVar[int] = 1

    def on_module_question(self, module: object, name: str) -> None:
        pass


class Late(Feature):
    __slots__ = ()
    order: ClassVar[int] = 99

    def on_module_question(self, module: object, name: str) -> None:
        pass


class Idle(Feature):
    __slots__ = ()


def _all(kind: type[Feature]) -> list[type[Feature]]:
    return [k for sub in kind.__subclasses__() for k in (sub, *_all(sub))]


def test_a_trace_knows_no_feature() -> None:
    assert len(dataclasses.fields(Trace)) < 15


def test_a_state_is_made_once() -> None:
    trace = Trace()
    assert trace.known(Idle) is None
    assert trace.of(Idle) is trace.of(Idle) is trace.known(Idle)
    assert Trace().known(Idle) is None


def test_states_are_told_in_their_order() -> None:
    features = Features()
    late, early = features.of(Late), features.of(Early)
    features.of(Idle)
    assert features.obliged(Feature.on_module_question) == (early, late)
    assert features.obliged(Feature.on_graph_end) == ()


def test_a_state_that_is_made_meanwhile_is_told() -> None:
    features = Features()
    features.of(Late)
    told = []
    for feature in features.all_obliged(Feature.on_module_question):
        features.of(Early)
        told.append(type(feature))
    assert told == [Late, Early]


def test_every_obligation_is_called_at_a_seam() -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "features.py"]
    missing = {
        name for name in OBLIGATIONS if not any(f"bliged(Feature.{name})" in s for s in sources)
    }
    assert not missing


def test_features_have_no_obligations_that_nobody_calls() -> None:
    assert table.SEAMS  # all features are imported
    kinds: list[Any] = [k for k in _all(Feature) if k.__module__.startswith("graphmend_bc")]
    assert len(kinds) > 15
    unknown = {
        (kind.__name__, name) for kind in kinds for name in vars(kind) if name.startswith("on_")
    } - {(kind.__name__, name) for kind in kinds for name in OBLIGATIONS}
    assert not unknown
