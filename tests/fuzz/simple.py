"""The language of the generated programs, continued: what a simple statement may be."""

from __future__ import annotations

from typing import Final

from tests.fuzz import aliases
from tests.fuzz.grammar import BASIC

ROWS: Final = (
    "({vector} > {number}).nonzero()",
    "{vector}.nonzero()[:, 0]",
    "torch.where({vector})[0]",
)
"""Indices that loops go over."""

USES_OF_ROWS: Final = (
    "{vector_new} = {vector} + <row>",
    "{vector_new} = {vector} + {vector}[<row>].sum()",
    "{vector_name}[<row>] = {number}",
    "{number_new} = int(<row>)",
    "if <row> == {number}: continue",
    "print(<row>.item(), <row> + 1)",
    "<row>.add_(1)",
)
"""What they do with each."""

SHOWN: Final = ("'here'", "{number}", "f'{{{number}}}'", "{whole}", "{vector}.detach()", "k")
"""What is printed, logged and put into exceptions: nothing that shows a `grad_fn`."""

STATEMENTS: Final[dict[str, tuple[str, ...]]] = {
    BASIC: (
        "{vector_new} = {vector}",
        "{matrix_new} = {matrix}",
        "{number_new} = {number}",
        "{whole_new} = {whole}",
        "{thing_new} = {thing}",
    ),
    "in place": (
        "{vector_name}.add_({number})",
        "{vector_name} += {vector}",
        "{vector_name}.mul_({vector})",
        "{vector_name}[0] = {number}",
        "{vector_name}[1:] *= {number}",
        "{matrix_name}[0].copy_({vector})",
        "{matrix_name}.clamp_(min=0)",
        "{matrix_name} -= {vector}",
        "{whole_name}.add_(1)",
        "{vector_name}.zero_()",
        "{vector_name}.view(3, 1).sub_(1)",
    ),
    "objects": (
        "items.append({vector})",
        "items.append({number})",
        "store['v'] = {vector}",
        "store['n'] = {number}",
        "box.value = {vector}",
        "box.count += 1",
        "store.pop('v', None)",
        "items.clear()",
    ),
    "net": (
        "net.count += 1",
        "net.last = {vector}.detach()",
        "net.seen.add_(1)",
        "net.seen = {vector}.detach().float()",
    ),
    "sizes": (
        "{matrix_name}[:, {whole}[0].clamp(0, 2)] = {number}",
        "{matrix_name}[{whole}.argmax() % 2].add_({vector})",
    ),
    "effects": (
        "print({shown})",
        "logger.info('at %s', {shown})",
        "logger.warning('seen')",
        "print({shown}, {shown}, sep='-', end=';')",
        "logger.debug({shown})",
    ),
    "raises": (
        "assert {test}, f'not {{k}}'",
        "if {test}: raise ValueError('low')",
        "if {test}: raise Trouble({shown}, {number})",
        "if {test}: raise KeyError({shown}) from ValueError('cause')",
    ),
    aliases.GROUP: aliases.STATEMENTS,
}

VECTOR_ENDS: Final = {BASIC: ("return {vector}",)} | {"raises": ("raise ValueError('end')",)}
"""Statements that leave a function whose callers want a vector."""

ENDS: Final[dict[str, tuple[str, ...]]] = {
    BASIC: ("return {vector}", "return {vector}, {thing}", "return {thing}", "return"),
    "raises": (
        "raise ValueError('end')",
        "raise Trouble({shown})",
        "raise RuntimeError(f'{{k}}') from None",
    ),
    aliases.GROUP: aliases.ENDS,
}
"""Statements that leave the function."""
