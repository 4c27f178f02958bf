"""What is known of code that nobody holds any more can be collected, and does not add up."""

from __future__ import annotations

import gc
import weakref
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch
from torch._dynamo import bytecode_transformation, guards
from torch._dynamo.utils import get_metrics_context

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.code.kept import forget_kept
from graphmend_bc.dynamo.frames.generated_code import resumed
from graphmend_bc.engine.decisions.break_memory import CutPlan, LeftBreak
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.report import Decline, Mend
from graphmend_bc.reporting.speculation_stats import Speculation, Tally
from graphmend_bc.rewriting import Plan, widest_plan
from graphmend_bc.rewriting.origin import Origin
from graphmend_bc.rewriting.plan import LiftRound
from graphmend_bc.runtime import Site, code_id, identity_of
from tests.releases import executed

X = torch.tensor([1.0, 2.0])


def generated(number: int, name: str = "f") -> FunctionType:
    module: dict[str, Any] = {}
    source = f"""
def {name}(x):
    y = x * {number}
    if x.sum() > 0:
        y = y + 1
    print(y)
    return y
"""
    executed(source, "<generated>", module)
    return module.pop(name)  # type: ignore[no-any-return]


def alive(refs: list[weakref.ref[Any]]) -> int:
    gc.collect()
    return sum(ref() is not None for ref in refs)


def empty_torchs_own_caches() -> None:
    """Torch keeps code objects, too, in places that its `reset` does not look at."""
    bytecode_transformation._cached_cleaned_instructions.cache_clear()
    guards.code_framelocals_names_reversed_cached.cache_clear()
    get_metrics_context()._edits.clear()


def fill(state: MendingState, code: CodeType) -> None:
    """Everything that a state may know of a function."""
    site, key = site_of(code, 0), identity_of(code)
    state.rewrites.rewritten(code, widest_plan(code))
    state.breaks.cut[key] = CutPlan(widest_plan(code), {}, {}, ())
    decline = Decline.of(Refused("call-not-traced"), site)
    state.breaks.left[key, "RESUME", None] = LeftBreak("", (), decline, everywhere=True)
    state.note_mended(key)
    state.remember_plan(key, widest_plan(code), {site: "Data-dependent branching"})
    state.remember_tally(code, Tally((Speculation(site, 0, True, False),)))
    state.given_up[site] = Refused("speculation-missed")
    state.site_failures[site] += 1
    state.note_hoist(code, site)
    state.leaves_call(code)
    state.unguarded(code, RuntimeError())
    state.left_alone.add(key)
    state.left_to_stock.add(key)
    state.note(Mend("where", site))
    state.note(Decline.of(Refused("call-not-traced"), site))


@pytest.mark.slow
def test_code_that_is_gone_does_not_add_up() -> None:
    state, most = MendingState(), 0
    refs = []
    for number in range(400):
        function = generated(number)
        fill(state, function.__code__)
        refs.append(weakref.ref(function.__code__))
        del function
        state.forget_dead()
        most = max(most, state._size())
    state.rewrites.recent.clear()
    forget_kept()
    assert alive(refs) == 0
    assert most <= 6000  # 256 rewrites are kept, each with some twenty entries
    state.limit = 0
    state.forget_dead()
    # What reads the same is reported once.
    assert state._size() == 2
    assert (len(state.report.mends), len(state.report.declines)) == (1, 1)


def test_what_is_known_of_living_code_stays() -> None:
    state = MendingState(limit=0)
    function = generated(1)
    fill(state, function.__code__)
    before = state._size()
    state.forget_dead()
    assert state._size() == before
    assert state.limit == 1024


def test_identities_of_dead_code_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    table = code_id._Table()
    monkeypatch.setattr(code_id, "_table", table)
    for number in range(5000):
        identity_of(generated(number, f"f{number % 7}").__code__)
    assert len(table.by_object) <= 1024
    table.sweep()
    assert (len(table.by_object), len(table.by_value)) == (0, 0)


@pytest.mark.slow
def test_an_identity_dies_with_the_last_of_equal_code_objects() -> None:
    one, other = generated(1), generated(1)
    identity = identity_of(one.__code__)
    assert identity_of(other.__code__) is identity
    del one
    gc.collect()
    assert identity.is_alive
    assert identity_of(other.__code__) is identity
    del other
    gc.collect()
    assert not identity.is_alive
    assert identity_of(generated(1).__code__) is not identity


@pytest.mark.slow
def test_a_rewrite_keeps_its_original_and_nothing_keeps_the_rewrite() -> None:
    rewrites = MendingState().rewrites
    function = generated(1)
    plan = widest_plan(function.__code__)
    written = rewrites.rewritten(function.__code__, plan)
    original = weakref.ref(function.__code__)
    del function
    rewrites.forget()
    forget_kept()
    assert alive([original]) == 1
    code, offset = rewrites.original(written, 0)
    assert (code, offset) == (original(), 0)
    refs = [weakref.ref(written), original]
    del written, code
    assert alive(refs) == 0


@pytest.mark.slow
def test_refusals_keep_no_code() -> None:
    rewrites = MendingState().rewrites
    function = generated(1)
    refs = [weakref.ref(function.__code__)]
    plan = Plan({0: LiftRound()})
    for _ in range(2):
        with pytest.raises(Refused):
            rewrites.rewritten(function.__code__, plan)
    del function
    forget_kept()
    assert alive(refs) == 0


@pytest.mark.slow
@pytest.mark.parametrize("room", [torch._dynamo, torch.compiler])
def test_reset_frees_code(room: Any) -> None:
    gm.enable()
    gm.reset()
    state = session._session.state
    before = state._size()  # what other tests still hold
    functions = [generated(number, f"freed{number}") for number in range(5)]
    own = {identity_of(function.__code__) for function in functions}
    for function in functions:
        torch.compile(function, backend="eager")(X)
    made = {key: found for key, found in state.rewrites.made.items() if key[0] in own}
    written = [found for found in made.values() if isinstance(found, weakref.ref)]
    originals = [weakref.ref(function.__code__) for function in functions]
    assert alive(written) >= 5
    room.reset()
    empty_torchs_own_caches()
    assert alive(written) == 0
    names = {function.__qualname__ for function in functions}
    origins = [o for o in gc.get_objects() if type(o) is Origin]  # of a proxy, it asks nothing
    assert not [o for o in origins if o.code.co_qualname in names]
    gm.reset()
    assert own <= state.mended
    del function, own, made, origins
    functions.clear()
    assert alive(originals) == 0
    gm.reset()
    assert state._size() <= before


def test_what_resumes_a_mended_function_is_its_own_code() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if x.sum() > 0:
            y = y * 2
        open(__file__).close()
        return y

    kept: list[CodeType] = []

    def hook(code: CodeType, written: CodeType) -> None:
        kept.append(code)

    gm.enable()
    handle = torch._dynamo.convert_frame.register_bytecode_hook(hook)
    try:
        torch.compile(f, backend="eager")(X)
    finally:
        handle.remove()
    torch._dynamo.reset()
    assert [session._session.state.function_of(code) for code in kept] == [f.__code__] * 2
    assert resumed(kept[1]) is f.__code__


@pytest.mark.slow
def test_sites_hold_no_code() -> None:
    function = generated(1)
    refs = [weakref.ref(function.__code__)]
    site = site_of(function.__code__, 0)
    del function
    forget_kept()
    assert alive(refs) == 0
    assert isinstance(site, Site)
    assert site == site
