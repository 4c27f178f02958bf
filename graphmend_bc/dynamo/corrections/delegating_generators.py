"""`result = yield from generator`: what the inner generator returns, which torch 2.13 forgets.

It gives the None that was sent last.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import cache
from typing import Any

from torch._dynamo.symbolic_convert import InliningGeneratorInstructionTranslator
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.trace.compilation import Compilation


def listen_to_generators(translator: Any, compilation: Compilation) -> None:
    """Give a generator what another one returns to which it delegates.

    Args:
        translator: the table of handlers of one that traces a generator is exchanged.
        compilation: what is being compiled.
    """
    is_generator = isinstance(translator, InliningGeneratorInstructionTranslator)
    if is_generator and facts.FORGETS_RETURNED and compilation.may_mend:
        table: list[Any] = list(translator.dispatch_table)
        table[dis.opmap["SEND"]] = _send(table[dis.opmap["SEND"]])
        translator.dispatch_table = table


@cache
def _send(stock: Callable[..., Any]) -> Callable[..., Any]:
    def send(self: Any, inst: Any) -> None:
        handled = self.exn_vt_stack
        before = handled._current_exception
        stock(self, inst)
        ended = handled._current_exception
        if ended is not None and ended is not before:  # the `StopIteration` of the inner one
            self.stack[-1] = ended.args[0] if ended.args else ConstantVariable.create(None)
            handled.clear_current_exception()

    return send
