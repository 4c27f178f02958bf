"""The seams go in all or none, and come out again whatever happened meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._dynamo import convert_frame
from torch._dynamo.variables.base import VariableTracker

import graphmend_bc as gm
from graphmend_bc import session, versions
from graphmend_bc.attachment import frame_hooks
from graphmend_bc.canary.watching import places_of
from graphmend_bc.contrib.load import extensions, load
from graphmend_bc.dynamo.patches import capabilities, installer
from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.dynamo.patches.seam import ABSENT, Seam, SeamPlace, register_seam
from graphmend_bc.dynamo.patches.table import SEAMS
from graphmend_bc.engine.state import MendingState
from graphmend_bc.rules.registry import all_rules, is_on
from graphmend_bc.versions import MissingSeamError, UnsupportedVersionError

X = torch.tensor([1.0, 2.0])
ALL = (
    *installer._of_state(
        MendingState(), lambda *args: None, installer._Switch(), lambda *args: None
    ),
    *SEAMS,
    *(seam for extension in extensions() for seam in extension.seams),
)


def rests_on(seam: Seam) -> set[str]:
    """What is needed of the place of a seam, of which there may be more at one place."""
    here = [other for other in ALL if (other.owner, other.names) == (seam.owner, seam.names)]
    return {name for other in here for name in other.needed_by}


REMOVED = [seam for seam in ALL if not seam.adds]
NEEDED = [seam for seam in REMOVED if rests_on(seam) >= set(ESSENTIAL)]
OTHERS = [seam for seam in REMOVED if not rests_on(seam) >= set(ESSENTIAL)]


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


def graphs_of(function: Callable[..., Any]) -> int:
    """How many graphs torch.compile makes of it."""
    graphs = list[object]()

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    assert torch.equal(torch.compile(function, backend=backend)(X), function(X))
    return len(graphs)


def label(seam: Seam) -> str:
    return f"{seam.owner.rpartition('.')[2]}.{seam.names[0]}"


def held(without: Seam | None = None) -> list[tuple[SeamPlace, Any]]:
    """What is in each place, as it is stored there; but in those of one seam."""
    left_out = None if without is None else (without.owner, without.names[0])
    others = [seam for seam in ALL if (seam.owner, seam.names[0]) != left_out]
    return [(place, place.value()) for seam in others for place in places_of(seam)]


def assert_held(before: list[tuple[SeamPlace, Any]]) -> None:
    assert [str(place) for place, value in before if place.value() is not value] == []


def is_of_all_variables(seam: Seam) -> bool:
    """Whether a class inherits from what all variables have what a seam replaces in it."""
    places = [place for place in seam.places() if place.value() is ABSENT]
    return any(place.name in vars(VariableTracker) for place in places)


@contextmanager
def removed(seam: Seam) -> Iterator[None]:
    """A torch that lacks what a seam replaces."""
    before = [(place, place.value()) for place in seam.places()]
    if seam.inherited:
        before = [
            (SeamPlace(base, place.name, base.__name__), vars(base)[place.name])
            for place, _ in before
            for base in place.owner.__mro__
            if place.name in vars(base)
        ]
    try:
        for place, _ in before:
            place.put(ABSENT)
        yield
    finally:
        for place, value in before:
            place.put(value)


@pytest.fixture(autouse=True)
def stays_put_in() -> None:
    """What is put in for the life of the process is in place before each test."""
    gm.enable()
    gm.disable()


@pytest.mark.parametrize("seam", NEEDED, ids=label)
def test_a_missing_target_leaves_nothing_installed(seam: Seam) -> None:
    before = held()
    with removed(seam):
        without = held(without=seam)
        with pytest.raises(MissingSeamError) as caught:
            gm.enable()
        assert_held(without)
        assert not gm.is_enabled()
        with pytest.raises(UnsupportedVersionError):
            gm.enable()
        assert_held(without)
    sentence = str(caught.value)
    assert f"torch {torch.__version__}" in sentence
    assert all(str(name) in sentence for name in seam.names)
    assert "\n" not in sentence
    assert_held(before)
    gm.enable()
    unchanged = [place for place, value in before if place.value() is value]
    kept = [seam for seam in ALL if seam.stays or not seam.replaced]
    stays = [place for seam in kept for place in seam.places()]
    assert {str(place) for place in unchanged} == {str(place) for place in stays}
    gm.disable()
    assert_held(before)


def reasons_of(function: Callable[..., Any], *calls: object) -> set[str]:
    """Why sites are declined; the results are eager Python's."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    for call in calls:
        assert torch.equal(compiled(call), function(call))
    return {decline.reason for decline in gm.report().declines}


@pytest.mark.parametrize("seam", OTHERS, ids=lambda seam: seam.label)
def test_a_missing_target_turns_off_what_rests_on_it(
    seam: Seam, caplog: pytest.LogCaptureFixture
) -> None:
    if is_of_all_variables(seam):
        pytest.skip("It is inherited from what all variables have, so no torch lacks it.")
    before = held()
    versions._warn.cache_clear()
    with removed(seam):
        without = held(without=seam)
        for _ in range(2):
            gm.enable()
            assert session._session.state.lost.keys() == rests_on(seam)
            gm.disable()
            assert session._session.state.lost == {}
            assert_held(without)
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    sentence = record.getMessage()
    assert f"torch {torch.__version__}" in sentence
    assert all(name in sentence for name in (*seam.needed_by, str(seam.names[0])))
    assert "\n" not in sentence
    assert_held(before)
    with gm.enabled():
        assert session._session.state.lost == {}
        assert graphs_of(branching) == 1
    assert_held(before)


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * int(x[0].item())


def test_rules_that_are_off_decline_and_come_back() -> None:
    compares = next(seam for seam in ALL if seam.names == ("is",))
    gone = Seam(
        "torch._dynamo.guards",
        ("gone",),
        lambda stock: stock,
        "-",
        needed_by=(capabilities.COMPUTED_GUARDS,),
    )
    registration = register_seam(gone)
    with gm.config.patch(strategies=("hoist",)), gm.enabled():
        assert reasons_of(reads, X, X + 1) == {"torch-differs"}
        (decline,) = gm.report().declines
        assert "has no torch._dynamo.guards.gone" in decline.explanation
    registration.remove()
    with removed(compares), gm.enabled():
        reasons_of(branching, X, -X)
        assert "where" not in {mend.strategy for mend in gm.report().mends}
    with gm.config.patch(strategies=("hoist",)), gm.enabled():
        assert reasons_of(reads, X, X + 1) == set()
        assert {mend.strategy for mend in gm.report().mends} == {"hoist"}


def test_a_rule_of_the_users_is_off_where_one_of_ours_that_is_like_it_is() -> None:
    ours = gm.Rule("mine", "hoist", 59, lambda break_site: None)
    other = gm.Rule("other", "speculate", 59, lambda break_site: None)
    named = gm.Rule("named", "speculate", 59, lambda break_site: None, handler="hoist")
    lost = {capabilities.COMPUTED_GUARDS: "has no f"}
    assert [is_on(rule, lost) for rule in (ours, other, named)] == [False, True, False]


def test_what_rests_on_a_seam_is_known_by_name() -> None:
    load()
    features = {"ctc_loss", "imports", "mapping proxies", "compile regions"}
    features |= {capabilities.GROWN_LISTS}
    features |= {capabilities.ATTRIBUTE_DICTS, "types of NumPy results"}
    features |= {capabilities.AUTOGRAD_FUNCTIONS, capabilities.NESTED_BREAKS}
    features |= {capabilities.DECIDING, capabilities.RETRYING, capabilities.RESUMING}
    known = {need for rule in all_rules() for need in rule.needs} | features
    names = {name for seam in ALL if seam.needed_by != ESSENTIAL for name in seam.needed_by}
    assert names <= known


def test_a_missing_class_or_module_is_named() -> None:
    for owner, name in (
        ("torch._dynamo.output_graph:NoGraph", "torch._dynamo.output_graph.NoGraph"),
        ("torch._dynamo.no_module:Graph", "torch._dynamo.no_module.Graph"),
    ):
        with pytest.raises(MissingSeamError, match=name):
            Seam(owner, ("f",), lambda stock: stock, "").places()


def test_mending_works_once_the_target_is_back() -> None:
    seam = next(seam for seam in ALL if "call_user_compiler" in seam.names)
    with removed(seam), pytest.raises(MissingSeamError):
        gm.enable()
    assert graphs_of(branching) == 2
    with gm.enabled():
        assert graphs_of(branching) == 1
    assert graphs_of(branching) == 2


@pytest.mark.parametrize("failure", [RuntimeError("planted"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_puts_everything_back(
    failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stock: object) -> object:
        raise failure

    *_, last = SEAMS
    monkeypatch.setattr(installer, "SEAMS", (*SEAMS, Seam(last.owner, last.names, fail, "")))
    before = held()
    with pytest.raises(type(failure)):
        gm.enable()
    assert_held(before)
    assert not gm.is_enabled()
    with pytest.raises(type(failure)), gm.enabled():
        pass
    assert_held(before)
    monkeypatch.undo()
    with gm.enabled():
        assert graphs_of(branching) == 1


def test_what_stays_is_put_back_if_the_first_installation_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    staying = [(place, place.value()) for seam in ALL if seam.stays for place in seam.places()]
    stock = [(place, getattr(value, "__wrapped__", ABSENT)) for place, value in staying]
    try:
        for place, value in stock:
            place.put(value)
        with monkeypatch.context() as patch:
            missing = Seam("torch._dynamo:no_such", ("f",), lambda stock: stock, "")
            patch.setattr(installer, "SEAMS", (*SEAMS, missing))
            with pytest.raises(MissingSeamError):
                gm.enable()
            assert_held(stock)
            interrupted = Seam("torch._dynamo", ("reset",), lambda stock: 1 / 0, "")
            patch.setattr(installer, "SEAMS", (*SEAMS, interrupted))
            with pytest.raises(ZeroDivisionError):
                gm.enable()
            assert_held(stock)
        gm.enable()
        gm.disable()
        assert all(place.value() is not value for place, value in stock)
    finally:
        for place, value in staying:
            place.put(value)


@pytest.mark.parametrize("session", [True, False])
def test_explain_installs_all_or_nothing(session: bool) -> None:
    before = held()
    if session:
        gm.enable()
    seam = next(seam for seam in ALL if "remove_unused_graphargs" in seam.names)
    stock = [(place, value) for place, value in before if place.name not in seam.names]
    with removed(seam):
        with pytest.raises(MissingSeamError):
            gm.explain(branching)(X)
        assert_held(stock)
        assert not gm.is_enabled()
    gm.disable()


def test_an_interrupted_explain_leaves_the_session_on() -> None:
    gm.enable()

    def raising(x: torch.Tensor) -> torch.Tensor:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        gm.explain(raising)(X)
    assert gm.is_enabled()
    assert graphs_of(branching) == 1


def test_switched_off_inside_explain_stays_off() -> None:
    from graphmend_bc import session

    before = held()
    gm.enable()
    with session.mending_by(session.new_state(mends=True)):
        gm.disable()
    assert not gm.is_enabled()
    assert_held(before)


def test_a_target_that_cannot_be_attached_leaves_nothing_on() -> None:
    before = held()
    targets = f"{__name__}:branching, nowhere.*, no_such_module:f"
    for wrong in (targets, f"{__name__}:branching, {__name__}:X"):
        with gm.config.patch(attach=wrong), pytest.raises((ImportError, ValueError, TypeError)):
            gm.enable()
        assert not gm.is_enabled()
        assert not frame_hooks._users.owners
        assert_held(before)
    gm.enable()
    assert graphs_of(branching) == 1


def test_a_missing_seam_detaches_what_was_attached() -> None:
    with gm.config.patch(attach=f"{__name__}:branching, nowhere.*"), removed(NEEDED[0]):
        with pytest.raises(MissingSeamError):
            gm.enable()
        assert not frame_hooks._users.owners
    with gm.config.patch(attach=f"{__name__}:branching"):
        gm.enable()
        assert frame_hooks._users.owners
    gm.disable()
    assert not frame_hooks._users.owners


def test_a_wrapper_put_around_ours_stays_and_nothing_mends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, stock = list[str](), convert_frame.compile_frame
    gm.enable()
    ours = convert_frame.compile_frame

    def theirs(code: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(code.co_name)
        return ours(code, *args, **kwargs)

    monkeypatch.setattr(convert_frame, "compile_frame", theirs)
    assert graphs_of(branching) == 1
    gm.disable()
    assert convert_frame.compile_frame is theirs
    seen.clear()
    assert graphs_of(branching) == 2
    assert "branching" in seen
    assert gm.report().mends != []  # of the time before
    gm.reset()
    gm.enable()
    assert graphs_of(branching) == 1
    assert len(gm.report().mends) == 1
    gm.disable()
    assert convert_frame.compile_frame is theirs
    monkeypatch.undo()  # this puts ours back, which nobody takes out any more
    convert_frame.compile_frame = stock
    assert graphs_of(branching) == 2


def test_a_handle_is_removed_once() -> None:
    before = held()
    handle = gm.enable()
    handle.remove()
    handle.remove()
    assert_held(before)
    again = gm.enable()
    handle.remove()
    assert gm.is_enabled()
    again.remove()
    again.remove()
    gm.disable()
    assert_held(before)


def test_class_methods_are_class_methods_again() -> None:
    from torch._dynamo.variables.tensor import SymNodeVariable

    gm.enable()
    gm.disable()
    assert isinstance(vars(SymNodeVariable)["create"], classmethod)
