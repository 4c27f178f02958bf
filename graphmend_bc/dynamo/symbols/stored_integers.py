"""Integers that a frame stores in modules and other objects, such as a count of its calls.

Dynamo guards on the values of integers in modules and in what is global, since most never change.
What the frame itself stores does: without a symbol for it the frame would be compiled anew in each
call, up to a limit after which it is not compiled at all.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class StoredIntegers(Feature):
    """The integers that an attempt has stored in objects which were there before.

    Attributes:
        names: of their sources, such as "L['self'].count".
    """

    stays: ClassVar[bool] = True

    names: set[str] = field(default_factory=set)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        for owner, stored in tx.output.side_effects.store_attr_mutations.items():
            if isinstance(owner, UserDefinedObjectVariable) and owner.source is not None:
                self.names |= {
                    AttrSource(owner.source, name).name
                    for name, value in stored.items()
                    if _is_integer(value)
                    and type(inspect.getattr_static(owner.value, name, None)) is int
                }


def _is_integer(value: VariableTracker) -> bool:
    if isinstance(value, SymNodeVariable):
        return value.python_type() is int
    return isinstance(value, ConstantVariable) and type(value.value) is int


def as_symbols(names: AbstractSet[str]) -> AbstractContextManager[Any]:
    """A block in which integers from some sources become symbols.

    Args:
        names: of the sources.
    """
    if not names:
        return nullcontext()
    own = torch.compiler.config.dynamic_sources
    patterns = [f"{re.escape(name)}$" for name in sorted(names) if not re.search(r"[,:\s]", name)]
    settings: Any = torch.compiler.config
    block: AbstractContextManager[Any] = settings.patch(
        dynamic_sources=",".join([*filter(None, [own]), *patterns])
    )
    return block
