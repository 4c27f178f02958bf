"""A program that was found, as a script that runs by itself and as a test."""

from __future__ import annotations

import textwrap
from dataclasses import asdict

from tests.fuzz.hunt import verdict_on
from tests.fuzz.programs import Program
from tests.fuzz.verdict import OURS

_SCRIPT = '''\
"""{title}.

{difference}

Run by Python, this script says so again, and ends with 1 if mending is wrong. As a test:

{test}
"""

import sys
from pathlib import Path

import graphmend_bc

sys.path.insert(0, str(Path(graphmend_bc.__file__).parents[1]))  # the tree, for its oracle

from tests.fuzz.found import main

SOURCE = """
{source}"""

if __name__ == "__main__":
    sys.exit(main(source=SOURCE, {arguments}))
'''

_WIDTH = 100


def script_of(program: Program, difference: str, title: str = "Mending is wrong here") -> str:
    """The text of a script that judges a program again.

    Args:
        program: what was found.
        difference: what differed, in words.
        title: whose fault it is.
    """
    fields = asdict(program)
    source = fields.pop("source")
    arguments = "".join(f"\n        {key}={value!r}," for key, value in fields.items())
    return _SCRIPT.format(
        title=title,
        difference=_quoted("\n".join(textwrap.wrap(difference, _WIDTH))),
        test=_quoted(textwrap.indent(program.test(), "    ")),
        source=_quoted(source),
        arguments=f"{arguments}\n    ",
    )


def _quoted(text: str) -> str:
    """A text as it may stand between three double quotes."""
    return text.replace("\\", "\\\\").replace('"""', r"\"\"\"")


def main(**fields: object) -> int:
    """Judge the program of a script; 1 if mending is wrong there."""
    program = Program(**fields)  # type: ignore[arg-type]
    verdict = verdict_on(program)
    print(
        f"{verdict.fault.value}: {verdict.difference}"
        if verdict.difference
        else verdict.fault.value
    )
    return int(verdict.fault in OURS)
