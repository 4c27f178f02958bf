"""Write docs/breaks.md: what becomes of each of Dynamo's break types.

python docs/make_breaks.py [REGISTRY.json ...]

The registries are torch/_dynamo/graph_break_registry.json of the supported versions of torch;
without an argument, the installed one's.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import torch

from graphmend_bc.catalog.unsupported_breaks import LEFT, PARTLY
from graphmend_bc.contrib.load import extensions
from graphmend_bc.rules.registry import BUILT_IN
from graphmend_bc.rules.rule import Rule

PAGE = Path(__file__).with_name("breaks.md")
INSTALLED = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"

_HEAD = """# Dynamo's break types, and what becomes of them

Made by `python docs/make_breaks.py`; do not edit it by hand.

## Rules

A rule knows some break types and says how the instructions at such a break are rewritten. Whether
the result is exact is proved later, see [semantics.md](semantics.md). Rules are tried by rising
cost. `graphmend_bc.config.rules_off` switches rules off by name, `config.strategies` by strategy.
`graphmend_bc.register_rule` adds one of yours ([writing-a-rule.md](writing-a-rule.md)):

```python
import zlib

import torch
from torch._dynamo.variables.constant import ConstantVariable

import graphmend_bc as gm
from graphmend_bc.dynamo.calls.known_calls import known_call


def matches(site: gm.BreakSite):  # a break at what looks like a call of zlib.crc32
    return {site.offset: gm.MarkCallee()} if site.callee == "crc32" else None


def checksum(callee, tx, function, args, kwargs):  # the call's value; None: as without the rule
    if function is not zlib.crc32 or kwargs or not all(a.is_python_constant() for a in args):
        return None
    return ConstantVariable.create(zlib.crc32(*(a.as_python_constant() for a in args)))


handler = known_call("polyfill", checksum)
gm.register_rule(gm.Rule("crc32", "polyfill", 4, matches, handler=handler))


@torch.compile(backend="eager", fullgraph=True)  # stock Dynamo cannot trace zlib.crc32
def salted(x):
    return x + zlib.crc32(b"salt")


with gm.enabled():
    salted(torch.zeros(2))
    print(gm.report().mends)
```

A rewrite has one of five shapes (`graphmend_bc/rewriting/plan.py`):

* lift a branch or a loop into functions;
* ask a truth value by name;
* mark a callee;
* mark operands, or call a primitive in place of an instruction;
* outline the whole function, or the `with` block at its end.

For the last three the rule's `handler` says what a trace makes of the mark. It is a function of
yours (`graphmend_bc/dynamo/calls/markers.py` says what it gets), or the name of a built-in rule.

A built-in rule is one of the `RULES` of a file in `graphmend_bc/rules/`; a new file is found there
without being named anywhere.
"""


HOMES: dict[str, str] = {rule.name: ext.name for ext in extensions() for rule in ext.rules}
"""From each rule of `contrib/` to its extension."""

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (*BUILT_IN, *(rule for ext in extensions() for rule in ext.rules)),
        key=lambda rule: rule.cost,
    )
)


def gb_types(registry: Path) -> dict[str, str]:
    """From each break type of a registry to its id."""
    entries = json.loads(registry.read_text(encoding="utf-8"))
    return {entry[0]["Gb_type"]: gb_id for gb_id, entry in entries.items()}


def outcome(gb_type: str) -> str:
    """The table's last cell for a break type."""
    rules = [rule for rule in RULES if gb_type in rule.gb_types]
    if rules:
        names = ", ".join(f"`{rule.name}`" for rule in rules)
        return f"{names}; else declined: {PARTLY[gb_type]}" if gb_type in PARTLY else names
    return f"declined: {LEFT[gb_type]}" if gb_type in LEFT else "not seen"


def row(gb_type: str, gb_id: str) -> str:
    """The table's row for a break type."""
    name = gb_type.replace("|", "\\|")
    return f"| {gb_id} | {name} | {outcome(gb_type)} |"


def page(registries: Iterable[Path]) -> str:
    """The whole page."""
    known: dict[str, str] = {}
    for registry in registries:
        known = gb_types(registry) | known
    rules = [
        f"| `{rule.name}` | `{rule.strategy}` | {rule.cost} | {_about(rule)} |" for rule in RULES
    ]
    ordered = sorted(known, key=lambda gb_type: (outcome(gb_type) == "not seen", known[gb_type]))
    rows = [row(gb_type, known[gb_type]) for gb_type in ordered]
    return "\n".join(
        [
            _HEAD,
            "| rule | strategy | cost | what it does |",
            "|---|---|---|---|",
            *rules,
            "\n## Break types\n",
            "| id | type | what becomes of it |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _about(rule: Rule) -> str:
    """The first line of what is said of a rule: below its name, else at the top of its file."""
    module = sys.modules[rule.matches.__module__]
    first = (_said_below(module, rule) or module.__doc__ or "").split("\n")[0]
    return f"{first} (contrib: {HOMES[rule.name]})" if rule.name in HOMES else first


def _said_below(module: ModuleType, rule: Rule) -> str:
    """The text below the assignment of a rule; empty if there is none."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if getattr(module, name) is rule:
                return text
    return ""


if __name__ == "__main__":
    PAGE.write_text(page([Path(a) for a in sys.argv[1:]] or [INSTALLED]), encoding="utf-8")
