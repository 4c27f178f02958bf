"""What rests on seams: names of rules, or of features that a program can do without.

A rule is named wherever a seam protects its exactness, not only where it is what makes the rule
work. What protects every mend is essential; so is what nothing is said of.
"""

from __future__ import annotations

from typing import Final

ESSENTIAL: Final = ("all mends",)
"""Nothing is mended without it."""

CHOOSING: Final = ("where", "cond", "loop", "entered", "round")
"""Rules whose results are one of two tensors, so that their identity is not the program's."""

OF_SYMBOLS: Final = ("capture", "drawn", "draw", "hoist", "bounds", "hits", "rows")
"""Rules with numbers that a trace does not know, or knows of this call only."""

READING: Final = ("defer", "ask")
"""Rules with numbers of tensors that the host has after the graph."""

OF_GUARDS: Final = ("hoist", "bounds", "hits", "rows", "draw", "drawn", "chosen", "probe", "flags")
"""Rules whose guards compute something from the inputs, or ask the process."""

NOT_CACHED: Final = ("defer", "draw", "drawn", "chosen", "probe", "flags")
"""Rules that must not mend what is inside the call of a function that caches its results."""

DECIDING: Final = ("decisions at breaks",)
"""Breaks that nothing mends cost no attempt; without it, each costs one."""

RETRYING: Final = ("mends of calls on the spot",)
"""Without it, a call that breaks the graph costs an attempt for each rule that is tried."""

RESUMING: Final = ("resumption in the program's code",)
"""Without it, Python goes on after a break with rewritten code."""

OF_ATTRIBUTES: Final = ("dicts of attributes",)
"""Without it, `vars` of an object that a function makes may lack what it sets."""
