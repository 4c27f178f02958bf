"""Tables: the only place where text is set in columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Table:
    """Titles and cells.

    Rich draws it on a terminal, if installed. Everywhere else it is text: `str()`, logs and pipes
    get the same columns with or without rich, and no line is wrapped or cut.

    Attributes:
        header: titles of the columns.
        rows: cells, as many in each row as there are titles.
        right: indices of the columns that are set to the right.

    Example:
        >>> print(Table(["cost", "where"], [["1", "f"], ["20", "g"]], right=frozenset({0})))
        cost  where
           1  f
          20  g
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = []
        for row in [self.header, *self.rows]:
            cells = (
                cell.rjust(width) if index in self.right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def print(self, file: TextIO) -> None:
        """Print it, unless it has no rows.

        Args:
            file: where to.
        """
        if self.rows and not (file.isatty() and self._print_by_rich(file)):
            print(self, file=file)

    def _print_by_rich(self, file: TextIO) -> bool:
        try:
            from rich import table
            from rich.console import Console
            from rich.text import Text
        except ImportError:
            return False
        drawn = table.Table()
        for index, title in enumerate(self.header):
            justify = "right" if index in self.right else "left"
            # A path is worth nothing with its end cut off.
            drawn.add_column(Text(title), overflow="fold", justify=justify)  # type: ignore[arg-type]
        for row in self.rows:
            drawn.add_row(*map(Text, row))
        # An empty NO_COLOR does not count, and rich's releases differ on that.
        Console(file=file, no_color=bool(os.environ.get("NO_COLOR"))).print(drawn)
        return True
