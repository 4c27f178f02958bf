"""Constants of a code object that no instruction loads."""

from __future__ import annotations

import dis
from types import CodeType


def without_unused_constants(code: CodeType) -> CodeType:
    """The same code with None for each constant that it does not load, its docstring apart.

    Args:
        code: any code object. Code objects among the constants that are loaded stay as they are.

    Example:
        >>> def f():
        ...     return 5000
        >>> more = f.__code__.replace(co_consts=(*f.__code__.co_consts, object()))
        >>> without_unused_constants(more).co_consts == (*f.__code__.co_consts, None)
        True
    """
    loaded = {i.arg for i in dis.get_instructions(code) if i.opcode in dis.hasconst}
    constants = tuple(
        value if place in loaded or isinstance(value, str) else None
        for place, value in enumerate(code.co_consts)
    )
    return code.replace(co_consts=constants)
