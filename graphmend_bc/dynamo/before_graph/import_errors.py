"""What a failed import raises, in a trace."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from torch._dynamo import variables as vts
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


class ImportErrorVariable(vts.ExceptionVariable):  # type: ignore[misc, name-defined]
    """What an import raises. Dynamo could not make it again after the graph.

    Args:
        error: the exception.
        site: of the import.
    """

    _nonvar_fields: ClassVar[set[str]] = {
        "error",
        "site",
        *vts.ExceptionVariable._nonvar_fields,  # type: ignore[attr-defined]
    }

    def __init__(self, error: ImportError, site: Site, **kwargs: Any) -> None:
        super().__init__(type(error), list(map(ConstantVariable.create, error.args)), **kwargs)
        self.error = error
        self.site = site

    def reconstruct(self, codegen: Any) -> NoReturn:
        detail = "The exception is kept, with the place that it was raised at."
        raise SiteRefused(Refused("import-not-fixed", detail), self.site)

    def var_getattr(self, tx: InstructionTranslatorBase, name: str) -> VariableTracker:
        """An attribute, as older releases of torch ask for it."""
        return self._of_error(name) or super().var_getattr(tx, name)

    def tp_getattro_impl(self, tx: InstructionTranslatorBase, name: str) -> VariableTracker:
        """An attribute."""
        return self._of_error(name) or super().tp_getattro_impl(tx, name)

    def _of_error(self, name: str) -> VariableTracker | None:
        if name not in ("name", "path", "msg"):
            return None
        found: VariableTracker = ConstantVariable.create(getattr(self.error, name))
        return found
