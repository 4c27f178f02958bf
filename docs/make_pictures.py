"""Draw the pictures of docs/how-it-works.md, each from what mending makes of a program of the page.

python docs/make_pictures.py
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import torch

import graphmend_bc
from graphmend_bc.reporting.code_text import CodeChange
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.page.bytecode import comparisons_of
from graphmend_bc.reporting.page.chains import chains_of, drawn
from graphmend_bc.reporting.page.flow_graph import flow_graph
from graphmend_bc.reporting.page.svg import CHARACTER, LINE, Picture

HERE: Final = Path(__file__).parent
IMAGES: Final = HERE / "images"
PAGE: Final = HERE / "how-it-works.md"
STYLE: Final = HERE.parent / "graphmend_bc/reporting/page/templates/style.css"

_GAP: Final = 24
_PARTS: Final = {
    "before": "Before the graph",
    "graph": "The graph",
    "checks": "Checks",
    "after": "After the graph",
}
"""The parts of a call that compiled code runs, in their order."""

_PART_OF: Final = {
    "hoist": "before",
    "draw": "before",
    "where": "graph",
    "cond": "graph",
    "capture": "graph",
    "speculate": "checks",
    "defer": "after",
}
"""In which of them the work of a strategy is done."""


def arguments() -> tuple[torch.Tensor, ...]:
    """What the page calls `step` with."""
    return torch.ones(3), torch.tensor([1, 2])


def program(title: str) -> tuple[str, dict[str, Any]]:
    """A program of the page: its text, and what it defines."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf'^```python title="{re.escape(title)}"\n(.*?)^```', page, re.M | re.S)
    assert found is not None, f"The page has no program {title}."
    scope: dict[str, Any] = {"__name__": "program"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(found[1], title, "exec"), scope)
    return found[1], scope


def branch() -> str:
    """The control flow of a function with a branch, before and after it is rewritten."""
    function = program("rewritten.py")[1]["clamped"]
    change = CodeChange.of(function.__code__, graphmend_bc.rewrite(function).__code__)
    (found,) = comparisons_of([change])
    arms = [
        (f"the arm for {truth}", flow_graph(arm, ()))
        for truth, arm in zip((True, False), change.arms, strict=True)
    ]
    parts = [("clamped", found.pictures[0]), ("clamped, rewritten", found.pictures[1]), *arms]
    return beside("The control flow of clamped, before and after it is rewritten", parts)


def chain() -> str:
    """The graphs of a program with stock torch.compile, and mended."""
    scope = program("step.py")[1]
    with contextlib.redirect_stdout(io.StringIO()):
        found = graphmend_bc.explain(scope["step"])(*arguments())
    breaks = {mend.site: mend.gb_type for mend in found.mends if mend.gb_type}
    (links,) = chains_of(found.after.frames, breaks, found.before.frames)
    parts = [("stock torch.compile", drawn(links.before)), ("mended", drawn(links.after))]
    return beside("The graphs of step, with stock torch.compile and mended", parts)


def call() -> str:
    """The parts of a call, with the lines of a program whose work is done in each."""
    text, scope = program("step.py")
    with contextlib.redirect_stdout(io.StringIO()):
        found = graphmend_bc.explain(scope["step"])(*arguments())
    source, work = text.splitlines(), {part: [] for part in _PARTS}
    for mend in sorted(found.mends, key=lambda mend: mend.site.lineno):
        line = source[mend.site.lineno - 1].partition("  #")[0].strip()
        said = f"line {mend.site.lineno}: {line}"
        if said not in work[_PART_OF[mend.strategy]]:
            work[_PART_OF[mend.strategy]].append(said)
    (operators,) = found.after.frames[0].operators
    work["graph"].insert(0, f"{many(operators, 'operator')}, compiled as one")
    return _life(work)


def _life(work: dict[str, list[str]]) -> str:
    """Boxes from the top to the bottom, and beside the last of them what follows a failed check."""
    boxes = {"Guards": ["was this compiled for such inputs?"]}
    boxes |= {_PARTS[part]: lines for part, lines in work.items()}
    said = ["A check failed", "what the graph changed is put back;", "the function's own code runs"]
    width = CHARACTER * (5 + max(len(line) for lines in boxes.values() for line in lines))
    picture, top, middle, right = Picture("life"), 4.0, 4 + width / 2, 4 + width + 2 * _GAP
    for title, lines in boxes.items():
        if top > 4:
            picture.arrow([(middle, top - _GAP), (middle, top)], "next")
        if title == _PARTS["after"]:
            picture.arrow([(4 + 0.9 * width, top - _GAP), (right + width / 2, top)], "raise")
            bottom = _box(picture, (right, top, width), "break", said)
        kind = "graph" if title == _PARTS["graph"] else "block"
        top = _box(picture, (4, top, width), kind, [title, *lines]) + _GAP
    end = max(top, bottom + _GAP)
    picture.arrow([(middle, top - _GAP), (middle, end)], "next")
    picture.arrow([(right + width / 2, bottom), (4 + 0.8 * width, end)], "raise")
    end = _box(picture, (4, end, width), "block", ["The result"])
    return alone("A call of mended code", picture.finished(right + width + 4, end + 4))


def _box(
    picture: Picture, place: tuple[float, float, float], kind: str, lines: Sequence[str]
) -> float:
    """A box with its left, its top and its width; where it ends."""
    left, top, width = place
    height = LINE * len(lines) + 10
    picture.box(left, top, width, height, kind)
    for number, line in enumerate(lines, 1):
        name = "name" if number == 1 else "op"
        picture.text(line, left + CHARACTER, top + LINE * number, name)
    return top + height


def beside(title: str, parts: Sequence[tuple[str, str]]) -> str:
    """Pictures in a row, each below its caption."""
    shown, left, height = [], 4, 0
    for caption, picture in parts:
        size = _size(picture)
        shown.append(f'<text class="name" x="{left}" y="{LINE}">{escape(caption)}</text>')
        shown.append(picture.replace("<svg ", f'<svg x="{left}" y="{2 * LINE}" ', 1))
        left += max(size[0], CHARACTER * len(caption)) + _GAP
        height = max(height, size[1] + 2 * LINE)
    return _document(title, "\n".join(shown), (left, height))


def alone(title: str, picture: str) -> str:
    """A picture by itself."""
    return _document(title, picture, _size(picture))


def _size(picture: str) -> tuple[int, int]:
    found = re.search(r'width="(\d+)" height="(\d+)"', picture)
    assert found is not None
    return int(found[1]), int(found[2])


def _document(title: str, content: str, size: tuple[int, int]) -> str:
    """A file of its own, with as much of the report's style as its pictures need."""
    style = STYLE.read_text(encoding="utf-8")
    rules = re.findall(r"^:root.*?\}$|^@media.*?\} \}$|^svg .*?\}$", style, re.M | re.S)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>\n{escape(chr(10).join(rules), quote=False)}\n</style>\n"
        f'<rect width="100%" height="100%" style="fill: var(--ground)"/>\n{content}\n</svg>\n'
    )


PICTURES: Final[dict[str, Callable[[], str]]] = {"branch": branch, "chain": chain, "call": call}
"""Each picture by the name of its file."""

if __name__ == "__main__":
    torch.manual_seed(0)
    for name, draw in PICTURES.items():
        (IMAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
