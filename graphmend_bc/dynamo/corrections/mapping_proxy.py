"""Mapping proxies whose dict nobody else has, as `inspect.Signature` keeps its parameters.

Dynamo does not know the dict behind a proxy: once the frame has changed some dict that was there
before, it refuses to read any proxy.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from torch._dynamo.guards import install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._guards import Guard

from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.program_objects import object_of


def read_proxy(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `MappingProxyVariable` that asks the proxy for something.

    Args:
        name: the method; the dict's variable has one of the same name.
        stock: Dynamo's own.
    """

    def read(self: Any, tx: InstructionTranslatorBase, *args: Any, **kwargs: Any) -> Any:
        effects, compilation = tx.output.side_effects, current()
        refuses = self.source and effects.has_existing_dict_mutation()
        mends = compilation is not None and compilation.may_mend
        if not (refuses and mends and has_dict_alone(object_of(effects, self))):
            return stock(self, tx, *args, **kwargs)
        install_guard(self.source.make_guard(_create))
        return getattr(self.dv_dict, name)(tx, *args, **kwargs)

    return read


def has_dict_alone(proxy: object) -> bool:
    """True for a mapping proxy that is the only one to refer to its dict.

    Example:
        >>> has_dict_alone(MappingProxyType({"a": 1}))
        True
        >>> has_dict_alone(type.__dict__)
        False
    """
    if type(proxy) is not MappingProxyType:
        return False
    behind = gc.get_referents(proxy)[0]
    if type(behind) not in (dict, OrderedDict) or weakref.getweakrefcount(behind):
        return False
    del behind
    return _references(proxy) == _references(MappingProxyType({}))


def _references(proxy: MappingProxyType[Any, Any]) -> int:
    """How many references to the dict behind a proxy there are, with a few of our own."""
    return sys.getrefcount(gc.get_referents(proxy)[0])


def _create(builder: Any, guard: Guard) -> None:
    """Make the guard; called when the trace is done."""
    code = [f"{guard.name} is a mapping proxy with a dict of its own"]
    builder.get_guard_manager(guard).add_lambda_guard(has_dict_alone, code, guard.user_stack)
