"""Exception handlers around an instruction that is being traced."""

from __future__ import annotations

from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.ctx_manager import GenericContextWrappingVariable


def is_handled(tx: InstructionTranslatorBase | None) -> bool:
    """Whether code of the program's would meet an exception that the instruction raises.

    The contexts that Dynamo knows, such as `torch.no_grad()`, let it pass.

    Args:
        tx: translator of the innermost frame; the frames around it count, too.
    """
    while tx is not None:
        if _meets_handler(tx) or any(map(_is_users, getattr(tx, "block_stack", ()))):
            return True
        tx = tx.parent
    return False


def _meets_handler(tx: InstructionTranslatorBase) -> bool:
    """True inside a `try` of the frame's own; a `with` block is on the block stack as well."""
    entry, seen = getattr(tx.current_instruction, "exn_tab_entry", None), set[int]()
    while entry is not None and id(entry.target) not in seen:
        seen.add(id(entry.target))
        first, second = _names_at(tx, entry.target)
        if first == "PUSH_EXC_INFO" and second != "WITH_EXCEPT_START":
            return True
        entry = getattr(entry.target, "exn_tab_entry", None)
    return False


def _names_at(tx: InstructionTranslatorBase, target: Any) -> tuple[str, str]:
    index = tx.indexof[target]
    names = [instruction.opname for instruction in tx.instructions[index : index + 2]]
    return names[0], names[-1]


def _is_users(block: Any) -> bool:
    context = getattr(block, "with_context", None)
    return context is None or isinstance(context, GenericContextWrappingVariable)
