"""Which function a code object is of: one identity, wherever something is known by code."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Final

from graphmend_bc.runtime.forks import lock_over_forks

_ENOUGH: Final = 1024
"""Code objects that are known before the dead ones are looked for the first time."""


class CodeId:
    """The identity of a function's code. Compared as an object; keeps no code object alive.

    Code objects share one only if they are equal in file, lines and columns, qualified name,
    instructions and constants, as those of a module that was executed twice: whatever is rewritten
    of the one is right for the other. `==` on code objects asks for neither file nor qualified
    name.

    Attributes:
        filename: `co_filename`.
        firstlineno: `co_firstlineno`.
        qualname: `co_qualname`.
    """

    __slots__ = ("__weakref__", "_codes", "filename", "firstlineno", "qualname")

    def __init__(self, filename: str, firstlineno: int, qualname: str) -> None:
        self.filename: str = filename
        self.firstlineno: int = firstlineno
        self.qualname: str = qualname
        self._codes: list[weakref.ref[CodeType]] = []

    @property
    def is_alive(self) -> bool:
        """False once no code object has this identity any more; none will have it again."""
        return any(code() is not None for code in self._codes)

    def add(self, code: weakref.ref[CodeType]) -> None:
        """One more code object has it."""
        self._codes.append(code)

    def keep_alive_ones(self) -> None:
        """Forget code objects that are gone."""
        self._codes = [code for code in self._codes if code() is not None]

    def is_of(self, code: CodeType) -> bool:
        """True if a code object that is alive is the same in every respect."""
        known = next((known for ref in self._codes if (known := ref()) is not None), None)
        return known is not None and known == code and _beside(known) == _beside(code)

    def __deepcopy__(self, memo: object) -> CodeId:
        return self

    def __reduce__(self) -> tuple[type[CodeId], tuple[str, int, str]]:
        return CodeId, (self.filename, self.firstlineno, self.qualname)

    def __repr__(self) -> str:
        return f"<code of {self.qualname}, {self.filename}:{self.firstlineno}>"


def _beside(code: CodeType) -> tuple[object, ...]:
    """What `==` on code objects leaves out, in one version of CPython or another."""
    return (
        *(code.co_filename, code.co_qualname, code.co_firstlineno, code.co_cellvars),
        *(code.co_freevars, code.co_linetable, code.co_exceptiontable),
    )


class _Table:
    """The identities of the code objects that are alive.

    References have no callbacks: torch frees code objects while it holds a lock, and a callback
    might let a thread run that wants it. What is dead is looked for when the table has doubled.
    """

    def __init__(self) -> None:
        self.by_object: dict[int, tuple[weakref.ref[CodeType], CodeId]] = {}
        self.by_value: dict[int, list[CodeId]] = {}
        self.limit = _ENOUGH
        self.lock = lock_over_forks()

    def identity(self, code: CodeType) -> CodeId:
        known = self.by_object.get(id(code))
        if known is not None and known[0]() is code:
            return known[1]
        value = hash((*_beside(code), code.co_code))
        with self.lock:
            if len(self.by_object) >= self.limit:
                self.sweep()
            found = self.by_value.setdefault(value, [])
            identity = next((one for one in found if one.is_of(code)), None)
            if identity is None:
                identity = CodeId(code.co_filename, code.co_firstlineno, code.co_qualname)
                found.append(identity)
            # Another thread may have been here in the meantime.
            known = self.by_object.get(id(code))
            if known is None or known[0]() is not code:
                ref = weakref.ref(code)
                identity.add(ref)
                self.by_object[id(code)] = ref, identity
            return identity

    def sweep(self) -> None:
        """Forget code objects that are gone."""
        with self.lock:
            known = self.by_object.copy()
            self.by_object = {key: one for key, one in known.items() if one[0]() is not None}
            for _, identity in known.values():
                identity.keep_alive_ones()
            alive = ((v, [i for i in ids if i.is_alive]) for v, ids in self.by_value.items())
            self.by_value = {value: ids for value, ids in alive if ids}
            self.limit = max(_ENOUGH, 2 * len(self.by_object))


_table: Final = _Table()


def identity_of(code: CodeType) -> CodeId:
    """The identity of a code object: the same object each time, as long as the code lives.

    Args:
        code: any code object; it is not kept alive.
    """
    return _table.identity(code)


def forget_dead_code() -> None:
    """Forget the identities of code objects that are gone."""
    _table.sweep()
