"""Shapes of the pictures, drawn by drawsvg. Colours and fonts are the page's style sheet.

drawsvg escapes text but no attributes, so attributes are never text of the program's.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

LINE: Final = 16
"""Height of a line of text."""

CHARACTER: Final = 7
"""Width of a character of the text in pictures."""

_LIBRARIES: Final = ("drawsvg", "fast_sugiyama")


def missing_libraries() -> str:
    """Says which pictures a page has to do without; empty if none."""
    missing = [name.replace("_", "-") for name in _LIBRARIES if find_spec(name) is None]
    if not missing:
        return ""
    what = "Pictures" if "drawsvg" in missing else "Pictures of the control flow"
    return (
        f"{what} are left out, because {' and '.join(missing)} cannot be imported here. "
        f"Install what is missing: pip install {' '.join(missing)}"
    )


def may_draw() -> bool:
    """True if pictures can be drawn."""
    return find_spec("drawsvg") is not None


def may_lay_out() -> bool:
    """True if control flow can be drawn."""
    return all(find_spec(name) is not None for name in _LIBRARIES)


class Picture:
    """An SVG under construction.

    Args:
        name: the class by which the style sheet knows it.
    """

    def __init__(self, name: str) -> None:
        import drawsvg

        self._svg: Any = drawsvg
        self._name = name
        self._shapes: list[Any] = []

    def box(self, x: float, y: float, width: float, height: float, name: str) -> None:
        """A rectangle."""
        shape = self._svg.Rectangle(round(x), round(y), round(width), round(height), class_=name)
        self._shapes.append(shape)

    def text(self, text: str, x: float, y: float, name: str) -> None:
        """A line of text; `y` is its base line."""
        self._shapes.append(self._svg.Text(text, 12, round(x), round(y), class_=name))

    def arrow(self, points: Sequence[tuple[float, float]], name: str) -> None:
        """A curve that leaves each point downwards, or upwards where it goes up, with a tip."""
        path = self._svg.Path(class_=f"way {name}").M(*map(round, points[0]))
        for (x, y), (to_x, to_y) in pairwise(points):
            bend = (to_y - y) / 2
            path.C(*map(round, (x, y + bend, to_x, to_y - bend, to_x, to_y)))
        (x, y), up = points[-1], points[-1][1] < points[-2][1]
        back = y + 6 if up else y - 6
        tip = self._svg.Path(class_=f"tip {name}")
        tip.M(*map(round, (x - 4, back))).L(round(x), round(y)).L(*map(round, (x + 4, back))).Z()
        self._shapes += [path, tip]

    def finished(self, width: float, height: float) -> str:
        """The SVG as text that stands in a page."""
        size = round(width), round(height)
        drawing = self._svg.Drawing(*size, class_=self._name, aria_hidden="true")
        drawing.extend(self._shapes)
        return str(drawing.as_svg(header=""))


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters.

    Example:
        >>> shortened("LOAD_ATTR", 6)
        'LOAD_…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"
