"""Where the documentation says what the reason codes of a message mean: its only place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from graphmend_bc.reporting.reasons import REASONS

PAGE: Final = "docs/reasons.md"
"""The page that has a section for each code; its anchor is the code."""

_WORDS: Final = re.compile(r"(?<![\w-])[a-z]+(?:-[a-z]+)+(?![\w-])")


def codes_in(texts: Iterable[str]) -> list[str]:
    """The reason codes that texts name, each once.

    Args:
        texts: codes, or sentences with codes in them.

    Example:
        >>> codes_in(["arm-raises", "refused before: arm-raises: An arm ... (loop-exit)"])
        ['arm-raises', 'loop-exit']
    """
    found = (word for text in texts for word in _WORDS.findall(text))
    return [*dict.fromkeys(code for code in found if code in REASONS)]


def reference(code: str) -> str:
    """Where a reason is explained.

    Args:
        code: its code.

    Example:
        >>> reference("arm-raises")
        'docs/reasons.md#arm-raises'
    """
    return f"{PAGE}#{code}"


def references(texts: Iterable[str]) -> list[str]:
    """A line for each reason that texts name, for the end of a message.

    Args:
        texts: as for `codes_in`.

    Example:
        >>> references(["arm-raises: An arm of the branch raises an exception."])
        ['See docs/reasons.md#arm-raises']
    """
    return [f"See {reference(code)}" for code in codes_in(texts)]


class Told(Protocol):
    """What lines of text tell of, some of which name reasons."""

    @property
    def lines(self) -> list[str]: ...


def as_text(*entries: Told) -> list[str]:
    """Lines that tell of mends and declines, and then of the pages of their reasons, each once.

    Args:
        entries: in their order.
    """
    lines = [line for entry in entries for line in entry.lines]
    return [*lines, *references(lines)]


def with_references(text: object) -> str:
    """A message of one line that leads to the reasons it names.

    Args:
        text: the message.

    Example:
        >>> with_references("It failed at arm-raises")
        'It failed at arm-raises (docs/reasons.md#arm-raises)'
    """
    found = ", ".join(map(reference, codes_in([str(text)])))
    return f"{text} ({found})" if found else str(text)
