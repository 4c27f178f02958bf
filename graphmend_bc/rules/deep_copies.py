"""`copy.deepcopy` of tensors that require no gradient, alone and in what Dynamo copies itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.source import GlobalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.graph.fx_nodes import input_storages, is_input
from graphmend_bc.dynamo.graph.lambda_guards import guard_by, reader
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


@dataclass(slots=True, eq=False)
class DeepCopies(Feature):
    """Tensors of which deep copies were made.

    Attributes:
        made: the dict in which each call of `deepcopy` notes what it has copied, with the memory of
            a tensor: copies of tensors that share memory share it, too.
    """

    order: ClassVar[int] = 42

    made: list[tuple[VariableTracker, int]] = field(default_factory=list)


def _copied(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    read = facts.method_read(callee.callee.realize())
    if read is None or read[1] != "__deepcopy__" or len(args) != 1 or kwargs:
        return None
    tensor, memo = read[0].realize(), args[0].realize()
    if not is_plain(tensor):
        return None
    check_no_function_mode(tx)
    if not _is_asked_plainly(tx):
        raise Refused("call-not-traced", "The program may look into what was copied: the `memo`.")
    made, node = callee.compilation.trace.of(DeepCopies).made, tensor.as_proxy().node
    _check_is_plain(tx, tensor, node)
    memory = storage_of(node.meta["example_value"])
    if any(known is memo and storage == memory for known, storage in made):
        raise Refused("call-not-traced", "Two tensors that share their memory are copied together.")
    if is_input(node):
        _guard_input(node)
    made.append((memo, memory))
    return method(tx, "clone", tensor)


def _is_asked_plainly(tx: InstructionTranslatorBase | None) -> bool:
    """Whether the program's call of `deepcopy` has one argument."""
    while tx is not None and tx.f_globals is vars(copy):
        tx = getattr(tx, "parent", None)
    called = None if tx is None else tx.current_instruction
    return called is not None and called.opname == "CALL" and called.arg == 1


def _check_is_plain(tx: InstructionTranslatorBase, tensor: VariableTracker, node: Node) -> None:
    """Refuse a tensor whose deep copy is more than a clone."""
    fake = node.meta["example_value"]
    if tensor.python_type() is not torch.Tensor:
        raise Refused("call-not-traced", "The tensor is of a class of its own, or a parameter.")
    if fake.requires_grad:
        raise Refused("call-not-traced", "The tensor requires a gradient, and so would its copy.")
    if fake.device.type not in ("cpu", "cuda") or fake.layout is not torch.strided:
        raise Refused("call-not-traced", "The tensor has no plain memory.")
    if fake.dtype.is_complex or fake.is_quantized:
        raise Refused("call-not-traced", f"The tensor is one of {fake.dtype}.")
    if tx.output.side_effects.has_pending_mutation(tensor):
        raise Refused("call-not-traced", "The function has set an attribute of the tensor.")
    if is_input(node):
        return  # it is looked at in each call
    if storage_of(fake) in input_storages(node.graph):
        raise Refused("call-not-traced", "The tensor is a view of another one.")
    if not _is_whole(fake):
        raise Refused("call-not-traced", "The tensor is a part of another one, which is copied.")


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, each place once; a clone has the same strides then."""
    size = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    if not (statically_known_true(size) and statically_known_true(tensor.storage_offset() == 0)):
        return False
    if tensor.is_contiguous():
        return True
    if any(isinstance(number, torch.SymInt) for number in (*tensor.shape, *tensor.stride())):
        return False
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _guard_input(node: Node) -> None:
    """Compile anew where an input is another kind of tensor than the copy of it.

    `deepcopy` asks for the number of the object (`id`), on which Dynamo guards. So it must be one
    that stays.

    Raises:
        Refused: it is now.
    """
    argument: Any = node.meta["grapharg"]
    source: Source = argument.source
    if not (type(source) is GlobalSource or source.guard_source.is_unspecialized_nn_module()):
        raise Refused("call-not-traced", "It would be compiled for this very tensor alone.")
    if not _has_only_numbers(argument.example):
        raise Refused("call-not-traced", "The tensor is a part of another one, or has more to it.")
    read: Callable[..., tuple[Any, ...]] = reader([source])

    def holds(local: Any, scope: Any) -> bool:
        return all(map(_has_only_numbers, read(local, scope)))

    guard_by(holds, f"{source.name} is all of its memory and has no attributes")


def _has_only_numbers(tensor: torch.Tensor) -> bool:
    """Whether a deep copy of a tensor is a clone of it."""
    own = any(not name.startswith("_dynamo_") for name in vars(tensor))  # those are Dynamo's notes
    return not own and tensor.grad is None and not tensor.is_neg() and _is_whole(tensor)


def _matches(site: BreakSite) -> Rewrites | None:
    # `copier` is the name in the code of `copy.deepcopy`.
    known = site.gb_type and site.callee in ("copier", "__deepcopy__")
    return {site.offset: MarkCallee(in_order=False)} if known else None


DEEP_COPY = Rule(
    "deep-copies",
    "copy",
    9,
    _matches,
    frozenset({"Attempted to copy.deepcopy a tensor"}),
    handler=known_call("copy", _copied),
)
"""A deep copy of a tensor without a gradient is a clone of it."""

RULES = (DEEP_COPY,)
