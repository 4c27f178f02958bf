"""`slice(start, stop)` of tensors keeps its tensors.

Dynamo makes numbers of them at once, which breaks the graph, even where the slice is returned or
its bounds are read, which in eager Python gives the tensors. Here they become numbers where the
slice is an index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo.bytecode_transformation import create_instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.exc import Unsupported, unimplemented
from torch._dynamo.symbolic_convert import InstructionTranslator, InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import SliceVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.symbols.array_numbers import is_no_number
from graphmend_bc.dynamo.trace.compilation import current

_NAMES: Final = ("start", "stop", "step")


class _NeedsNumbers(Unsupported, NotImplementedError):
    """A break where a number is needed, and "no" to whoever asks whether there is a constant."""


@facts.with_slots
class TensorSliceVariable(SliceVariable):
    """A slice with tensors among its bounds.

    Args:
        bounds: start, stop and step.
    """

    def __init__(self, bounds: list[VariableTracker], **kwargs: Any) -> None:
        VariableTracker.__init__(self, **kwargs)
        self.bounds = bounds

    @property
    def items(self) -> Any:  # type: ignore[override]
        """What Dynamo takes for numbers.

        Raises:
            Unsupported: always.
        """
        try:
            unimplemented(
                gb_type="Slice of tensors as a constant",
                context=repr(self),
                explanation="The bounds of a slice are tensors, and their numbers are needed.",
                hints=[],
            )
        except Unsupported as error:
            error.__class__ = _NeedsNumbers
            raise

    def as_proxy(self) -> slice:
        if any(map(is_no_number, self.bounds)):
            self.as_python_constant()
        return SliceVariable([*self.bounds], InstructionTranslator.current_tx()).as_proxy()

    def debug_repr(self) -> str:
        return f"slice({', '.join(bound.debug_repr() for bound in self.bounds)})"

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.foreach(self.bounds)
        codegen.append_output(create_instruction("BUILD_SLICE", arg=len(self.bounds)))

    def var_getattr(self, tx: InstructionTranslatorBase, name: str) -> VariableTracker:
        if name in _NAMES:
            return self.bounds[_NAMES.index(name)]
        self.as_python_constant()
        raise AssertionError("unreachable")


facts.hide_tables(TensorSliceVariable)


def call_slice(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`slice(...)`."""

    def call(self: Any, tx: InstructionTranslatorBase, *args: VariableTracker) -> Any:
        if current() is None or not any(item.is_tensor() for item in args) or len(args) > 3:
            return stock(self, tx, *args)
        none = ConstantVariable.create(None)
        bounds = [none, *args] if len(args) == 1 else [*args]
        return TensorSliceVariable([*bounds, none][:3])

    return call
