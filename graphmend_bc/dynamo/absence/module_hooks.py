"""Hooks of modules: whether there are any.

By default stock does not guard on a module's having no hooks. Where it breaks the graph at a call
of the module, it sees hooks that come; where the call is mended, it would not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource

from graphmend_bc.dynamo.absence.absence_guards import note_absent
from graphmend_bc.dynamo.trace.compilation import current

_TABLES: Final = frozenset(
    prefix + name
    for prefix in ("_", "_global_")
    for name in ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
)
"""Other tables only say more of the hooks in these."""


def asked_for_hooks(stock: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute of a module, or of torch's module of modules: a table of hooks may be empty."""

    def var_getattr(self: Any, tx: Any, name: str) -> Any:
        if name in _TABLES and self.source is not None and current() is not None:
            table = vars(self.value).get(name)
            if isinstance(table, dict) and not table:
                where = AttrSource(self.source, name)
                note_absent(where, "", GuardBuilder.SEQUENCE_LENGTH)
        return stock(self, tx, name)

    return var_getattr
