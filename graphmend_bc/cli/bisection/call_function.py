"""`python -m ...call_function package.module:function`: print what a function gives."""

from __future__ import annotations

import sys

from graphmend_bc.cli.explanation.comparing import function_named
from graphmend_bc.cli.program import NotStarted


def main(target: str) -> None:
    """Calls a function without arguments, and prints what it returns, if that is not None."""

    def refuse(text: str) -> None:
        raise NotStarted(text)

    result = function_named(target, [], refuse)()
    if result is not None:
        print(result)


if __name__ == "__main__":
    main(sys.argv[1])
