"""What kernels refuse although fake tensors have accepted it, whatever the values are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from graphmend_bc.legality import ops
from graphmend_bc.legality.kinds import takes_kinds
from graphmend_bc.legality.record import OpRecord, mixes_dtypes, written_by
from graphmend_bc.legality.storage import storage_of

_COPIES: Final = ops.VIEWS | {"clone", "_to_copy", "copy"}

_INTS: Final = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_FLOATS: Final = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_COMPLEX: Final = frozenset({torch.complex64, torch.complex128})

_FLOATS_ONLY: Final = frozenset(
    [
        "_log_softmax",
        "_prelu_kernel",
        "_softmax",
        "elu",
        "frac",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "hypot",
        "leaky_relu",
        "lerp",
        "log_sigmoid_forward",
        "logaddexp",
        "mish",
        "silu",
        "softplus",
    ]
)
_NOT_COMPLEX: Final = _FLOATS_ONLY | frozenset(
    [
        "amax",
        "amin",
        "argmax",
        "argmin",
        "atan2",
        "ceil",
        "clamp",
        "clamp_max",
        "clamp_min",
        "copysign",
        "erf",
        "erfc",
        "erfinv",
        "floor",
        "fmod",
        "ge",
        "gt",
        "hardtanh",
        "heaviside",
        "le",
        "lt",
        "max",
        "maximum",
        "min",
        "minimum",
        "relu",
        "remainder",
        "round",
        "selu",
        "sign",
        "signbit",
        "sort",
        "threshold",
        "topk",
        "trunc",
        "xlogy",
    ]
)
_NOT_BOOL: Final = _FLOATS_ONLY | frozenset(
    [
        "abs",
        "addcmul",
        "argmax",
        "argmin",
        "ceil",
        "clamp",
        "clamp_max",
        "clamp_min",
        "cumsum_",
        "floor",
        "fmod",
        "mul_",
        "pow",
        "relu",
        "remainder",
        "round",
        "rsub",
        "sub",
        "threshold",
        "topk",
        "trunc",
    ]
)
_BITS: Final = frozenset({"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor"})

_MISSING: Final[Mapping[torch.dtype, frozenset[str]]] = MappingProxyType(
    dict.fromkeys(_FLOATS, _BITS)
    | dict.fromkeys(_INTS, _FLOATS_ONLY | {"round"})
    | dict.fromkeys(_COMPLEX, _NOT_COMPLEX | _BITS)
    | {torch.bool: _NOT_BOOL}
)
"""By dtype, the operators that some kernel does not have; of dtypes that are not here, all."""


def may_fail(record: OpRecord) -> str:
    """Why a kernel may raise that has been given what fake tensors accept; empty if it does not.

    Args:
        record: a known operator.

    Example:
        `x.half().fill_(1e6)` fails, because the number is too large.
    """
    if not has_kernel(record):
        return "Its dtypes may have no kernel."
    if mixes_dtypes(record) or not _can_write(record):
        return "It may not take these dtypes together."
    if number := _refused_number(record):
        return number
    if record.op._schema.is_mutable and may_overlap(record):
        return "It may write to what it reads."
    return ""


def has_kernel(record: OpRecord) -> bool:
    """False for an operator that some kernel refuses because of its dtypes: `argmax` of bools."""
    names = {record.name, record.name.removesuffix("_")}
    if names & _COPIES:
        return True
    known = [_MISSING.get(tensor.dtype) for tensor in (*record.tensors(), *record.results())]
    return all(missing is not None and not names & missing for missing in known)


def is_refused(record: OpRecord) -> bool:
    """True if some kernel of an operator refuses its dtypes, alone or doubles with other floats.

    Other floats are often mixed, and there are kernels for it. Or it refuses a number.
    """
    doubles = any(tensor.dtype is torch.float64 for tensor in record.tensors())
    refuses = not has_kernel(record) or (doubles and mixes_dtypes(record))
    return refuses or bool(_refused_number(record))


def _refused_number(record: OpRecord) -> str:
    numbers = _numbers(record)
    if not takes_kinds(record, numbers | _as_tensors(record)):
        return "It may not take a number of this kind."
    if not all(_holds(t.dtype, n) for t in record.results() for n in numbers.values()):
        return "Its dtype may not hold a number."
    return ""


def _can_write(record: OpRecord) -> bool:
    """True unless an operator in place gets what its target cannot hold, or a mask of numbers."""
    if not record.op._schema.is_mutable:
        return True
    target, *others = record.tensors()
    if record.name == "masked_fill_" and others[0].dtype is not torch.bool:
        return False
    copies = record.name.removesuffix("_") in _COPIES
    return copies or all(torch.can_cast(other.dtype, target.dtype) for other in others)


def _numbers(record: OpRecord) -> dict[str, object]:
    """What an operator is given where it wants a number, and turns it into its result's dtype."""
    return _given_for(record, ("number", "Optional[number]"))


def _as_tensors(record: OpRecord) -> dict[str, object]:
    """Numbers that it is given where it wants a tensor: `x - True`."""
    given = _given_for(record, ("Tensor",))
    return {name: value for name, value in given.items() if not isinstance(value, torch.Tensor)}


def _given_for(record: OpRecord, types: Sequence[str]) -> dict[str, object]:
    arguments, given = record.op._schema.arguments, record.given()
    wanted = [argument.name for argument in arguments if str(argument.type) in types]
    return {name: given[name] for name in wanted if given.get(name) is not None}


def _holds(dtype: torch.dtype, number: object) -> bool:
    """True if a dtype surely holds a number."""
    if dtype is torch.bool:
        return True
    if isinstance(number, (torch.SymBool, bool)):
        return True
    if isinstance(number, torch.SymInt):
        return (dtype.is_floating_point and dtype is not torch.float16) or dtype is torch.int64
    if isinstance(number, torch.SymFloat):
        return dtype in (torch.float64, torch.complex128) or _is_known_within(number, dtype)
    if isinstance(number, complex):
        return dtype is torch.complex128
    if not isinstance(number, (int, float)):
        return False
    if not math.isfinite(number):
        return dtype.is_floating_point or dtype.is_complex
    kind = torch.finfo if dtype.is_floating_point or dtype.is_complex else torch.iinfo
    return bool(kind(dtype).min <= number <= kind(dtype).max)


def _is_known_within(number: torch.SymFloat, dtype: torch.dtype) -> bool:
    if not dtype.is_floating_point:
        return False
    most = torch.finfo(dtype).max
    return statically_known_true(number <= most) and statically_known_true(number >= -most)


def may_overlap(record: OpRecord) -> bool:
    """True if a tensor that is written may share elements with itself or with another operand."""
    for written in written_by(record):
        if torch._debug_has_internal_overlap(written):
            return True
        for other in record.tensors():
            shares = storage_of(other) == storage_of(written)
            if shares and not (is_same_view(written, other) or _is_apart(written, other)):
                return True
    return False


def is_same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors that share a storage are the same part of it, with the same dtype."""
    return one is other or all(
        str(mine) == str(theirs)  # symbolic numbers are not to be asked for a guard
        for mine, theirs in (
            (one.dtype, other.dtype),
            (one.storage_offset(), other.storage_offset()),
            (one.shape, other.shape),
            (one.stride(), other.stride()),
        )
    )


def _is_apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if one tensor ends in memory before the other begins."""
    (begin, end), (first, last) = _extent(one), _extent(other)
    return end <= first or last <= begin


def _extent(tensor: torch.Tensor) -> tuple[float, float]:
    """The bytes of the storage that a tensor is in; all of them if that is not known."""
    begin = tensor.storage_offset()
    numbers = (begin, *tensor.shape, *tensor.stride())
    if not isinstance(begin, int) or not all(isinstance(number, int) for number in numbers):
        return -math.inf, math.inf
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    end = begin + 1 + sum((size - 1) * stride for size, stride in steps)
    return begin * tensor.itemsize, end * tensor.itemsize


def writes_whole(record: OpRecord, target: torch.Tensor) -> bool:
    """True if a write in place can fail for no size that is known only at run time.

    A backend that computes the result anew and gives it to the tensor fails for other sizes than
    eager Python: where the operands are broadcast to more than the tensor, or where it overlaps
    itself.

    Args:
        record: an operator that writes.
        target: the tensor it writes to, with such a size.

    Example:
        `y += x` for an `x` of the same shape or of one element.
    """
    if any(isinstance(stride, int) and stride == 0 for stride in target.stride()):
        return False
    if record.name in _SCATTERED:
        return _scatters_whole(record, target)
    if record.name not in ops.IN_PLACE | {"copy_", "index_put_"}:
        return False
    for other in record.tensors():
        if storage_of(other) == storage_of(target) and not is_same_view(target, other):
            return False
        # What is indexed with has another shape; the kernel is the same, and looks at it.
        if record.name != "index_put_" and not _fits(other.shape, target.shape):
            return False
    return True


_SCATTERED: Final = frozenset({"scatter_", "scatter_add_", "scatter_reduce_"})


def _scatters_whole(record: OpRecord, target: torch.Tensor) -> bool:
    """True if the shapes are right whatever the sizes are, and nothing else is that memory.

    Eager Python refuses to scatter from what it writes to. The kernel looks at the indices.
    """
    _, _, index, *source = record.args
    assert isinstance(index, torch.Tensor)
    others = [index, *(one for one in source if isinstance(one, torch.Tensor))]
    if any(storage_of(other) == storage_of(target) for other in others):
        return False
    shapes = {tuple(map(str, other.shape)) for other in others}
    # Along the other dimensions of the target it may not be longer; it has one alone.
    return index.dim() == target.dim() == 1 == len(shapes)


def _fits(shape: Sequence[int | torch.SymInt], whole: Sequence[int | torch.SymInt]) -> bool:
    """True if a shape is broadcast to another one, whatever the sizes are."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    # By their texts: symbolic numbers are not to be asked for a guard.
    return len(shape) <= len(whole) and all(str(a) in ("1", str(b)) for a, b in pairs)
