"""The examples of the docs: programs, what they print, and commands with what they say.

A block of Python is a program; its `title` is the name of its file. A block of text right after it
is what the program prints. A line `<!-- needs: torchvision, cuda -->` before a block names what it
cannot do without; a version is the least of torch. In a block of the console, lines after `$` are commands, and the others are what
they say. `...` stands for any text within a line, and for any lines if it is one.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from packaging.version import Version

TORCH = Version(torch.__version__)

_BLOCK = re.compile(
    r"^(?:<!-- needs: (?P<needs>[\w, .]+) -->\n+)?"
    r"^```(?P<language>python|console)(?: title=\"(?P<title>[\w.]+)\")?\n(?P<text>.*?)^```\n"
    r"(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.M | re.S,
)
_HEADING = re.compile(r"^#+ (.*)$", re.M)


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    heading: str
    language: str
    text: str
    title: str
    output: str | None
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.page}: {self.heading}"

    def lacks(self) -> str:
        """What it needs and what is not here, as a sentence; empty if all is here."""
        missing = [need for need in self.needs if not _is_here(need)]
        return f"It needs {', '.join(missing)}, which is not here." if missing else ""


def _is_here(need: str) -> bool:
    if need == "cuda":
        return torch.cuda.is_available()
    name, _, least = need.partition(" ")
    return bool(importlib.util.find_spec(name)) and (not least or TORCH >= Version(least))


def blocks(root: Path, page: str) -> Iterator[Block]:
    """The programs and commands of a page, in order."""
    text = (root / page).read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        above = text[: found.start()]
        headings = _HEADING.findall(re.sub(r"^```.*?^```$", "", above, flags=re.M | re.S))
        yield Block(
            page=page,
            heading=headings[-1],
            language=found["language"],
            text=found["text"],
            title=found["title"] or "program.py",
            output=found["output"],
            needs=tuple(re.split(r", ", found["needs"])) if found["needs"] else (),
        )


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a block of the console, each with what it says."""
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def is_as_printed(expected: str, found: str) -> bool:
    """Whether a text is that of the page, where `...` stands for what differs."""
    lines = (
        "(?s:.*)" if line == "..." else _pattern(line) for line in expected.strip().split("\n")
    )
    return re.fullmatch("\n".join(lines), found.strip()) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("..."))
