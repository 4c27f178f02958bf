"""Training steps: `zero_grad`, `backward` and `step` in one graph, as eager Python does them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.dynamo import facts

pytestmark = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")

PROGRAM = """
import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.{optimizer}
told = []
{before}

def f(x, y):
{body}

def state():
    leaves = [*m.parameters(), *globals().get("more", ())]
    kept = [[*opt.state[p].values()] if p in opt.state else None for p in leaves]
    return leaves, [p.grad for p in leaves], kept, list(told)
"""

STEP = """
opt.zero_grad()
loss = mse_loss(m(x), y)
loss.backward()
opt.step()
return loss.detach()
"""
BACKWARD = "loss = mse_loss(m(x), y)\nloss.backward()\nreturn loss.detach()"
SGD = "SGD(m.parameters(), 0.1, momentum=0.9)"

Seen = list[Any]


def calls(count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    drawn = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 4, generator=drawn), torch.randn(6, 2, generator=drawn))
        for _ in range(count)
    ]


def program(body: str, optimizer: str = SGD, before: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {}
    indented = textwrap.indent(body.strip(), "    ")
    exec(PROGRAM.format(body=indented, optimizer=optimizer, before=before), made)
    return made


def lived(
    made: dict[str, Any], f: Callable[..., Any], changes: dict[int, str], count: int = 5
) -> Seen:
    """What each call gives or raises, and all that it leaves behind."""
    seen: Seen = []
    for number, args in enumerate(calls(count)):
        exec(changes.get(number, ""), made)
        try:
            result: Any = f(*args)
        except (RuntimeError, ValueError) as error:
            result = type(error).__name__, str(error).partition("\n")[0]
        seen.append(_shown((result, made["state"]())))
    return seen


def _shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shown(each) for each in value]
    if isinstance(value, torch.Tensor):
        grad_fn = value.grad_fn is not None
        return value.detach().clone(), value.stride(), value.requires_grad, grad_fn, value.layout
    return value


def _agrees(found: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(
            _agrees(*pair, tolerance) for pair in zip(found, expected, strict=True)
        )
    if isinstance(expected, torch.Tensor):
        found, expected = found.to_dense(), expected.to_dense()
        return torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if isinstance(expected, float):
        return abs(found - expected) <= tolerance
    return bool(found == expected)


def whole(
    body: str,
    optimizer: str = SGD,
    before: str = "",
    changes: dict[int, str] | None = None,
    *,
    backend: str = "eager",
    exact: bool = True,
    tolerance: float = 0.0,
) -> tuple[int, str]:
    """The breaks that are left of a step that agrees with eager Python, and what was refused.

    Where its own step is no eager one (`foreach=True` computes with tensors), it is stock's.
    """
    arms = {}
    report = gm.report()
    for arm in ("eager", "stock", "mended"):
        if arm == "eager" and not exact:
            continue
        torch._dynamo.reset()
        made = program(body, optimizer, before)
        mends = session.new_state(mends=arm == "mended")
        with session.mending_by(mends):
            f = made["f"] if arm == "eager" else torch.compile(made["f"], backend=backend)
            arms[arm] = lived(made, f, changes or {})
            report = mends.report_now()
    expected = arms["eager" if exact else "stock"]
    assert _agrees(arms["mended"], expected, tolerance if backend == "eager" else 1e-5)
    left = report.compiled.breaks + report.compiled.skipped
    return left, " ".join(sorted({decline.reason for decline in report.declines}))


OPTIMIZERS = [
    ("SGD(m.parameters(), 0.1)", True),
    (SGD, True),
    ("SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=True)", True),
    ("Adam(m.parameters(), 0.01)", True),
    ("AdamW(m.parameters(), 0.01, weight_decay=0.1, amsgrad=True)", True),
    ("AdamW(m.parameters(), 0.01, foreach=True)", False),
    ("Adamax(m.parameters(), 0.01)", True),
    ("RAdam(m.parameters(), 0.01)", True),
    ("Adagrad(m.parameters(), 0.01, lr_decay=0.1)", True),
    ("RMSprop(m.parameters(), 0.01)", True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "exact"), OPTIMIZERS)
def test_a_step_is_whole(optimizer: str, exact: bool) -> None:
    assert whole(STEP, optimizer, exact=exact) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["NAdam(m.parameters(), 0.01)", "ASGD(m.parameters(), 0.01)"])
def test_a_step_that_computes_with_tensors(optimizer: str) -> None:
    """In part as stock does: the factors of its products are numbers, as in eager Python."""
    assert whole(STEP, optimizer, tolerance=1e-6) == (0, "")


@pytest.mark.parametrize("optimizer", ["SGD(m.parameters(), 0.1)", SGD])
def test_a_step_that_keeps_no_gradients(optimizer: str) -> None:
    """Inductor of two releases loses the factor of the optimizer's addition here."""
    body = STEP.replace("opt.zero_grad()\n", "").replace(".step()", ".step()\nopt.zero_grad()")
    assert whole(body, optimizer) == (0, "")
    assert whole(body, optimizer, backend="inductor") == (0, "")


def test_gradients_that_are_equal_are_two_tensors() -> None:
    """Inductor returns one, to which the next call would add twice."""
    body = "loss = (more[0] + more[1]).sum() * x.mean()\nloss.backward()\nreturn loss.detach()"
    before = "more = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))]"
    assert whole(body, before=before, backend="inductor") == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        BACKWARD,
        BACKWARD.replace("return loss.detach()", "return loss.item()"),
        f"{BACKWARD.replace('return', 'm(x).sum().backward(); return')}",
        BACKWARD.replace("return", "told.append([p.grad is None for p in m.parameters()]); return"),
        STEP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
        STEP.replace("opt.step()", "nn.utils.clip_grad_norm_(m.parameters(), 0.1)\nopt.step()"),
        STEP.replace("opt.step()", "print('loss', loss.item())\nopt.step()"),
        STEP.replace("m(x)", "m[2](m[0](x).detach().relu())"),
        "loss = 0.0\nfor rows, wanted in zip(x.chunk(2), y.chunk(2)):\n"
        "    part = mse_loss(m(rows), wanted)\n    part.backward()\n    loss += part.detach()\n"
        "opt.step()\nreturn loss",
    ],
)
def test_what_steps_are_made_of(body: str) -> None:
    assert whole(body) == (0, "")


GAN = """
other.zero_grad()
d = (m(x) * critic(x)).mean()
d.backward()
other.step()
opt.zero_grad()
g = m(x).mean() - critic(x).mean()
g.backward()
opt.step()
return d, g
"""
AVERAGE = STEP.replace(
    "return",
    "with torch.no_grad():\n    for p, q in zip(kept.parameters(), m.parameters()):\n"
    "        p.mul_(0.9).add_(q, alpha=0.1)\nreturn kept(x),",
)
TWO_LOSSES = """
opt.zero_grad()
h = m(x)
first, second = mse_loss(h, y), h.abs().mean()
first.backward(retain_graph=True)
second.backward()
opt.step()
return first.detach(), second.detach()
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("body", "before"),
    [
        (
            GAN,
            "critic = nn.Linear(4, 2)\nother = torch.optim.SGD(critic.parameters(), 0.1)\n"
            "more = [*critic.parameters()]",
        ),
        (
            AVERAGE,
            "import copy\nkept = copy.deepcopy(m).requires_grad_(False)\n"
            "more = [*kept.parameters()]",
        ),
        (TWO_LOSSES, ""),
    ],
)
def test_steps_of_several_models_or_losses(body: str, before: str, backend: str) -> None:
    """Parameters are written before they are used again, which no backward pass is left for."""
    assert whole(body, before=before, backend=backend) == (0, "")


SCHEDULER = "schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [SCHEDULER, f"{SCHEDULER}\nsecond = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)"],
)
def test_a_scheduler_wraps_the_step(before: str) -> None:
    after = "schedule.step()"
    assert whole(STEP, before=before, changes={1: after, 2: after, 3: after}) == (0, "")
    told = "told.append(hasattr(opt, '_opt_called') and opt._opt_called); schedule.step()"
    assert whole(STEP, before=before, changes={1: told, 3: told}) == (0, "")


OWN = """
def scaled(step):
    def taken(self, closure=None):
        notes.append(factor)
        return step(self, factor)
    def scale(by):
        nonlocal factor
        factor = by
    notes, factor, taken.scale = told, 1.0, scale
    return taken

class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    {decorator}
    def step(self, factor=1.0):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].mul_(0.9).add_(p.grad)
                p.data.add_(state["mean"], alpha=-group["lr"] * (factor or 1.0))

opt = Own(m.parameters())
"""
OWN_DECORATORS = {
    "@torch.no_grad()": "",
    "@torch.no_grad()\n    @scaled": "",
    "@scaled": "Own.step.__wrapped__.scale(0.5)",
    "@torch.enable_grad()": "",
    "@torch._dynamo.dont_skip_tracing\n    @torch.inference_mode(False)": "",
}


@pytest.mark.parametrize("decorator", OWN_DECORATORS)
def test_a_scheduler_wraps_the_decorated_step_of_an_own_optimizer(decorator: str) -> None:
    before = f"{OWN.replace('{decorator}', decorator)}\n{SCHEDULER}"
    after = "schedule.step()"
    changes = {1: after, 2: f"{after}\n{OWN_DECORATORS[decorator]}", 3: after}
    assert whole(STEP, before=before, changes=changes) == (0, "")


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("func", "lambda self: told.append('another')"),
        ("opt_ref", "__import__('weakref').ref(second)"),
    ],
)
def test_what_a_scheduler_has_wrapped_is_guarded(cell: str, value: str) -> None:
    change = f"where = opt.step.__code__.co_freevars.index('{cell}')\n"
    change += f"opt.step.__closure__[where].cell_contents = {value}"
    before = f"{SCHEDULER}\nsecond = torch.optim.SGD(m.parameters(), 0.5)"
    left, _ = whole(STEP, before=before, changes={2: change})
    assert bool(left) is (cell == "opt_ref")


def test_a_scheduler_of_another_optimizer() -> None:
    before = f"first = opt\n{SCHEDULER}\nopt = torch.optim.SGD(m.parameters(), 0.5)\n"
    left, reasons = whole(STEP, before=f"{before}opt.step = first.step")
    assert left
    assert "call-not-traced" in reasons


def test_a_step_is_whole_after_one_that_was_compiled_alone() -> None:
    """Dynamo marks the parameters of a step that it compiles alone, to hold them in its graphs."""
    before = "alone = torch.compile(lambda: opt.step(), backend='eager')"
    changes = {0: "mse_loss(m(torch.ones(6, 4)), torch.ones(6, 2)).backward(); alone()"}
    left, reasons = whole(STEP, before=before, changes=changes)
    assert (left, reasons) == (3, "break-requested")  # those of the step alone


def test_a_step_that_raises_leaves_what_it_had_done() -> None:
    body = STEP.replace("opt.step()", "if loss > 1.2:\n    raise ValueError('large')\nopt.step()")
    assert whole(body) == (0, "")


def test_a_step_with_more_parameters_than_are_copied() -> None:
    """Norms raise for no values, and what torch does in `with` blocks handles nothing."""
    body = (
        "opt.zero_grad()\nwith torch.autocast('cpu', enabled=False):\n    loss = mse_loss(m(x), y)\n"
        "loss.backward()\nnn.utils.clip_grad_norm_(m.parameters(), 0.1)\nopt.step()\n"
        "return loss.detach()"
    )
    with gm.config.patch(snapshot_limit=8):
        assert whole(body) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "before"),
    [
        (BACKWARD, "m[0].weight.register_hook(lambda g: g * 2)"),
        (BACKWARD, "m[0].weight.register_post_accumulate_grad_hook(lambda p: told.append(1))"),
        (
            BACKWARD,
            "w = m[0].weight\nnode = w.view_as(w).grad_fn.next_functions[0][0]\n"
            "node.register_hook(lambda *a: told.append(1))",
        ),
        (
            BACKWARD,
            "w = m[0].weight\nnode = w.view_as(w).grad_fn.next_functions[0][0]\n"
            "node.register_prehook(lambda *a: told.append(1))",
        ),
        (BACKWARD, "m[0].register_full_backward_hook(lambda m, a, b: told.append(1))"),
        (BACKWARD.replace("m(x)", "m(x * w)"), "w = torch.ones(4, requires_grad=True).exp()"),
        (
            BACKWARD.replace("x)", "x + nn.functional.embedding(rows, more[0], sparse=True))"),
            "more = [nn.Parameter(torch.ones(6, 4))]\nrows = torch.arange(6)",
        ),
        (BACKWARD.replace("backward()", "backward(gradient=torch.ones(()))"), ""),
        (BACKWARD.replace("backward()", "backward(retain_graph=True)")[:-9], ""),
        ("loss = (m[2].bias + 1).sum()\nloss.backward()\nreturn loss", ""),
        ("h = m(x)\nh.sum().backward()\nreturn h, h.sum()", ""),
        (BACKWARD.replace("loss.backward()", "loss.backward()\nloss.backward()"), ""),
        (BACKWARD.replace("loss.backward()", "with torch.no_grad(): loss.backward()"), ""),
    ],
)
def test_a_pass_that_could_be_told_is_left(body: str, before: str) -> None:
    left, reasons = whole(body, before=before)
    assert left
    assert "backward-noticed" in reasons.split()


# A graph or the program holds the nodes that add to gradients, and nobody waits for them.
HELD = "w = m[0].weight\nnode = w.view_as(w).grad_fn.next_functions[0][0]\n"
MEMOISED = """
memo.clear()
opt.zero_grad()
memo.append(m(x))
loss = mse_loss(memo[0], y)
loss.backward()
opt.step()
return loss.detach()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "before"),
    [
        (STEP, HELD),
        (STEP, HELD + "node.register_hook(lambda *a: told.append(1)).remove()"),
        (STEP, "kept = [m(torch.ones(1, 4)).sum()]"),
        (MEMOISED, "memo = []"),
        (MEMOISED, "memo = [m(torch.ones(1, 4))]"),
    ],
)
def test_a_node_that_is_held_may_have_no_hooks(body: str, before: str) -> None:
    assert whole(body, before=before) == (0, "")


@pytest.mark.slow
def test_a_node_that_is_held_keeps_the_hooks_it_has() -> None:
    """Looking for hooks leaves those that there are, in their order."""
    before = HELD + (
        "first = node.register_hook(lambda *a: told.append(1))\n"
        "last = node.register_hook(lambda *a: told.append(2))"
    )
    left, reasons = whole(BACKWARD, before=before, changes={2: "first.remove()"})
    assert left
    assert "backward-noticed" in reasons.split()


BY_ALIAS = """
opt.zero_grad({})
loss = mse_loss(m(x), y)
loss.backward()
opt.step()
for p in m.parameters():
    p.{}.clamp_(-0.3, 0.3)
return loss.detach()
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("body", "before"),
    [
        (
            f"more[0].zero_()\n{BACKWARD}",
            "more = [torch.zeros(58)]\nplace = 0\nfor p in m.parameters():\n"
            "    p.grad = more[0][place:place + p.numel()].view_as(p)\n    place += p.numel()",
        ),
        (
            "z = x.clone().requires_grad_()\nm(z).sum().backward()\n"
            "z.requires_grad_(False)\nreturn z",
            "",
        ),
        ("h = m(x)\nh.square().sum().backward()\nreturn h.unbind(1)", ""),
        ("loss = m(x).sum()\nloss.register_hook(print)\nloss.backward()\nreturn loss", ""),
    ],
)
def test_a_pass_that_a_graph_would_change_is_left(body: str, before: str, backend: str) -> None:
    """AOTAutograd forgets what the tensor is."""
    left, reasons = whole(body, before=before, backend=backend)
    assert left
    assert "backward-noticed" in reasons.split()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("cleared", ["", "set_to_none=False"])
@pytest.mark.parametrize("alias", ["data", "detach()", "grad.data"])
def test_writes_by_way_of_another_tensor(alias: str, cleared: str, backend: str) -> None:
    """Up to torch 2.14 AOTAutograd alone takes a gradient for a parameter."""
    assert whole(BY_ALIAS.format(cleared, alias), backend=backend) == (0, "")


OWN_OPTIMIZER = """
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad, known = p.grad.data.float(), self.state[p]
                if not known:
                    known["mean"], known["square"] = torch.zeros_like(p), torch.zeros_like(p)
                known["mean"] = known["mean"].type_as(grad)
                known["mean"].mul_(0.9).add_(grad, alpha=0.1)
                known["square"].mul_(0.99).addcmul_(grad, grad, value=0.01)
                scale = known["square"].sqrt().add_(1e-8)
                p.data.addcdiv_(known["mean"], scale, value=-group["lr"])

opt = Own(m.parameters())
"""


@pytest.mark.parametrize("cleared", ["", "set_to_none=False"])
def test_an_optimizer_that_writes_to_data_is_exact(
    cleared: str,
) -> None:
    """It keeps what `type_as` gives: the very tensor that it changes in the next step."""
    body, seen = STEP.replace("zero_grad()", f"zero_grad({cleared})"), []
    state = session.new_state(mends=True)
    for compiles in (False, True):
        made = program(body, before=OWN_OPTIMIZER)
        with session.mending_by(state):
            f = torch.compile(made["f"], backend="aot_eager") if compiles else made["f"]
            seen.append(lived(made, f, {}))
    assert _agrees(seen[1], seen[0], 0)
    assert state.report_now().compiled.breaks == 0


def test_an_average_may_read_what_is_written() -> None:
    body = AVERAGE.replace("(q, alpha", "(q.data, alpha")
    before = "import copy\nkept = copy.deepcopy(m).requires_grad_(False)"
    assert whole(body, before=before, backend="aot_eager") == (0, "")


@pytest.mark.parametrize(
    "context",
    [
        "torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2)",
        "torch.autograd.set_detect_anomaly(True)",
    ],
)
def test_who_looks_at_passes_of_a_call(context: str) -> None:
    """The original code runs then; gradients that are no numbers raise."""
    seen = []
    for compiles in (False, True):
        torch._dynamo.reset()
        made = program(STEP.replace("mse_loss(m(x), y)", "mse_loss(m(x), y).sqrt()"))
        state = session.new_state(mends=compiles)
        with session.mending_by(state):
            f = torch.compile(made["f"], backend="aot_eager") if compiles else made["f"]
            shown = lived(made, f, {}, 2)
            with eval(context, vars(torch) | {"torch": torch}):
                shown += lived(made, f, {}, 2)
        seen.append(shown)
    assert _agrees(seen[1], seen[0], 1e-6)
    assert state.report_now().compiled.breaks == 0


def test_another_method_wraps_the_step_later() -> None:
    before = f"{SCHEDULER}\nother = nn.Linear(4, 2)\nmore = [*other.parameters()]\n"
    before += "second = torch.optim.SGD(more, 0.1)\n"
    before += "wrapped = torch.optim.lr_scheduler.StepLR(second, 2)"
    body = STEP.replace("(m(x), y)", "(m(x) + other(x), y)")
    left, _ = whole(body, before=before, changes={2: "opt.step = second.step"})
    assert left


@pytest.mark.parametrize(
    ("body", "before", "reason"),
    [
        (BACKWARD, "for p in m.parameters(): p.requires_grad_(False)", "call-not-traced"),
        ("loss = m(x)\nloss.backward()\nreturn loss.detach()", "", ""),
        (
            "h = m[0](x)\nh.retain_grad()\nm[2](h).sum().backward()\nreturn h.grad",
            "",
            "unhandled-instruction",
        ),
    ],
)
def test_other_passes_are_left(body: str, before: str, reason: str) -> None:
    """Nothing requires a gradient, or it is none of a number; Dynamo does not trace the third."""
    assert whole(body, before=before)[1] == reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "handle = m[2].bias.register_hook(lambda g: (told.append('hook'), g * 3)[1])",
        "m[0].weight.requires_grad_(False)",
        "m[0].weight.grad = torch.ones(8, 4)",
        "opt.load_state_dict(opt.state_dict())",
        "opt.param_groups[0]['lr'] = 0.5",
        "m[2].bias = nn.Parameter(torch.ones(2))\nopt.add_param_group({'params': [m[2].bias]})",
    ],
)
def test_what_changes_between_steps(change: str) -> None:
    left, _ = whole(
        STEP, changes={2: change, 4: "getattr(globals().get('handle'), 'remove', int)()"}
    )
    assert left == 0


@pytest.mark.parametrize(
    ("optimizer", "graphs"),
    [
        ("SGD(m.parameters(), 0.1)", 1),
        (SGD, 2),
        ("AdamW(m.parameters(), 0.01)", 2),
        ("Adagrad(m.parameters(), 0.01)", 1),
    ],
)
def test_a_step_is_compiled_once_for_each_state_of_the_optimizer(
    optimizer: str, graphs: int
) -> None:
    """Without state and with it; the gradients of the call before are not asked for."""
    made = program(STEP, optimizer)
    state = session.new_state(mends=True)
    torch._dynamo.reset()
    with session.mending_by(state):
        lived(made, torch.compile(made["f"], backend="eager"), {}, 20)
    assert state.report_now().compiled.graphs == graphs


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "told.append(len(opt.state))\nopt.step()",
        "opt.param_groups[0]['lr'] = 0.5\nopt.step()",
        "if loss > 0:\n    raise ValueError('large')\nopt.step()",
    ],
)
@pytest.mark.parametrize("optimizer", ["Adam(m.parameters(), 0.01)", "Rprop(m.parameters(), 0.01)"])
def test_state_is_made_where_the_step_makes_it(optimizer: str, body: str) -> None:
    before = "spare = nn.Parameter(torch.ones(2))\nopt.add_param_group({'params': [spare]})\n"
    before += "more = [spare]"
    exact = optimizer.startswith("Adam")
    assert whole(STEP.replace("opt.step()", body), optimizer, before, exact=exact)[1] == ""


class Own(torch.optim.SGD):
    """An optimizer that says what is called."""

    def __init__(self, model: nn.Module, said: list[str]) -> None:
        super().__init__(model.parameters(), 0.1)
        self.said = said
        self.steps = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.said.append("zero")
        super().zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        self.said.append("step")
        self.steps += 1
        return super().step(closure)


def test_an_optimizer_of_the_programs() -> None:
    said: dict[bool, list[str]] = {}
    weights = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model, said[compiles] = nn.Linear(4, 2), []
        optimizer = Own(model, said[compiles])

        def step(x: torch.Tensor, model: Any = model, optimizer: Any = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        torch._dynamo.reset()
        with session.mending_by(session.new_state(mends=True)):
            for x, _ in calls(4):
                (torch.compile(step, backend="eager") if compiles else step)(x)
        weights.append(model.weight)
        assert optimizer.steps == 4
    assert said[True] == said[False] == ["zero", "step"] * 4
    assert torch.equal(*weights)


@pytest.mark.parametrize("prints", [True, False])
def test_a_parameter_that_the_optimizer_does_not_know(prints: bool) -> None:
    """Stock guards on no object that a model and an optimizer share."""

    def seen(mends: bool) -> list[Any]:
        known = program('print("begun")\n' * prints + STEP)
        first, found = known["m"][0].weight, list[Any]()
        state = session.new_state(mends=mends)
        torch._dynamo.reset()
        with session.mending_by(state):
            step = torch.compile(known["f"], backend="eager") if mends else known["f"]
            for number, call in enumerate(calls()):
                if number == 2:
                    known["m"][0].weight = nn.Parameter(torch.ones(8, 4))
                found.append(step(*call))
                found += [p.detach().clone() for p in (first, *known["m"].parameters())]
                found += [
                    p.grad is None or p.grad.clone() for p in (first, *known["m"].parameters())
                ]
        assert mends is any(mend.strategy == "train" for mend in state.report.mends)
        return found

    torch.testing.assert_close(seen(True), seen(False), rtol=0, atol=0)


@pytest.mark.parametrize(
    "check",
    [
        "if torch.isnan(loss):\n    return None",
        "if not torch.isfinite(loss):\n    return loss.detach(), 1",
        "if loss > 9:\n    raise ValueError('large')",
    ],
)
def test_a_step_that_is_left_out_for_some_losses(check: str) -> None:
    """The backward pass is in an arm of the branch, and the branch is speculated on then."""
    body = STEP.replace("loss.backward()", f"{check}\nloss.backward()")
    assert whole(body) == (0, "")
    far = {2: "m[0].weight.data *= float('nan')", 3: "m[0].weight.data.fill_(0.5)"}
    left, reasons = whole(body, changes=far)
    assert (left, reasons) == (0, "")


WITH_RATES = STEP.replace(
    "return", "for group in opt.param_groups:\n    group['lr'] = group['lr'] * 0.9\nreturn"
)


@pytest.mark.parametrize(
    ("optimizer", "holds"), [(SGD, False), ("Adam(m.parameters(), 0.1)", True)], ids=["SGD", "Adam"]
)
@pytest.mark.parametrize("body", [STEP, WITH_RATES], ids=["kept", "set"])
def test_a_step_leaves_its_groups_as_they_were(body: str, optimizer: str, holds: bool) -> None:
    made = program(body, optimizer)
    with gm.enabled():
        torch._dynamo.reset()
        f = torch.compile(made["f"], backend="eager")
        for call in calls(3):
            f(*call)
    (group,) = made["opt"].param_groups
    assert ("capturable" in group, group.get("capturable", False)) == (holds, False)
