"""Which rung carries a site, why cheaper ones were passed over, and what no rung carries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import graphmend_bc as gm
from graphmend_bc.code import facts
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.engine.plans.remaining_rules import remaining_rules
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import AskTruth, LiftBranch
from graphmend_bc.rules.rule import BreakSite, Rule
from graphmend_bc.runtime import Site
from tests.oracle import check
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP]
MET = BreakSite((lambda x: x).__code__, 8)

DEAR = """
def f(x):
    y = x + 1
    if x.sum() > 0:
        y = torch.cumsum(y, 0) @ y
    else:
        y = y.prod()
    return y * 2
"""


def test_the_report_says_why_cheaper_rules_were_passed_over() -> None:
    with gm.enabled():
        torch.compile(_python_valued, backend="eager")(UP)
        (mend,) = gm.report().mends
    assert mend.strategy == "speculate"
    assert [text.split(":")[0] for text in mend.passed_over] == ["arms-differ-in-value"]
    assert "a cheaper strategy was refused: arms-differ-in-value" in str(mend)


def _python_valued(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    k = 2 if x.sum() > 0 else 3
    return x * k, k


@pytest.mark.parametrize(
    ("strategies", "mends", "declines"),
    [
        (("where", "cond", "speculate"), "cond@3", ""),
        (("where", "speculate"), "speculate@3", ""),
        (("where",), "", "arm-too-dear@3"),
        (("defer",), "", "strategy-off@3"),
    ],
)
def test_rules_in_order(strategies: tuple[str, ...], mends: str, declines: str) -> None:
    with gm.config.patch(strategies=strategies):
        check(DEAR, BOTH, mends, declines, breaks=bool(declines))


def test_attributes_change_before_and_after_an_operator() -> None:
    check(
        """
        class Box:
            count = 0

        box = Box()
        box.log = []

        def f(x):
            box.count += 1
            box.log.append(box.count)
            if x.sum() > 0:
                x = torch.cumsum(x, 0) @ x
            else:
                x = x.prod()
            box.count += 1
            while x > 1:
                x = x / 2
            box.count += 1
            box.log.append(box.count)
            return x
        """,
        BOTH,
        mends="cond@10 while_loop@15",
    )


def test_cond_is_not_used_under_autocast() -> None:
    body = """
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if x.sum() > 0:
                y = torch.cumsum(x, 0) @ x
            else:
                y = x.prod()
        return y * 2
    """
    with gm.config.patch(strategies=("where", "cond")):
        check(body, BOTH, declines="cond-under-autocast@3", breaks=1)


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)]
)
def test_arms_with_gradients(backend: str) -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x):
            if x.sum() > 0:
                y = (x * w).sqrt()
            else:
                y = (x * w).exp()
            return y * 2
        """,
        [UP, DOWN, UP * 0],
        mends="speculate@4",
        grad=True,
        backend=backend,
        orders=1,
    )


def test_cond_gives_no_gradient_that_eager_does_not_give() -> None:
    check(
        """
        v, w = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def f(x):
            if x.sum() > 0:
                y = (x * w).sqrt()
            else:
                y = (x * v).exp()
            return y * 2
        """,
        BOTH,
        mends="speculate@4",
        grad=True,
    )


@pytest.mark.parametrize(
    "arms",
    [
        ("y, n = x @ w, torch.tensor([1])", "y, n = (x + 1) @ w, torch.tensor([2])"),
        ("y, n = x @ w, (x @ v).detach()", "y, n = (x + 1) @ w, (x @ v * 2).detach()"),
        ("y, n = x @ w + (x @ v).detach(), 0", "y, n = x @ w - (x @ v).detach(), 0"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_cond_is_not_used_for_gradients(arms: tuple[str, str], backend: str) -> None:
    check(
        f"""
        v, w = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3, 3))

        def f(x):
            if x.sum() > 0:
                {arms[0]}
            else:
                {arms[1]}
            return y * 2, n
        """,
        [torch.stack([x, x, x]) for x in BOTH],
        mends="speculate@4",
        grad=True,
        backend=backend,
        orders=1,
    )


def test_numbers_that_no_wide_type_holds() -> None:
    check(
        """
        def f(x, y):
            if x.item() > 5:
                return y + 1
            return y * 2
        """,
        [(torch.tensor(value, dtype=torch.uint64), UP) for value in (2**64 - 1, 3)],
        "capture@2 speculate@2",
        None,
        None,
    )


def test_cond_may_give_back_what_exists_outside() -> None:
    check(
        """
        def f(x, i):
            y = x + 1
            if x.sum() > 0:
                z = torch.index_select(x, 0, i)
            else:
                z = y
            return z * 2, y, i
        """,
        [(x, torch.tensor([0, 1, 2])) for x in BOTH],
        mends="cond@3",
    )
    check(
        """
        def f(x, i):
            if x.sum() > 0:
                z = torch.index_select(x, 0, i)
            else:
                z = x
            return z
        """,
        [(x, torch.tensor([0, 1, 2])) for x in BOTH],
        mends="speculate@2",
    )


def test_error_in_the_taken_arm_of_cond() -> None:
    check(
        """
        def f(x, i):
            y = x + 1
            if x.sum() > 0:
                y = torch.index_select(y, 0, i)
            return y * 2
        """,
        [(x, torch.tensor(i)) for x in BOTH for i in ([0, 1, 2], [7, 7, 7])],
        mends="cond@3",
    )


def _nothing_before_the_graph() -> AbstractContextManager[None]:
    return gm.config.patch(strategies=tuple(s for s in gm.config.strategies if s != "hoist"))


def test_loop_carries_what_the_operator_can_carry() -> None:
    body = """
    def f(x):
        y, text = x.abs() + 1, ""
        while y.sum() < 50:
            y = y * 2
            {}
        return y, text
    """
    check(body.format("text = ''"), BOTH, mends="while_loop@3")
    # Where the loop is tested twice, each round is a function that resumes the one before.
    wanted = "loop-carries-value@3" + facts.WHILE_TESTS_TWICE * " loop-unbounded@3"
    breaks = (
        (2 if since(2, 14) or not since(2, 13) else 4 - (facts.VERSION > (3, 11)))
        if facts.WHILE_TESTS_TWICE
        else 1
    )
    check(body.format("text += 'a'"), BOTH, mends="hoist@3")
    with _nothing_before_the_graph():
        check(body.format("text += 'a'"), BOTH, declines=wanted, breaks=breaks)


def test_loop_left_in_the_middle_of_a_round() -> None:
    body = """
    def f(x):
        y = x.abs() + 1
        while True:
            y = y * 2
            if y.sum() > 100:
                break
            y = y + 1
        return y
    """
    if not facts.WHILE_TESTS_TWICE:
        check(body, BOTH, mends="while_loop@5")  # it looks like one with its condition in front
        return
    # What follows the break that stays may be mended: from there on the loop is another one.
    mends = "" if facts.VERSION < (3, 12) else "while_loop@5"
    check(body, BOTH, mends="hoist@5")
    with _nothing_before_the_graph():
        check(body, BOTH, mends, "loop-unbounded@5", breaks=1 if since(2, 13) else None)


def test_loop_counters_under_inductor() -> None:
    body = """
    def f(x):
        y, n = x.abs() + 1, {}
        while y.sum() < 50:
            y, n = y * 2, n + 1
        return y, n
    """
    zero = "torch.zeros((), dtype=torch.int64)"
    check(body.format(zero), BOTH, mends="while_loop@3", backend="inductor", orders=1)
    wanted = "backend-refuses@3" + facts.WHILE_TESTS_TWICE * " loop-unbounded@3"
    check(body.format(0), BOTH, mends="hoist@3", backend="inductor", orders=1)
    with _nothing_before_the_graph():
        check(body.format(0), BOTH, "", wanted, None, backend="inductor", orders=1)


def test_sizes_that_a_loop_counts() -> None:
    check(
        """
        def f(x):
            y, n = x.abs() + 1, 0
            while y.sum() < 50:
                y, n = y * 2, n + 1
            return y, torch.ones(n)
        """,
        [UP, UP * 100, UP * 4],
        mends="hoist@3",
    )


def test_equal_says_yes_to_the_same_memory_whatever_is_in_it() -> None:
    check(
        """
        def f(x, y):
            if torch.equal(x, y):
                return x + y
            return x - y
        """,
        [(x, x) for x in (UP, UP * float("nan"))] + [(UP, DOWN)],
        mends="hoist@2",
    )


def test_index_that_a_check_may_protect_is_noticed_on_accelerators() -> None:
    mode = FakeTensorMode()
    with mode:
        table = torch.empty(3, 4, device="cuda")
        index = torch.empty(2, dtype=torch.int64, device="cuda")
        recorder = Recorder(mode)
        torch.nn.functional.embedding(index, table)
        assert not recorder.guarded
        recorder.speculated = True
        torch.nn.functional.embedding(index, table)
        assert recorder.guarded == {None: torch.ops.aten.embedding.default}


def test_forward_mode_tangents_pass() -> None:
    import torch.autograd.forward_ad as fwd

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y = torch.cumsum(y, 0) @ x
        else:
            y = y.prod()
        return y * 2

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        with torch.no_grad():
            compiled(UP)
        assert [mend.strategy for mend in gm.report().mends] == ["cond"]
        with torch.no_grad(), fwd.dual_level():
            dual = fwd.make_dual(UP, torch.ones(3))
            wanted, found = fwd.unpack_dual(f(dual)), fwd.unpack_dual(compiled(dual))
    assert wanted.tangent is not None
    assert found.tangent is not None
    assert torch.equal(found.tangent, wanted.tangent)


MINE = gm.Rule(
    "mine",
    "where",
    1,
    lambda break_site: {break_site.offset: gm.LiftBranch()} if break_site.is_branch else None,
)
SAME = gm.Rule("same", "where", 2, MINE.matches)


@pytest.mark.parametrize("rules", [(MINE,), (MINE, SAME)], ids=["one rule", "two that do the same"])
def test_a_rule_is_not_tried_again_after_a_recompilation(
    rules: tuple[gm.Rule, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not under another name."""

    refused: list[Refused] = []
    climb = Plans.climb

    def noted(self: Plans, site: Site, why: Refused) -> bool:
        refused.append(why)
        return climb(self, site, why)

    monkeypatch.setattr(Plans, "climb", noted)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if x.sum() > 0:
            y = y @ y if x.dim() == 2 else y * 2
        return y * 2

    handles = [gm.register_rule(rule) for rule in rules]
    square, line = torch.ones(2, 2), UP
    try:
        with gm.config.patch(rules_off=("where", "cond", "speculate", "each")), gm.enabled():
            compiled = torch.compile(f, backend="eager", dynamic=False)
            assert torch.equal(compiled(line), f(line))
            assert [mend.strategy for mend in gm.report().mends] == ["where"]
            with gm.config.patch(where_op_limit=0):
                assert torch.equal(compiled(square), f(square))
            (decline,) = gm.report().declines
    finally:
        for handle in handles:
            handle.remove()
    assert decline.reason == "arm-too-dear"
    assert len(refused) == 1


@pytest.mark.parametrize("tried", range(3))
def test_what_is_left_to_try_lies_above_what_was_tried(tried: int) -> None:
    def helps(refused: Refused) -> bool:
        return refused.reason.code != "arm-raises"

    shapes = (LiftBranch(), LiftBranch(conditional=True), AskTruth())
    rules = [
        Rule(f"rule {n}", "where", n, lambda break_site, n=n: {8: shapes[n]}) for n in range(3)
    ]
    rules[2] = replace(rules[2], helps=helps)
    candidates = tuple(here for rule in rules if (here := rule.at(MET)) is not None)
    assert [here.rewrites[8].rule for here in candidates] == ["rule 0", "rule 1", "rule 2"]
    left = remaining_rules(candidates, f"rule {tried}", Refused("arm-too-dear"))
    assert left == candidates[tried + 1 :]
    assert remaining_rules(candidates, "", Refused("arm-too-dear")) == candidates
    assert remaining_rules(candidates, f"rule {tried}", Refused("left-alone")) == ()
    assert candidates[2] not in remaining_rules(candidates, "rule 0", Refused("arm-raises"))
