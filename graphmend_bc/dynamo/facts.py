"""What differs between the torch releases we mend with, as named facts.

No other file of the project knows that releases of torch differ. A fact asks torch for what it has
rather than for its version; each shows the difference in a line or two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

import torch
from torch._dynamo import external_utils, symbolic_convert, trace_rules
from torch._dynamo import source as sources
from torch._dynamo import variables as vts
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables import builtin, dicts, functions, higher_order_ops, misc
from torch._dynamo.variables.base import VariableTracker
from torch._guards import ChainedSource, Source

T = TypeVar("T")

# Names of a variable's slots: until torch 2.14, and since.
GETATTR: Final = ("var_getattr", "tp_getattro_impl")
RICHCOMPARE: Final = ("richcompare_impl", "tp_richcompare_impl")
REPR: Final = ("repr_impl", "tp_repr_impl")
HASH: Final = ("hash_impl", "get_python_hash", "is_python_equal")
GETITEM: Final = ("vt_getitem", "generic_getitem")

# Dynamo keeps how it handles a builtin, with methods of its own class bound once and for all.
HANDLERS_OF_BUILTINS: Final = vts.BuiltinVariable.call_function_handler_cache

# Since torch 2.15, `t.requires_grad = True` is traced where it is known not to matter.
SETS_REQUIRES_GRAD: Final = any(
    "method_requires_grad_" in vars(kind)["_call_setattr"].__code__.co_names
    for kind in vars(builtin).values()
    if isinstance(kind, type) and "_call_setattr" in vars(kind)
)

# Until torch 2.14, `t[k] = v` calls the method `__setitem__`; since, this slot.
SETS_ITEMS_BY_SLOT: Final = "mp_ass_subscript_impl" in vars(vts.TensorVariable)

# torch 2.15: `get_dynamo_observed_exception` is imported by name into these, too.
RAISING: Final = tuple(
    (module.__name__, "get_dynamo_observed_exception") for module in (symbolic_convert, functions)
)

# torch 2.11: special methods of the user's classes are asked for by name. Since: by slots, which
# Dynamo caches for each type.
HAS_SLOTS: Final = not hasattr(dicts, "DefaultDictVariable")

# Until torch 2.14, keys are compared by `is_python_equal`, in torch 2.11 by their identity alone;
# since, by `tp_richcompare_impl`.
EQUALITY_OF_KEYS: Final = tuple(
    name for name in ("is_python_equal",) if HAS_SLOTS and hasattr(VariableTracker, name)
)

# torch 2.11: `del o.name` raises nothing where there is no such attribute.
DELETES_ANYTHING: Final = not HAS_SLOTS

# torch 2.11: nothing guards on numbers and texts that are read from a class.
GUARDS_CLASS_ATTRIBUTES: Final = HAS_SLOTS

# torch 2.11: `reversed(o)` takes the items of a list of the user's, whatever its class says.
REVERSES_LISTS: Final = not HAS_SLOTS

# torch 2.11: by default, nothing guards on defaults of functions that are numbers or texts.
SKIPS_DEFAULTS: Final = not HAS_SLOTS

# torch 2.11: `[1, 2][o]` raises for an object whose class has `__index__`.
REFUSES_INDEX: Final = not HAS_SLOTS

# torch 2.11: AOTAutograd fails for recurrent layers in inference mode; torch raises from then on.
FAILS_IN_INFERENCE_MODE: Final = not HAS_SLOTS

# Functions that keep for ever which slots a type has: `base` has two more since torch 2.14.
SLOT_CACHES: Final = tuple((f"{vts.__name__}.base", n) for n in ("_tp_type", "_compute_slotdefs"))

# Operators that depend on the length of a deque. torch 2.14: the third, too; 2.15: the last two.
DEQUE_OPERATORS: Final = (
    "sq_concat_impl",
    "sq_inplace_concat_impl",
    "sq_inplace_repeat_impl",
    "sq_repeat_impl",
    "_repeat_items",
)

# Since torch 2.14 tables are asked for attributes, before the slot is: `deque.maxlen` is there.
HAS_ATTRIBUTE_TABLES: Final = hasattr(VariableTracker, "lookup_tp_getset_member")

# Since torch 2.15 a table is asked for the methods of a tensor.
HAS_METHOD_TABLES: Final = "addcmul_" in getattr(vts.TensorVariable, "tp_methods", {})

# Before torch 2.15 the bounds of a slice of a list are not asked for an index.
TAKES_ANY_BOUND: Final = not hasattr(vts.SliceVariable, "as_index_slice")

# Since torch 2.14 Dynamo reads context variables itself, and does not guard on one that is not set.
READS_CONTEXT_VARIABLES: Final = hasattr(misc, "ContextVarVariable")

# Since torch 2.14 a call that lacks an argument raises in the trace; before, it breaks the graph.
RAISES_FOR_ARGUMENTS: Final = hasattr(functions, "BindArgsTypeError")

# torch 2.11: `o.__dict__` is a `GetAttrVariable`, answered by the object's own variable.
OWN_DICT: Final[tuple[type, ...]] = tuple(
    getattr(dicts, name) for name in ("DunderDictVariable",) if HAS_SLOTS
)

# What is reached by such a source has no guards.
UNGUARDED_SOURCES: Final[tuple[type[ChainedSource], ...]] = tuple(
    getattr(sources, name) for name in ("SkipGuardSource",) if hasattr(sources, name)
)

# Where Dynamo makes the text of an exception; in torch 2.15 that of an `OSError` still is another.
TEXT_OF_EXCEPTIONS: Final = tuple(
    name for name in ("call_str",) if hasattr(builtin.BuiltinVariable, name)
)

# The variables that are exceptions; torch 2.15 has the first elsewhere.
EXCEPTIONS: Final[tuple[Any, ...]] = tuple(
    getattr(vts, name) for name in ("ExceptionVariable", "UserDefinedExceptionObjectVariable")
)

# Where `7 in range(9)` is counted.
MEMBERSHIP_IN_RANGES: Final = tuple(
    name for name in ("sq_contains",) if hasattr(vts.RangeVariable, name)
)

# torch 2.13: `yield from` forgets what the inner generator returns; 2.15 has a function for it.
FORGETS_RETURNED: Final = not hasattr(symbolic_convert, "pygen_fetch_stopiteration_value")

# Where stock takes the descriptor of an attribute of a function for its value.
READS_DESCRIPTORS: Final[tuple[str, ...]] = tuple(
    name for name in ("fn_var_getattr",) if hasattr(functions, name)
)

# torch 2.15 gives the names of a function's code for those of the function.
NAMES_OF_CODE: Final[tuple[str, ...]] = tuple(
    name for name in ("get_name", "get_qualname") if not READS_DESCRIPTORS
)

# Where stock refuses an autograd function that is given a tensor twice.
REWIRES_GRADIENTS: Final[tuple[type, ...]] = tuple(
    kind
    for kind in (higher_order_ops.AutogradFunctionApplyVariable,)
    if hasattr(kind, "rewire_bwd_graph_outputs")
)

# torch 2.11 turns a hook of a tensor that is made in the graph into an autograd function.
HOOKS_ARE_FUNCTIONS: Final = hasattr(external_utils, "_ApplyBackwardHook")

# torch 2.11 traces `backward`, but does not find a gradient that the trace has set before.
TRACES_BACKWARD: Final = hasattr(vts.TensorVariable, "method_attr_grad")

# torch 2.11: `dicts.SetVariable`, and the builtin `dict` is a `BuiltinVariable` as any other.
# Since: `sets.SetVariable`, `DictBuiltinVariable`.
SETS: Final = f"{vars(vts)['SetVariable'].__module__}:SetVariable"
DICT_BUILTIN: Final = "DictBuiltinVariable" if HAS_SLOTS else "BuiltinVariable"


# What tells that a graph calls a function as it is. torch 2.11 lacks the second.
PUT_INTO_GRAPHS: Final[tuple[Callable[[object], bool], ...]] = tuple(
    getattr(trace_rules, name)
    for name in ("is_callable_allowed", "is_leaf_function")
    if hasattr(trace_rules, name)
)


_SAME_SLOT: Final = (GETATTR, RICHCOMPARE, REPR, ("next_variable", "tp_iternext_impl"))


def all_names(names: Iterable[str]) -> frozenset[str]:
    """Names of slots, in every release that has another one for it.

    Example:
        >>> sorted(all_names(["var_getattr", "as_proxy"]))
        ['as_proxy', 'tp_getattro_impl', 'var_getattr']
    """
    return frozenset(
        alias
        for name in names
        for alias in next((same for same in _SAME_SLOT if name in same), (name,))
    )


def with_slots(kind: type[T]) -> type[T]:
    """Give the slots that a class of variables defines the names that every release asks for."""
    for names in _SAME_SLOT:
        own = [vars(kind)[name] for name in names if name in vars(kind)]
        for name in names if own else ():
            setattr(kind, name, own[0])
    return kind


def slots() -> frozenset[str]:
    """The methods by which Dynamo asks a variable for what its Python value would do.

    Since torch 2.14 there are properties of similar names, which tell what slots the type has;
    a value has no say in these.
    """
    return frozenset(
        name
        for name, found in inspect.getmembers_static(VariableTracker, inspect.isfunction)
        if name.endswith("_impl") or name.startswith(("sq_", "mp_", "nb_", "tp_"))
    )


def hide_tables(kind: type[Any]) -> None:
    """Have attributes asked for by the slot; since torch 2.14 tables are asked first."""
    if HAS_ATTRIBUTE_TABLES:
        kind.lookup_tp_getset_member = lambda self, name: None


def method_read(callee: VariableTracker) -> tuple[VariableTracker, str] | None:
    """The object and the name of a method that a trace holds as `object.name`.

    Until torch 2.14 that is a `GetAttrVariable`; since, a `CallMethodVariable` for most objects.

    Args:
        callee: realized.

    Returns:
        None for anything else.
    """
    if isinstance(callee, vts.GetAttrVariable):
        return callee.obj, callee.name
    kind = getattr(misc, "CallMethodVariable", None)
    if kind is not None and isinstance(callee, kind):
        return callee.obj, callee.method_name
    return None


def bound_method(callee: VariableTracker) -> tuple[Any, VariableTracker] | None:
    """The function of a method of the user's, and what it is bound to.

    Until torch 2.14 a method has `fn` and `obj`, and a wrapped one is a method, too; since,
    `im_func` and `im_self`, and a wrapped one has its wrapper in `fn`.

    Args:
        callee: realized.

    Returns:
        None for anything else.
    """
    if isinstance(callee, functions.WrapperUserMethodVariable):
        wrapped: Any = getattr(callee, "fn", callee)
        return wrapped.wrapper_obj, callee.obj
    if isinstance(callee, vts.UserMethodVariable):
        owner = callee.im_self if hasattr(callee, "im_self") else callee.obj
        return callee.fn, owner
    return None


def text_of_format(
    tx: InstructionTranslatorBase, text: str, args: list[VariableTracker]
) -> VariableTracker:
    """`text.format(*args)`; since torch 2.14 `create` takes the translator first."""
    create: Any = misc.StringFormatVariable.create
    made: VariableTracker = (
        create(tx, text, args, {}) if _CREATE_TAKES_TX else create(text, args, {})
    )
    return made


_CREATE_TAKES_TX: Final = "tx" in misc.StringFormatVariable.create.__code__.co_varnames[:2]


def lacks_key(key: object, kind: Any = dicts.ConstDictVariable) -> tuple[Any, dict[str, Any]]:
    """What makes a guard that a dict or set lacks a key, and its keyword arguments.

    torch 2.11 has one function for having and lacking a key.

    Args:
        key: what is lacking.
        kind: the class of its variable.
    """
    if (make := getattr(kind, "NOT_CONTAINS_GUARD", None)) is not None:
        return make, {"key": key}
    return kind.CONTAINS_GUARD, {"key": key, "invert": True}


def has_key(key: object) -> tuple[Any, dict[str, Any]]:
    """What makes a guard that a dict has a key, and its keyword arguments; see `lacks_key`."""
    one_for_both = "invert" in inspect.signature(GuardBuilder.DICT_CONTAINS).parameters
    return GuardBuilder.DICT_CONTAINS, {"key": key} | ({"invert": False} if one_for_both else {})


def asks_attribute(where: Source, name: str) -> tuple[Source, Any, dict[str, Any]]:
    """What a guard on having an attribute looks at, what makes it, and its keyword arguments.

    torch 2.11 takes the source of the attribute.

    Args:
        where: the object.
        name: of the attribute.
    """
    if "attr" in inspect.signature(GuardBuilder.HASATTR).parameters:
        return where, GuardBuilder.HASATTR, {"attr": name}
    return AttrSource(where, name), GuardBuilder.HASATTR, {}


def items_of_set(variable: Any) -> VariableTracker:
    """The plain set that holds the items of a set of a class of the user's.

    torch 2.11 has `_set_vt`, 2.13 `_base_vt`; since 2.14 the variable itself is a set.
    """
    for name in ("_base_vt", "_set_vt"):
        if (found := getattr(variable, name, None)) is not None:
            return found  # type: ignore[no-any-return]
    return variable  # type: ignore[no-any-return]


def items_of_dict(variable: Any) -> Any:
    """The plain dict that holds the items of a dict of another class; see `items_of_set`."""
    return getattr(variable, "_base_vt", None) or variable


def tracked(output: OutputGraph) -> Iterator[tuple[Source, VariableTracker]]:
    """What a trace keeps a variable for, by its place; torch 2.11 keeps them by object, too."""
    known: Any = output.variable_tracker_cache
    for key, value in list(getattr(known, "cache", known).items()):
        yield key if isinstance(key, Source) else key.source, value


def may_reorder(callee: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call may be made after the graph that the user lets Dynamo make then.

    Since torch 2.14 Dynamo's check refuses keywords, which its own call after the graph would lack,
    so it is asked for all values as if they were positional.

    Args:
        callee: a `DebuggingVariable`; its check is told the function up to torch 2.14.
        args, kwargs: what it is called with.
    """
    check, values = callee.can_reorder_logs, [*args, *kwargs.values()]
    told = (callee.value,) if "fn" in inspect.signature(check).parameters else ()
    return bool(check(*told, values, {}))


def default_backend() -> str | Callable[..., Any]:
    """The backend of `torch.compile` where none is named, which newer releases let one set."""
    known = getattr(torch.compiler, "get_default_backend", None)
    return "inductor" if known is None else cast("str | Callable[..., Any]", known())
