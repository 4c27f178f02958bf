"""A digest of what a code object says, the same in every process that has read the same program."""

from __future__ import annotations

import hashlib
from types import CodeType
from typing import Any, Final

_PLAIN: Final = (bool, complex, float, str, bytes, type(None), type(...))


def digest_of(code: CodeType, beside: Any) -> str | None:
    """A sha256 over a code object's content and what else counts.

    Neither the file nor the lines of the code object are part of it.

    Args:
        code: any code object.
        beside: what else the digest depends on: a tuple of plain values and tuples.

    Returns:
        Hexadecimal digits; None if there is a constant that does not come from a program's source.

    Example:
        >>> one, other = (lambda x: x + 1).__code__, (lambda x: x + 2).__code__
        >>> digest_of(one, ()) == digest_of(one, ()) != digest_of(other, ())
        True
    """
    try:
        return hashlib.sha256(_bytes((code, beside))).hexdigest()
    except (TypeError, RecursionError):
        return None


def _bytes(value: Any) -> bytes:
    """A value with its type and length in front, so that no two values read the same.

    Raises:
        TypeError: it is of no type that a compiled constant can have.
    """
    kind = type(value)
    if kind is CodeType:
        body = _bytes(_content(value))
    elif kind is tuple:
        body = b"".join(map(_bytes, value))
    elif kind is frozenset:
        body = b"".join(sorted(map(_bytes, value)))
    elif kind is slice:  # a constant since Python 3.14
        body = _bytes((value.start, value.stop, value.step))
    elif kind is int:
        body = hex(value).encode()  # `repr` refuses very large ones
    elif kind in _PLAIN:
        body = repr(value).encode()
    else:
        raise TypeError(f"{kind.__name__} is no type of a compiled constant.")
    return b"%s %d:%s" % (kind.__name__.encode(), len(body), body)


def _content(code: CodeType) -> tuple[Any, ...]:
    return (
        *(code.co_code, code.co_consts, code.co_exceptiontable, code.co_flags),
        *(code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_qualname),
    )
