"""One operator as it ran on fake tensors, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from graphmend_bc.legality import ops
from graphmend_bc.legality.storage import storage_of


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operator as it ran on fake tensors.

    Attributes:
        op: the overload.
        args, kwargs: what it was given.
        result: what it returned.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    @property
    def name(self) -> str:
        return str(self.op.overloadpacket.__name__)

    @property
    def is_aten(self) -> bool:
        return self.op.namespace in ("aten", "prims")

    @property
    def is_known_foreign(self) -> bool:
        return self.op._schema.name in ops.FOREIGN

    def given(self) -> dict[str, Any]:
        """The operands that it was given, by the names of the schema."""
        names = (argument.name for argument in self.op._schema.arguments)
        return dict(zip(names, self.args, strict=False)) | self.kwargs

    def tensors(self) -> list[torch.Tensor]:
        """The tensors it was given."""
        leaves = torch.utils._pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def results(self) -> list[torch.Tensor]:
        """The tensors it returned."""
        leaves = torch.utils._pytree.tree_leaves(self.result)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def allocated(self) -> set[int]:
        """The storages of results that it was not given."""
        return set(map(storage_of, self.results())) - set(map(storage_of, self.tensors()))


def written_by(record: OpRecord) -> list[torch.Tensor]:
    """The tensors that an operator writes to."""
    arguments, given = record.op._schema.arguments, record.given()
    written = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    leaves = torch.utils._pytree.tree_leaves([given.get(name) for name in written])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def draws(record: OpRecord) -> bool:
    """Whether an operator draws random numbers.

    Attention and dropout draw none where there is no dropout, or no training.
    """
    if torch.Tag.nondeterministic_seeded not in record.op.tags:
        return False
    defaults = {a.name: a.default_value for a in record.op._schema.arguments}
    given = {**defaults, **record.given()}
    if "dropout_p" in given:
        return given["dropout_p"] != 0 if type(given["dropout_p"]) in (int, float) else True
    return given.get("train", True) is not False and given.get("training", True) is not False


def is_total(record: OpRecord) -> bool:
    """False for an operator that divides integers by what may be zero, or takes powers of them."""
    if record.name.removesuffix("_") not in ops.TOTAL_ON_FLOATS:
        return True
    if (
        record.name in ("div", "div_", "divide", "divide_")
        and record.kwargs.get("rounding_mode") is None
    ):
        return True
    if type(number := record.args[1]) is int and 0 < number < 128:  # every dtype holds these
        return True
    return all(tensor.is_floating_point() for tensor in record.results())


def raises_on_values(record: OpRecord) -> bool:
    """True if it is known of an operator that it raises if some values are bad."""
    known = _indexes(record) or record.is_known_foreign or mixes_dtypes(record)
    return known or raises_on_operands(record)


def raises_on_operands(record: OpRecord) -> bool:
    """True if it is known of an operator that it raises if some values are bad that are no indices.

    An index out of bounds is a mistake of the program; a division by zero may be what it awaits.
    """
    known = record.name.removesuffix("_") in ops.CHECKING
    is_solver = record.name.strip("_").startswith("linalg") and record.name not in ops.NORMS
    return known or is_solver or not is_total(record)


def mixes_dtypes(record: OpRecord) -> bool:
    """True if an operator gets tensors of different dtypes that may not take them.

    Fake tensors accept what the kernel refuses: `F.batch_norm` of a double tensor with statistics
    of floats.
    """
    name, tensors = record.name.removesuffix("_"), record.tensors()
    if name in ops.UNIFORM:
        return len({tensor.dtype for tensor in tensors}) > 1
    floats = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return len(floats) > 1 and name not in ops.KNOWN


def stops_process(record: OpRecord) -> bool:
    """True if the operator may stop the process: an index out of bounds on an accelerator does."""
    indexes = record.is_aten and _indexes(record)
    return indexes and any(tensor.device.type != "cpu" for tensor in record.tensors())


def _indexes(record: OpRecord) -> bool:
    return record.name.strip("_") in ops.INDEXING
