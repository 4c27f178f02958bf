"""Tables on a terminal."""

from __future__ import annotations

from typing import TextIO


def print_table(header: list[str], rows: list[list[str]], file: TextIO) -> None:
    """Prints a table: by rich on a terminal that has it, else in columns that never wrap.

    Args:
        header: titles of the columns.
        rows: cells, as many in each row as there are titles; without rows nothing is printed.
        file: where to.
    """
    if not rows:
        return
    if file.isatty() and _print_by_rich(header, rows, file):
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip(), file=file)


def _print_by_rich(header: list[str], rows: list[list[str]], file: TextIO) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table()
    for title in header:
        table.add_column(title, overflow="fold")  # a path is worth nothing with its end cut off
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=file).print(table)
    return True
