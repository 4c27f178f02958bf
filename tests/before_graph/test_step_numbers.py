"""Steps by optimizers that count them: the number is read before the graph, as eager Python reads it."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.before_graph.step_numbers import whole as number_in
from tests.rules.test_training_steps import STEP, calls, lived, program, whole

pytestmark = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")

ADAM = "Adam(m.parameters(), 0.01)"
EACH = "for s in opt.state.values(): "

CHANGES = {
    "filled": {2: f"{EACH}s['step'].fill_(50.0)"},
    "replaced, twice": dict.fromkeys((2, 3), f"{EACH}s['step'] = torch.tensor(7.0)"),
    "of ints": {2: f"{EACH}s['step'] = torch.tensor(7)"},
    "of doubles": {2: f"{EACH}s['step'] = torch.tensor(7.0, dtype=torch.float64)"},
    "different ones": {2: "for i, s in enumerate(opt.state.values()): s['step'].fill_(i * 1.0)"},
    "one differs for a call": {
        3: "[*opt.state.values()][1]['step'].add_(5)",
        4: "[*opt.state.values()][1]['step'].sub_(5)",
    },
    "shared by two": {3: "a = [*opt.state.values()]; a[1]['step'] = a[0]['step']"},
    "decays": {2: "opt.param_groups[0]['betas'] = (0.5, 0.0)"},
    "rates": {i: f"opt.param_groups[0]['lr'] = {0.01 * i}" for i in range(1, 5)},
    "rate 0": {2: "opt.param_groups[0]['lr'] = 0.0"},
    "rate too large": {2: "opt.param_groups[0]['lr'] = 1e39"},
    "rate infinite": {2: "opt.param_groups[0]['lr'] = float('inf')"},
    "gone": {3: "opt.state.clear()"},
    "loaded": {2: "opt.load_state_dict(opt.state_dict())"},
    "frozen for a call": {
        2: "m[0].weight.requires_grad_(False)",
        3: "m[0].weight.requires_grad_(True)",
    },
}


QUICK = ("one differs for a call", "decays")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, changes in CHANGES.items()
    ],
)
def test_a_step_is_as_eager_whatever_changes(changes: dict[int, str]) -> None:
    assert whole(STEP, ADAM, changes=changes) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        STEP.replace("opt.step()", "opt.step()\nopt.step()"),
        STEP.replace("opt.step()", f"{EACH}s['step'].add_(1)\nopt.step()"),
        STEP.replace("opt.step()", "if loss > 1.2:\n    opt.step()"),
        STEP.replace(
            "opt.step()", "opt.step()\ntold.append([*opt.state.values()][0]['step'].item())"
        ),
    ],
)
def test_steps_in_one_call(body: str) -> None:
    assert whole(body, ADAM) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["double", "bfloat16"])
def test_a_step_of_another_dtype(dtype: str) -> None:
    assert whole(STEP.replace("m(x)", f"m(x.{dtype}()).float()"), ADAM, f"m.{dtype}()") == (0, "")


@pytest.mark.slow
def test_a_parameter_that_comes_later_counts_from_its_own_first_step() -> None:
    before = "spare = nn.Parameter(torch.ones(2))\nmore = [spare]"
    changes = {2: "opt.add_param_group({'params': [spare]})"}
    body = STEP.replace("m(x)", "m(x) * spare.sum()")
    assert whole(body, ADAM, before, changes) == (0, "")


@pytest.mark.parametrize(
    ("optimizer", "graphs"), [(ADAM, 2), ("RAdam(m.parameters(), 0.01)", 3)], ids=["Adam", "RAdam"]
)
def test_no_number_is_compiled_for(optimizer: str, graphs: int) -> None:
    """RAdam goes another way from its sixth step on."""
    made, state = program(STEP, optimizer), session.new_state(mends=True)
    torch._dynamo.reset()
    with session.mending_by(state):
        lived(made, torch.compile(made["f"], backend="eager"), {}, 12)
    report = state.report_now()
    assert (report.compiled.graphs, report.compiled.breaks, report.speculated.calls) == (
        graphs,
        0,
        0,
    )


VIEWS = """
st = torch.stack([s['step'] for s in opt.state.values()])
for i, s in enumerate(opt.state.values()): s['step'] = st[i]
"""


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (STEP, {2: f"{EACH}s['step'].fill_(float('nan'))"}),
        (STEP, {2: f"{EACH}s['step'].fill_(5.5)"}),
        (STEP, {2: f"{EACH}s['step'] = torch.tensor([7.0])"}),
        (STEP, {2: f"{EACH}s['step'] = torch.tensor(255.0, dtype=torch.bfloat16)"}),
        (STEP, {2: VIEWS}),
        (STEP.replace("opt.step()", f"{EACH}s['step'].mul_(2)\nopt.step()"), {}),
    ],
    ids=["nan", "no whole number", "a dimension", "bfloat16", "views", "doubled"],
)
def test_what_holds_no_number_of_steps_is_left_to_stock(body: str, changes: dict[int, str]) -> None:
    made, state = program(body, ADAM), session.new_state(mends=True)
    torch._dynamo.reset()
    with session.mending_by(state):
        lived(made, torch.compile(made["f"], backend="eager"), changes, 4)
    (decline,) = {str(decline.reason) for decline in state.report_now().declines}
    assert decline == "hoist-not-input"


@pytest.mark.parametrize(
    ("tensor", "number"),
    [
        (torch.tensor(0.0), 0),
        (torch.tensor(12), 12),
        (torch.tensor(0.5), None),
        (torch.tensor(-1.0), None),
        (torch.tensor(2.0**24), None),
        (torch.tensor(torch.nan), None),
        (torch.tensor(3.0, dtype=torch.float16), None),
    ],
)
def test_numbers_of_steps(tensor: torch.Tensor, number: int | None) -> None:
    assert number_in(tensor) == number


@pytest.mark.parametrize("is_on", [True, False])
def test_the_rule_can_be_switched_off(is_on: bool) -> None:
    """Then the step is computed with the tensors, and the report says nothing of their numbers."""
    made, expected = program(STEP, ADAM), program(STEP, ADAM)
    with gm.enabled(), gm.config.patch(rules_off=() if is_on else ("step-number",)):
        torch._dynamo.reset()
        f = torch.compile(made["f"], backend="eager")
        same = [torch.equal(f(*call), expected["f"](*call)) for call in calls()]
        rules = {mend.rule for mend in gm.report().mends}
        breaks = gm.report().compiled.breaks
    assert rules >= {"optimizer-step", "optimizer-groups"}
    assert (("step-number" in rules), all(same), breaks) == (is_on, is_on, 0)
