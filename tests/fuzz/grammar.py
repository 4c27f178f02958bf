"""The language of the generated programs, as data: what an expression or a simple statement may be.

A form is program text with fields. `{vector}` stands for any expression of that kind, `{vector_name}` for
a variable of that kind which is bound, `{vector_new}` for a variable that the statement binds. Every
variable name belongs to one kind, so that programs run far enough to be interesting:

    vector   a float tensor of shape (3,)          x a b c
    matrix   a float tensor of shape (2, 3)        y m
    whole    an integer tensor of shape (3,)       z w
    number   a Python int, float or bool           k n
    thing    any Python value                      o p
    test     a condition (no variables)

Forms come in groups. A program has a few of the groups only ("swarm testing"): one that draws random
numbers everywhere would never show what happens without them.

Left out, because stock `torch.compile` differs from eager there, with or without mending:

* `assert t, "a constant message"` on a tensor (raises RuntimeError);
* `torch.manual_seed` (breaks the graph everywhere, and shows nothing else);
* tensors with a gradient as arguments of `print` and of exceptions (`grad_fn` has another name).

Adding a form here is all it takes to have it in the programs. The first forms of a group should be the
simplest, since failing programs are shrunk towards them.
"""

from __future__ import annotations

from typing import Final

NAMES: Final = {"vector": "xabc", "matrix": "ym", "whole": "zw", "number": "kn", "thing": "op"}

CONSTANTS: Final = ("1", "2", "0", "-1", "0.5", "3.0", "-2.5", "True", "1e4")

ROWS: Final = (
    "({vector} > {number}).nonzero()",
    "{vector}.nonzero()[:, 0]",
    "torch.where({vector})[0]",
)
"""Indices that loops go over."""

USES_OF_ROWS: Final = (
    "{vector_new} = {vector} + <row>",
    "{vector_new} = {vector} + {vector}[<row>].sum()",
    "{vector_name}[<row>] = {number}",
    "{number_new} = int(<row>)",
    "if <row> == {number}: continue",
    "print(<row>.item(), <row> + 1)",
    "<row>.add_(1)",
)
"""What they do with each."""

NORMED: Final = "net.norm(torch.stack([{vector}.float(), {vector} * 2.0]))[0]"
"""Batch normalisation updates its statistics whenever it runs."""

BASIC: Final = "basic"
"""The group that every program has."""

GROUPS: Final = (
    "views",
    "in place",
    "calls",
    "net",
    "objects",
    "closures",
    "comprehensions",
    "dtypes",
    "gradients",
    "effects",
)
"""Groups that every second program has."""

RARE_GROUPS: Final = (
    *("partial", "random", "host", "sizes", "raises", "identity"),
    *("unbound", "shared", "lengths"),
)
"""Groups that every fourth program has: they end programs early or break graphs everywhere. The last ones
have no forms: programs that read variables which may have no value, calls with `x` a row of `y`, and calls
with tensors of other lengths."""

EXPRESSIONS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "vector": {
        BASIC: (
            "{vector} + {vector}",
            "{vector} * {number}",
            "{vector} - {number}",
            "-{vector}",
            "{vector}.relu()",
            "{vector}.abs()",
            "{vector}.clamp(min={constant})",
            "{vector} * {vector}",
            "torch.maximum({vector}, {vector})",
            "{matrix}.sum(0)",
            "torch.where({vector} > 0, {vector}, {vector})",
            "{vector} if {test} else {vector}",
            "torch.zeros_like({vector})",
            "{vector}.clone()",
            "{vector}.cumsum(0)",
            "{whole} * {vector}",
        ),
        "views": (
            "{matrix}[0]",
            "{matrix}[1]",
            "{vector}.view(3)",
            "{vector}[:]",
            "{vector}.view(3, 1).squeeze(1)",
            "{matrix}.t()[:, 0]",
            "{vector}.flip(0)",
            "{vector}.expand(3)",
            "torch.cat([{vector}[:1], {vector}[1:]])",
        ),
        "partial": (
            "{vector} / {vector}",
            "{vector}.sqrt()",
            "{vector}.exp()",
            "1 / {vector}",
            "{vector}[{whole}]",
            "{vector}.gather(0, {whole}.clamp(0, 2))",
            "{vector}.log()",
        ),
        "random": ("torch.rand(3)", "F.dropout({vector})", "torch.randn_like({vector})"),
        "calls": ("helper({vector})", "helper({vector}, k={number})"),
        "net": (
            "net({vector})",
            "net.weight * {vector}",
            "net.seen + {vector}",
            "net.seen",
            "F.layer_norm({vector}, (3,), net.weight)",
            NORMED,
        ),
        "objects": ("box.value", "box.twice({vector})", "store.get('v', {vector})"),
        "comprehensions": (
            "sum([v * 2 for v in ({vector}, {vector})])",
            "sum([v if v.sum() > 0 else -v for v in {matrix}])",
            "torch.stack([{vector} for _ in range(2)]).sum(0)",
            "sum([v for v in ({vector}, {vector}) if v.sum() > 0], {vector})",
        ),
        "dtypes": ("{vector}.half()", "{vector}.double()", "{vector}.to(torch.bfloat16)"),
        "gradients": ("{vector}.detach()", "{vector}.detach() + {vector}"),
        "sizes": (
            "{vector} + {vector}[{vector} > 0].sum()",
            "{vector} * {vector}[{vector} > 1].numel()",
            "{vector}.index_fill(0, ({whole} > 0).nonzero()[:, 0], 2.0)",
            "{vector} * torch.unique({whole}).shape[0]",
            "sum([{vector}] * int({whole}.clamp(0, 2)[0]), {vector})",
            "sum([v for v in {vector}[{vector} > 0]], {vector})",
            "{matrix}[{whole}.argmax() % 2]",
            "{vector} + {vector}[{whole}[0].clamp(-1, 2)]",
            "{vector}.roll({whole}[0])",
        ),
    },
    "matrix": {
        BASIC: (
            "{matrix} + {vector}",
            "{matrix} * {number}",
            "torch.stack([{vector}, {vector}])",
            "{matrix}.relu()",
            "{matrix} if {test} else {matrix}",
        ),
        "views": ("{matrix}[:]", "{matrix}.t().t()", "{matrix}.flip(0)"),
        "partial": ("{matrix}.softmax(1)", "{matrix} / {vector}"),
        "random": ("torch.rand(2, 3)", "F.dropout({matrix}, 0.3)"),
    },
    "whole": {
        BASIC: (
            "{whole} + 1",
            "{whole} * {whole}",
            "({vector} > 0).long()",
            "{whole}.clamp(0, 2)",
            "{whole} if {test} else {whole}",
        ),
        "partial": ("{whole} // 2", "{whole} % {whole}", "6 // {whole}"),
        "dtypes": ("{whole}.int()", "({vector} > 0)"),
    },
    "number": {
        BASIC: (
            "{number} + 1",
            "{number} * {constant}",
            "{constant} if {test} else {constant}",
            "{vector}.dim()",
        ),
        "host": ("{vector}.sum().item()", "float({vector}[0])", "int({whole}.sum())"),
        "sizes": ("{vector}[{vector} > 0].numel()", "int({whole}[0])", "max({whole}.tolist())"),
        "objects": ("len(items)", "box.count"),
        "net": ("net.count",),
    },
    "test": {
        BASIC: (
            "{vector}.sum() > 0",
            "{vector}.sum() > {number}",
            "({vector} > {vector}).any()",
            "({vector} >= 0).all()",
            "not {test}",
            "{test} and {test}",
            "{test} or {test}",
            "{number} > 1",
            "torch.isnan({vector}).any()",
            "{vector}[0] < {vector}[1]",
            "{constant} < {vector}.mean() < {constant}",
            "{whole}.sum() > 2",
            "{whole}[0] == {whole}[2]",
            "{vector}[1]",
            "torch.isfinite({matrix}).all()",
            "bool({vector}.max() > 1)",
            "{vector}.sum() != {vector}.sum()",
        ),
        "host": (
            "{vector}.sum().item() > {constant}",
            "torch.equal({vector}, {vector})",
            "{whole}.tolist()[0] > 0",
            "torch.allclose({vector}, {vector})",
        ),
        "sizes": (
            "{vector}[{vector} > 0].numel() == 0",
            "{whole}[0].item() in (1, 2)",
            "len({whole}.unique()) > 1",
        ),
        "random": ("torch.rand(()) < 0.5", "torch.rand(()) < 0.0"),
        "identity": (
            "{vector} is {vector_name}",
            "{thing} is None",
            "isinstance({thing}, tuple)",
            "{thing} == 'text'",
            "{vector}.requires_grad",
        ),
    },
    "thing": {
        BASIC: (
            "'text'",
            "{number}",
            "{test}",
            "({vector}, {number})",
            "None if {test} else 'text'",
            "{thing} if {test} else {thing}",
        ),
        "objects": ("[{vector}, {vector}]", "{{'v': {vector}}}", "list(store)"),
        "host": ("{vector}.tolist()", "{vector}.sum().item()"),
        "sizes": (
            "{vector}[{vector} > 0]",
            "[n + 1 for n in {whole}.tolist()]",
            "({vector} > 0).nonzero().tolist()",
        ),
    },
}

SHOWN: Final = ("'here'", "{number}", "f'{{{number}}}'", "{whole}", "{vector}.detach()", "k")
"""What is printed, logged and put into exceptions: nothing that shows a `grad_fn`."""

STATEMENTS: Final[dict[str, tuple[str, ...]]] = {
    BASIC: (
        "{vector_new} = {vector}",
        "{matrix_new} = {matrix}",
        "{number_new} = {number}",
        "{whole_new} = {whole}",
        "{thing_new} = {thing}",
    ),
    "in place": (
        "{vector_name}.add_({number})",
        "{vector_name} += {vector}",
        "{vector_name}.mul_({vector})",
        "{vector_name}[0] = {number}",
        "{vector_name}[1:] *= {number}",
        "{matrix_name}[0].copy_({vector})",
        "{matrix_name}.clamp_(min=0)",
        "{matrix_name} -= {vector}",
        "{whole_name}.add_(1)",
        "{vector_name}.zero_()",
        "{vector_name}.view(3, 1).sub_(1)",
    ),
    "objects": (
        "items.append({vector})",
        "items.append({number})",
        "store['v'] = {vector}",
        "store['n'] = {number}",
        "box.value = {vector}",
        "box.count += 1",
        "store.pop('v', None)",
        "items.clear()",
    ),
    "net": (
        "net.count += 1",
        "net.last = {vector}.detach()",
        "net.seen.add_(1)",
        "net.seen = {vector}.detach().float()",
    ),
    "sizes": (
        "{matrix_name}[:, {whole}[0].clamp(0, 2)] = {number}",
        "{matrix_name}[{whole}.argmax() % 2].add_({vector})",
    ),
    "effects": (
        "print({shown})",
        "logger.info('at %s', {shown})",
        "logger.warning('seen')",
        "print({shown}, {shown}, sep='-', end=';')",
        "logger.debug({shown})",
    ),
    "raises": (
        "assert {test}, f'not {{k}}'",
        "if {test}: raise ValueError('low')",
        "if {test}: raise Trouble({shown}, {number})",
        "if {test}: raise KeyError({shown}) from ValueError('cause')",
    ),
}

VECTOR_ENDS: Final = {BASIC: ("return {vector}",)} | {"raises": ("raise ValueError('end')",)}
"""Statements that leave a function whose callers want a vector."""

ENDS: Final[dict[str, tuple[str, ...]]] = {
    BASIC: ("return {vector}", "return {vector}, {thing}", "return {thing}", "return"),
    "raises": (
        "raise ValueError('end')",
        "raise Trouble({shown})",
        "raise RuntimeError(f'{{k}}') from None",
    ),
}
"""Statements that leave the function."""
