"""Blocks of statements: the control flow of the generated programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.catalog import SURROUNDINGS
from tests.fuzz.expressions import expression, fill, form_of, rarely
from tests.fuzz.grammar import NAMES
from tests.fuzz.scope import Scope
from tests.fuzz.simple import ENDS, ROWS, STATEMENTS, USES_OF_ROWS, VECTOR_ENDS

Lines = list[str]


_LEAVING = ("return", "raise", "break", "continue")


@st.composite
def block(draw: Any, scope: Scope, most: int = 3, indent: str = "    ") -> Lines:
    """One to `most` statements, indented."""
    lines: Lines = draw(statement(scope))
    for _ in range(most - 1):
        if lines[-1].startswith(_LEAVING) or draw(st.integers(0, 3)) == 0:
            break
        lines += draw(statement(scope))
    return [indent + line for line in lines]


@st.composite
def statement(draw: Any, scope: Scope) -> Lines:
    """One statement, compound or simple."""
    if scope.depth > 0 and scope.room[0] > 0 and draw(st.booleans()):
        scope.room[0] -= 1
        make = draw(st.sampled_from(_COMPOUND))
        lines: Lines = draw(make(scope))
        return lines
    if scope.depth > 0 and (names := scope.surroundings()) and draw(st.booleans()):
        found: Lines = draw(reading(scope, draw(st.sampled_from(names))))
        return found
    if scope.in_loop and rarely(draw, 5):
        return [draw(st.sampled_from(["break", "continue"]))]
    if scope.in_handler and rarely(draw, 6):
        return ["raise"]
    if scope.may_leave and rarely(draw, 10):
        ends = VECTOR_ENDS if scope.gives_vector else ENDS
        return [fill(draw, scope, form_of(draw, scope, ends), 1)]
    return [fill(draw, scope, form_of(draw, scope, STATEMENTS), 2)]


BREAKS = (
    "print({shown})",
    "print({vector}.detach().sum())",
    "if {vector}.sum() > 0:\n    {vector_old} = {vector} * 2",
    "{number_new} = {vector}.sum().item()",
    "if {test}:\n    <block>",
    "{thing_new} = {matrix} if {test} or {test} else {vector}",
    "{thing_new} = [{vector}] if not {test} and {test} else {vector}",
    "logger.info('at %s', {shown})",
)
"""Statements of which most break a graph."""


@st.composite
def breaking(draw: Any, scope: Scope) -> Lines:
    """A statement that is likely to break the graph."""
    forms = BREAKS if scope.depth > 0 else BREAKS[:2]
    lines = fill(draw, scope, draw(st.sampled_from(forms)), 1).splitlines()
    if lines[-1].strip() == "<block>":
        lines[-1:] = draw(block(scope.inner(), most=2))
    return lines


@st.composite
def reading(draw: Any, scope: Scope, name: str) -> Lines:
    """A statement that reads a surrounding, with statements in its blocks."""
    surrounding = SURROUNDINGS[name]
    forms = tuple(f"{{vector_new}} = {form}" for form in surrounding.vector)
    if surrounding.statements and draw(st.booleans()):
        forms = surrounding.statements
    form = draw(st.sampled_from(forms))
    if "<i>" in form:
        form = form.replace("<i>", scope.fresh("i"))
    form, before, lines = fill(draw, scope, form, 1), "", []
    for line in form.splitlines():
        if line.strip() == "<block>":
            inside = scope.inner(
                in_loop=scope.in_loop or (form.startswith("for") and before != "else:"),
                in_handler=before.startswith("except"),
            )
            body = breaking(inside) if draw(st.booleans()) else block(inside, most=2, indent="")
            lines += [line.removesuffix("<block>") + inner for inner in draw(body)]
        else:
            before = line
            lines.append(line)
    return lines


@st.composite
def _if(draw: Any, scope: Scope) -> Lines:
    lines = [f"if {draw(expression(scope, 'test'))}:"]
    arms = [scope.inner()]
    lines += draw(block(arms[-1]))
    if rarely(draw, 4):
        lines += [f"elif {draw(expression(scope, 'test'))}:"]
        arms.append(scope.inner())
        lines += draw(block(arms[-1]))
    arms.append(scope.inner())
    if draw(st.booleans()):
        lines += ["else:", *draw(block(arms[-1]))]
    scope.join(arms)
    return lines


@st.composite
def _for(draw: Any, scope: Scope) -> Lines:
    name, inside = scope.fresh("i"), scope.inner(in_loop=True)
    headers = ["range(2)", "range(3)", "(1, -2)", "{matrix}"]
    if scope.has("sizes"):
        headers += ["range(int({whole}.clamp(0, 2)[1]))", "{whole}.clamp(0, 2).tolist()", *ROWS]
    header = draw(st.sampled_from(headers))
    target = name
    if header == "{matrix}":
        target = draw(st.sampled_from(NAMES["vector"]))
        scope.assigned.add(target)
        inside.bound.add(target)
    uses: Lines = []
    if header in ROWS:
        use = draw(st.sampled_from(USES_OF_ROWS)).replace("<row>", name)
        uses = ["    " + fill(draw, inside, use, 1)]
    header = fill(draw, scope, header, 1)
    lines = [f"for {target} in {header}:", *uses, *draw(block(inside))]
    return lines + _else(draw, scope)


@st.composite
def _while(draw: Any, scope: Scope) -> Lines:
    """A loop that ends, because a counter is advanced first."""
    count, inside = scope.fresh("n"), scope.inner(in_loop=True)
    if draw(st.booleans()):
        test = f"{count} < 3 and ({draw(expression(scope, 'test'))})"
        start = "0"
    else:  # NaN is less than nothing, and clamping bounds the rest.
        start, test = f"({draw(expression(scope, 'vector', 1))}).sum().clamp(0, 4)", f"{count} < 3"
    step = f"    {count} = {count} + 1"
    lines = [f"{count} = {start}", f"while {test}:", step, *draw(block(inside))]
    return lines + _else(draw, scope)


def _else(draw: Any, scope: Scope) -> Lines:
    if not rarely(draw, 5):
        return []
    return ["else:", *draw(block(scope.inner(), most=1))]


@st.composite
def _try(draw: Any, scope: Scope) -> Lines:
    lines = ["try:", *draw(block(scope.inner()))]
    ending = draw(st.sampled_from(["except", "finally", "both", "else"]))
    if ending != "finally":
        kinds = ["Exception", "ValueError", "(KeyError, RuntimeError)"]
        kind, handler = draw(st.sampled_from(kinds)), scope.inner(in_handler=True)
        name = draw(st.sampled_from(["", " as error"]))
        lines += [f"except {kind}{name}:"]
        if name:
            lines += ["    print(type(error).__name__, error)"]
        lines += draw(block(handler, most=2))
    if ending == "else":
        lines += ["else:", *draw(block(scope.inner(), most=1))]
    if ending in ("finally", "both"):
        last = scope.inner(in_loop=False, may_leave=False)
        lines += ["finally:", *draw(block(last, most=2))]
    return lines


@st.composite
def _with(draw: Any, scope: Scope) -> Lines:
    managers = ["torch.no_grad()", "torch.enable_grad()", "contextlib.suppress(ValueError)"]
    if scope.has("objects"):
        managers.append("Noted()")
    inside = scope.inner()
    lines = [f"with {draw(st.sampled_from(managers))}:", *draw(block(inside))]
    return lines


@st.composite
def _closure(draw: Any, scope: Scope) -> Lines:
    """An inner function of one vector, which may read and assign the variables around it."""
    name, inside = (
        scope.fresh("inner"),
        scope.inner(in_loop=False, in_handler=False, assigned=set()),
    )
    inside.may_leave = inside.gives_vector = True
    body = draw(block(inside, most=2))
    body += ["    " + fill(draw, inside, "return {vector}", 1)]
    shared = sorted((inside.assigned & scope.bound) - {"x"})
    lines = [f"def {name}(x):"]
    lines += [f"    nonlocal {', '.join(shared)}"] if shared else []
    scope.closures = (*scope.closures, name)
    return lines + body


@st.composite
def _if_or_closure(draw: Any, scope: Scope) -> Lines:
    make: Callable[[Scope], Any] = _closure if scope.has("closures") else _if
    lines: Lines = draw(make(scope))
    return lines


# Branches are what the programs are for; the others are what they are in.
_COMPOUND = (_if, _if, _if, _for, _while, _try, _with, _if_or_closure)
