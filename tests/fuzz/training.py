"""More surroundings of programs: backward passes that they make, and activation checkpoints."""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import DOUBLE, Surrounding, quietly
from tests.releases import since

_SMALL = (
    "class Small(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.weight = nn.Parameter(torch.tensor([0.5, -0.5, 1.0]))\n"
    "        self.bias = nn.Parameter(torch.zeros(3))\n\n"
    "    def forward(self, x):\n        {}return x * self.weight + self.bias\n\nsmall = Small()\n"
    "optimizer = torch.optim.{}(small.parameters(), lr=0.1{})\n"
)
_RATES = (
    "torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)",
    "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)",
    "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: print('rate', epoch, small.bias.grad is None) or 0.9)",
)
_BRANCH = "if x.sum() > 0:\n            x = x.relu() + 1\n        "
_KEPT = "kept = optimizer.state"

STEPS: Final = Surrounding(
    definitions=tuple(
        f"{model}\nschedule = {rate}"
        for model, rate in (
            (_SMALL.format("", "SGD", ""), _RATES[0]),
            (_SMALL.format("", "SGD", ", momentum=0.9") + _KEPT, _RATES[1]),
            (_SMALL.format(_BRANCH, "SGD", ", weight_decay=0.1"), _RATES[2]),
            (_SMALL.format("", "Adam", ""), _RATES[1]),
            (_SMALL.format(_BRANCH, "Adam", ""), _RATES[0]),
            (_SMALL.format("print('in')\n        ", "SGD", ", momentum=0.5") + _KEPT, _RATES[2]),
        )
    ),
    vector=("small({vector})", "small.weight.detach() * {vector}", "small({vector}).detach()"),
    number=("optimizer.param_groups[0]['lr']",),
    test=("small.weight.grad is None", "small({vector}).sum() > 0"),
    statements=(
        "optimizer.zero_grad()\n<i> = (small({vector}) ** 2).sum()\n<i>.backward()\noptimizer.step()",
        "<i> = (small({vector}.detach()) - {vector}.detach()).abs().sum()\n<i>.backward()\noptimizer.step()\n"
        "optimizer.zero_grad(set_to_none=False)",
        "optimizer.zero_grad()\n<i> = small({vector}.detach()).sum()\nif <i> > 0:\n    <i>.backward()\n    optimizer.step()",
        "<i> = small({vector}.detach()).sum()\n<i>.backward(retain_graph=True)\n<i>.backward()\noptimizer.step()",
        "(small({vector}.detach()) * {number}).mean().backward()\n"
        "nn.utils.clip_grad_norm_(small.parameters(), 1.0)\noptimizer.step()",
        "small.weight.detach().sum()\nsmall({vector}.detach()).relu().sum().backward()\nwith torch.no_grad():\n"
        "    for <i> in small.parameters():\n        <i>.sub_(0.1 * <i>.grad)\n        <i>.grad = None",
        "optimizer.zero_grad()\nfor <i> in range(2):\n    small({vector}.detach() + <i>).sum().backward()\noptimizer.step()",
        "if small.weight.grad is not None:\n    {vector_old} = {vector} + small.weight.grad\n    <block>",
        "with torch.no_grad():\n    {vector_old} = small({vector})\n    <block>",
        "optimizer.zero_grad()",
        "optimizer.step()",
        "optimizer.zero_grad()\n<i> = small({vector}.detach()).pow(2).sum()\nif <i> > 40:\n    return <i>.detach()\n"
        "<i>.backward()\noptimizer.step()\nschedule.step()",
        "<i> = (small({vector}.detach()) ** 2).mean()\n<i>.backward()\noptimizer.step()\nschedule.step()\n"
        "optimizer.zero_grad()\nreturn <i>.detach()",
        "schedule.step()\nreturn {vector}.detach()",
        "if schedule.get_last_lr()[0] > 0.05:\n    <block>",
    ),
    changes={
        "rate of learning changes": ("optimizer.param_groups[0]['lr'] = 0.01",),
        "gradients go": ("optimizer.zero_grad()", "small.weight.grad = None"),
        "gradient comes": ("small.weight.grad = torch.ones(3)", "small.bias.grad = small.weight.grad"),
        "parameter is frozen": ("small.bias.requires_grad_(False)",),
        "parameter is trained": ("small.bias.requires_grad_(True)",),
        "parameter is replaced": (f"small.weight = nn.Parameter({DOUBLE})",),
        "gradient is watched": (
            quietly("small.weight.register_hook(lambda grad: grad * 2)", "RuntimeError"),
        ),
        "parameters are shared": ("small.bias = small.weight",),
    },
)  # fmt: skip

_PART = (
    "from torch.utils.checkpoint import checkpoint\n\nscale = torch.ones(3, requires_grad=True)\n"
    "counted = torch.zeros(3)\n\n"
    "def part(x):\n    {}\n"
)

CHECKPOINTS: Final = Surrounding(
    definitions=tuple(
        _PART.format(body)
        for body in (
            "return (x * scale).sin()",
            "if x.sum() > 0:\n        return (x * scale).sin()\n    return x.cos() * 2",
            "return F.dropout(x * scale, 0.5).exp()",
            "print('part', x.detach())\n    return x * scale * x",
            "counted.add_(1)\n    return pow(x, 2) * scale if x.sum() > 1 else x * counted",
            "x = x * scale\n    if x.sum().item() > 1:\n        raise ValueError('large')\n    return x.exp()",
        )
    ),
    vector=(
        "checkpoint(part, {vector}, use_reentrant=False)",
        "checkpoint(lambda v: v * part(v), {vector}, use_reentrant=False)",
        "checkpoint(part, {vector}, use_reentrant=False, preserve_rng_state=False)",
        "part({vector})",
    ),
    test=("checkpoint(part, {vector}, use_reentrant=False).sum() > 0",),
    statements=(
        "if {test}:\n    {vector_old} = checkpoint(part, {vector}, use_reentrant=False)\n    <block>",
        "<i> = {vector}\n{vector_old} = checkpoint(lambda: part(<i>) + <i>, use_reentrant=False)",
        "try:\n    {vector_old} = checkpoint(part, {vector}, use_reentrant=False)\nexcept ValueError:\n    <block>",
    ),
    changes={
        "part is another": ("part = torch.cos", "part = (lambda old: lambda x: old(x) * 2)(part)"),
        "scale is written": ("scale.data.mul_(2)",),
        "scale is frozen": ("scale.requires_grad_(False)",),
    },
)

_FORCES: Final = "def forces(v):\n    v.requires_grad_()\n    return torch.autograd.grad((v * v.cos()).sum(), v)[0]\n\n"

DERIVATIVES: Final = Surrounding(
    definitions=(
        f"{_FORCES}weight = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)\n\ndef cubed(v):\n    return (v ** 3).sum()",
        f"{_FORCES}weight = torch.ones(3, requires_grad=True)\n\ndef cubed(v):\n    if v.sum() > 0:\n        return (v ** 2).sum()\n"
        "    return (v * v.detach()).sum()",
    ),
    vector=(
        "torch.func.grad(cubed)({vector}.detach())",
        "torch.autograd.grad((weight * {vector}).sum(), weight)[0]",
        "torch.autograd.grad((weight * {vector}.detach()).pow(3).sum(), weight, create_graph=True)[0]",
        "torch.func.vjp(torch.sin, {vector}.detach())[1](weight.detach())[0]",
        "{vector} * weight",
        "forces({vector})",
    ),
    statements=(
        "{vector_old}.requires_grad = True\n{vector_old} = {vector} * forces({vector_old})",
        "<i> = {vector}.detach().requires_grad_()\n(<i>_1,) = torch.autograd.grad(cubed(<i>), <i>, create_graph=True)\n"
        "(<i>_2,) = torch.autograd.grad(<i>_1.sum(), <i>)\n{vector_old} = {vector} + <i>_2",
        "<i> = torch.autograd.grad(cubed(weight * {vector}.detach()), weight, create_graph=True)[0]\n"
        "<i>.pow(2).sum().backward()\n{vector_old} = {vector} + weight.grad",
        "<i> = {vector}.detach().requires_grad_()\ncubed(<i>).backward()\n{vector_old} = {vector} * <i>.grad",
        "with torch.enable_grad():\n    <i> = {vector}.detach().requires_grad_()\n"
        "    {vector_old} = {vector} - torch.autograd.grad(cubed(<i>), <i>)[0]\n    <block>",
        "<i> = {vector}.detach().requires_grad_()\nif cubed(<i>) > 0:\n    print(torch.autograd.grad(cubed(<i>), <i>)[0])",
        "try:\n    {vector_old} = {vector} + torch.autograd.grad({vector}.detach().sum(), weight)[0]\n"
        "except RuntimeError:\n    <block>",
    ),
    changes={
        "weight is frozen": ("weight.requires_grad_(False)",),
        "weight is trained": ("weight.requires_grad_(True)",),
        "weight has a gradient": ("weight.grad = torch.ones(3)", "weight.grad = None"),
        "function is another": ("cubed = lambda v: (v * weight.detach()).sum()",),
    },
)

_FUNCTION = (
    "wide = torch.tensor([0.5, 1.0, -2.0], requires_grad=True)\n\n"
    "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, b, w):\n        {}\n"
    "        ctx.save_for_backward(a, r)\n        return r\n\n"
    "    @staticmethod\n    def backward(ctx, grad):\n        a, r = ctx.saved_tensors\n"
    "        return {}, grad * a * r.cos()\n"
)
_BOTH = "grad * 2, grad * 3"

FUNCTIONS: Final = Surrounding(
    definitions=tuple(
        _FUNCTION.format(body.replace("\n", "\n        "), back)
        for back in ("None, None", _BOTH)
        for body in (
            "r = a * b * w",
            "r = a * w\nif torch.equal(a, b):\n    r = r.cumsum(0)",
            "r = a * w\nif r.sum() > 0:\n    r = [r + b][0]\nelse:\n    r = [r * 2][0]",
            "r = (a + w).exp()\nif not torch.any(a > b):\n    r = r.flip(0)",
            "r = w * 2\nif a.max() > 2:\n    raise ValueError('large')\nr = r * b",
            "r = a * b\nif a is b:\n    r = r + w",
            "r = F.dropout(a, 0.5) * w\nif r.sum() > 1:\n    r = r.sin()",
        )
    ),
    vector=(
        "Own.apply({vector}, {vector}, wide)",
        "Own.apply({vector}.detach(), {vector}.detach(), wide)",
        "Own.apply({vector}, {vector}.clone(), wide).detach()",
        "{vector} * wide",
    ),
    test=("Own.apply({vector}, {vector}, wide).sum() > 0", "torch.equal({vector}, {vector})"),
    statements=(
        "<i> = {vector}.detach()\n{vector_old} = Own.apply(<i>, <i>, wide)",
        "<i> = {vector}.detach()\nif {test}:\n    {vector_old} = Own.apply(<i>, <i> + 0, wide)\n    <block>",
        "try:\n    {vector_old} = Own.apply({vector}, {vector}, wide)\nexcept ValueError:\n    <block>",
        "for <i> in range(2):\n    {vector_old} = Own.apply({vector}, {vector_old}, wide) + <i>",
        "{vector_old} = Own.apply({vector}, Own.apply({vector}, {vector}, wide).detach(), wide)",
    ),
    changes={
        "function is another": (
            "Own.backward = staticmethod(lambda ctx, grad: (None, None, grad))",
            "Own.forward = staticmethod(lambda ctx, a, b, w: (ctx.save_for_backward(a, w), a * w)[1])",
        ),
        "weight is written": ("wide.data.mul_(-1)",),
        "weight needs no gradient": ("wide.requires_grad_(False)",),
    },
)

SURROUNDINGS: Final[dict[str, Surrounding]] = {
    **({"steps": STEPS} if since(2, 13) else {}),  # before, torch traces no backward pass
    "checkpoints": CHECKPOINTS,
    "derivatives": DERIVATIVES,
    "functions": FUNCTIONS,
}
"""By the name of their group of forms."""
