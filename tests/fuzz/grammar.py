"""The language of the generated programs, as data: what an expression may be (and `simple.py`: a simple statement).

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
    *("numbers", "aliases", "unbound", "shared", "lengths", "many calls"),
)
"""Groups that every fourth program has: they end programs early or break graphs everywhere. The last four
have no forms: programs that read variables which may have no value, calls with `x` a row of `y`, calls with
tensors of other lengths, and more calls. Those of `aliases` are in `aliases.py`."""

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
        "numbers": (
            "{whole}.sum().item()",
            "{vector}.sum().item()",
            "{vector}[0].item()",
            "float({number})",
            "abs({number})",
            "-{number}",
            "{number} + {number}",
            "{number_name} - {number_name}",
            "{number} * {number}",
            "{number} * 0.1",
            "{number} / 2",
            "{number} // 2",
            "{number} % 3",
            "int({number})",
            "round({number})",
            "min({number}, {number})",
            "max({number}, {number})",
            "math.inf",
        ),
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
        "numbers": (
            "{number_name} != {number_name}",
            "{number_name} - {number_name} == 0",
            "{number} < {number}",
            "{number} == {number}",
            "abs({number}) < math.inf",
            "math.isnan({number})",
            "{number}",
        ),
        "effects": (
            "told({test})",
            "{test} and told({test}, 'second')",
            "{test} or told({test}, 'second')",
            "Truth({test})",
            "{test} and Truth({test})",
            "Truth({test}) or told({test})",
        ),
        "sizes": (
            "{vector}[{vector} > 0].numel() == 0",
            "{whole}[0].item() in (1, 2)",
            "len({whole}.unique()) > 1",
        ),
        "random": (
            "torch.rand(()) < 0.5",
            "torch.rand(()) < 0.0",
            "torch.zeros(2).uniform_(0, 1)[0] < 0.5",
            "torch.randint(2, ()) == 0",
        ),
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
            "{matrix} if {test} or {test} else {vector}",
            "[{vector}] if not ({test} or {test}) else {number}",
            "{vector} if {test} and {test} else {matrix}",
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
