"""Write docs/reasons.md: each reason code, what it means and what to change.

python docs/make_reasons.py
"""

from __future__ import annotations

import re
from pathlib import Path

from graphmend_bc.reporting.reasons import REASONS, Reason

PAGE = Path(__file__).with_name("reasons.md")
SEMANTICS = Path(__file__).with_name("semantics.md")

_HEAD = """# Reasons

Made by `python docs/make_reasons.py` of `graphmend_bc/reporting/reasons.py`; not edited by hand.

A report names one of these codes for each break that was left as stock `torch.compile` has it, and
for each cheaper strategy that was refused. The result is that of stock. A message adds a sentence
about the place: the operator, the callee or the variable. Its hints may fit the place better than
those here.

If a message is not clear, [Trouble](trouble.md#it-is-still-broken) says how to see more.
"""


def groups() -> dict[str, list[str]]:
    """The codes by what they are about, as docs/semantics.md has them."""
    found: dict[str, list[str]] = {}
    for line in SEMANTICS.read_text(encoding="utf-8").splitlines():
        if about := re.fullmatch(r"## Reasons: (.*)", line):
            codes = found[about[1][0].upper() + about[1][1:]] = []
        elif (code := re.fullmatch(r"### ([a-z-]+)", line)) and code[1] in REASONS:
            codes.append(code[1])
    return found


def section(reason: Reason) -> str:
    """What the page says of one reason."""
    hints = reason.hints
    change = f"What to change: {hints[0]}"
    if len(hints) > 1:
        change = "\n".join(["What to change:\n", *(f"* {hint}" for hint in hints)])
    more = f"[Details](semantics.md#{reason.code})"
    return f"### {reason.code}\n\n{reason.explanation}\n\n{change}\n\n{more}\n"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for about, codes in groups().items():
        parts += [f"## {about}\n", *(section(REASONS[code]) for code in codes)]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
