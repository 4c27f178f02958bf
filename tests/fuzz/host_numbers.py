"""More surroundings of programs: numbers of tensors and of NumPy's arrays, and what they select."""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import Surrounding

ARRAYS: Final = Surrounding(
    name="array",
    definitions=tuple(
        f"import numpy\n\narray = {value}"
        for value in (
            "numpy.float64(2.0)",
            "numpy.float32([1.0, 2.0, 3.0])",
            "numpy.array([2])",
            "numpy.array(2)",
        )
    ),
    vector=(
        "{vector} * array",
        "torch.as_tensor(array) * {vector}",
        "{vector} + {vector}.detach().numpy().max().item()",
        "{vector} * int({whole}.numpy()[0])",
        "{vector} + {vector}[: {whole}.clamp(1, 2)[0].numpy().item()].sum()",
        "{vector} * len(numpy.flatnonzero({vector}.detach().numpy()))",
        "{vector} + torch.from_numpy({vector}.detach().numpy() * 2)",
    ),
    number=("int({whole}.numpy().sum())", "{vector}.detach().numpy()[0].item()", "float(numpy.ceil({number}))"),
    test=("{vector}.detach().numpy()[0] > 0", "({whole}.numpy() > 1).any()", "numpy.ndim(array) > 0"),
    statements=(
        "try:\n    {vector_old} = {vector} + torch.zeros({whole}[:1].numpy().clip(1, 3)).sum()\nexcept TypeError:\n    <block>",
        "try:\n    {vector_old} = {vector} + {vector}[{whole}.numpy()[:1] :].sum()\nexcept TypeError:\n    <block>",
        "try:\n    {vector_name}[1:] = {vector}.detach().numpy()[1:]\nexcept TypeError:\n    <block>",
        "{vector_name}[int({whole}.numpy()[0]) % 3] = {number}",
        "for <i> in range(int({whole}.clamp(0, 2).numpy()[0])):\n    {vector_old} = {vector} + <i>",
        "with contextlib.suppress(TypeError, RuntimeError):\n    {vector_old} = {vector} + torch.ones(array).sum()",
        "print({vector}.detach().numpy(), array)",
    ),
    changes={
        "array is a number": ("array = numpy.float64(3.0)", "array = numpy.int64(2)", "array = 2.0"),
        "array has elements": ("array = numpy.array([1.0, 2.0, 3.0])", "array = numpy.ones(1)"),
        "array has no dimension": ("array = numpy.array(3)", "array = numpy.array(0.5)"),
        "array is written": ("numpy.asarray(array).flags.writeable and numpy.asarray(array).fill(4)",),
    },
)  # fmt: skip

SLICES: Final = Surrounding(
    name="bounds",
    definitions=tuple(
        f"import types\n\nbounds = types.SimpleNamespace(start={start}, stop={stop})"
        for start, stop in (
            ("torch.tensor(0)", "torch.tensor(2)"),
            ("0", "torch.tensor(3)"),
            ("torch.tensor(1)", "None"),
            ("torch.tensor([1])", "torch.tensor(2, dtype=torch.int32)"),
        )
    ),
    vector=(
        "{vector} + {vector}[bounds.start : bounds.stop].sum()",
        "{vector} + {matrix}[:, : bounds.stop].sum()",
        "{vector} * len({vector}[: {whole}[0].clamp(0, 3)])",
        "torch.cat([{vector}[: bounds.start], {vector}[bounds.start :]])",
        "{vector} + {vector}[{whole}.clamp(-2, 2)[0] :].sum()",
        "{vector}.roll({whole}[1].item())",
        "{vector} + {vector}.narrow(0, {whole}.clamp(0, 1)[0], 2).sum()",
        "sum([{vector} for _ in range({whole}.clamp(0, 2)[0])], {vector})",
        "{vector} + {vector}[slice(bounds.start, bounds.stop)].sum()",
        "{vector} + {vector}.split([1, 2])[{whole}[0] % 2].sum()",
        "{vector} + {matrix}[bounds.start, bounds.start :].sum()",
    ),
    number=("int(bounds.start)", "len(range(3)[bounds.start : bounds.stop])"),
    test=("bounds.start > 0", "{vector}[bounds.start :].sum() > 0"),
    statements=(
        "{vector_name}[bounds.start : bounds.stop] = {number}",
        "{vector_name}[{whole}[0].clamp(0, 2) :].mul_(2)",
        "{matrix_name}[:, bounds.start : bounds.stop] += 1",
        "{matrix_name}[{whole}[0] % 2] = {vector}",
        "{vector_name}[bounds.start] = {vector}[0]",
        "for <i> in range(int(bounds.start), 3):\n    {vector_old} = {vector} + {vector}[<i>]",
        "{whole_name}.add_(1)\n{vector_old} = {vector} + {vector}[: {whole_name}[0] % 3].sum()",
        "bounds.start = {whole}[0] % 3",
        "try:\n    {vector_old} = {vector} + {vector}[bounds.stop]\nexcept IndexError:\n    <block>",
    ),
    changes={
        "bounds are written": tuple(
            f"if torch.is_tensor(bounds.{change[:5].rstrip('.')}):\n    bounds.{change}"
            for change in ("start.fill_(1)", "stop.fill_(1)", "stop.fill_(2)")
        ),
        "bounds are others": ("bounds.start = torch.tensor(-1)", "bounds.stop = torch.tensor(3)"),
        "bounds change type": (
            "bounds.stop = 2",
            "bounds.stop = None",
            "bounds.start = torch.tensor(1, dtype=torch.uint8)",
            "bounds.start = torch.tensor([2])",
            "bounds.start = torch.tensor(True)",
            "bounds.start = torch.tensor(1.0)",
        ),
    },
)

INFERENCE: Final = Surrounding(
    definitions=("rate = torch.ones(3)", "rate = torch.ones(3, requires_grad=True)"),
    vector=("{vector} * rate", "({vector} + 1 if torch.is_inference_mode_enabled() else {vector})"),
    test=("rate.is_inference()", "{vector}.is_inference()"),
    statements=(
        "with torch.inference_mode():\n    <i> = {vector}.sum().item()\n{vector_old} = {vector} * <i>",
        "with torch.inference_mode():\n    <i> = ({vector} * rate).sum()\n    if <i> > 0:\n        print(<i>)\n        <block>",
        "with torch.inference_mode():\n    {number_new} = int({whole}.sum())",
        "with torch.inference_mode():\n    <i> = {vector}.detach() * 2\n{vector_old} = {vector} + <i>.clone()",
        "with torch.inference_mode(False):\n    {vector_old} = {vector} * rate\n    <block>",
        "with torch.no_grad():\n    <i> = [v.item() for v in {vector}]\n{vector_old} = {vector} * max(<i>)",
    ),
    changes={
        "rate is of inference": ("with torch.inference_mode():\n    rate = torch.ones(3) * 2",),
        "rate is another": ("rate = torch.ones(3) * 3", "rate = 2.0"),
        "grad mode is off": ("torch.set_grad_enabled(False)",),
    },
)

CONSTANTS: Final = Surrounding(
    definitions=("import numpy\n\nlimit = 5\nrate = 0.5",),
    vector=(
        "{vector} + {vector}[: torch.arange(4)[2].item()].sum()",
        "sum([{vector} * k for k in (torch.arange(3) * 2).tolist() for _ in range(k)], {vector})",
        "{vector} * int(torch.arange(limit)[2])",
        "{vector} + sum({vector}[slice(k, k + 1)].sum() for k in numpy.arange(0, 3, 2))",
    ),
    number=(
        "float(numpy.linspace(0, 1, 5)[3])",
        "torch.full((2,), rate).sum().item()",
        "len([k for k in torch.zeros(limit).tolist() if k < 1])",
    ),
    test=(
        "torch.arange(limit).sum() > 9",
        "(torch.linspace(0, 1, 3) > rate).any()",
        "torch.zeros(3).sum() > 0 or {vector}.sum() > 0",
    ),
    statements=(
        "<i> = torch.zeros(3)\n<i>[0] = {number}\nif <i>.sum() > 0:\n    <block>",
        "<i> = torch.zeros(3)\nif <i>.add_(1).sum() > limit:\n    <block>\n<i>.copy_({vector}.detach())\nif <i>.sum() > 0:\n    {vector_old} = {vector} + <i>",
        "<i> = (({vector}.detach().abs() * 2).exp() + 1).clamp(0, 3).long()\n"
        "{vector_old} = sum([{vector}] * int(<i>[0]) + [{vector} * 2] * int(<i>[1]), {vector} * int(<i>[2]))",
        "<i> = (({vector}.detach().abs() * 2).exp() + 1).clamp(0, 3).long()\n"
        "{vector_old} = sum([{vector}] * int(<i>[0]), {vector})\n<i>[1] = 2\n{vector_old} = sum([{vector}] * int(<i>[1]), {vector})",
        "for <i> in torch.arange(3):\n    if <i> > 1:\n        <block>",
    ),
    changes={
        "limit is another": ("limit = 3", "limit = 7", "limit = 6"),
        "rate is another": ("rate = 0.2", "rate = 2.0", "rate = -0.0"),
    },
)  # fmt: skip
