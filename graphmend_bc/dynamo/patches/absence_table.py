"""The seams at which a trace learns that something is absent, or what classes and hooks hold."""

from __future__ import annotations

from typing import Final

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence import (
    absent_defaults,
    absent_keys,
    absent_names,
    abstract_classes,
    class_lookups,
    class_writes,
    module_hooks,
    own_operators,
    special_methods,
    standard_globals,
)
from graphmend_bc.dynamo.before_graph import context_variables
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.patches.seam import Seam

_VARIABLES = "torch._dynamo.variables"
_DICT = f"{_VARIABLES}.dicts:ConstDictVariable"
_LIST = f"{_VARIABLES}.lists:ListVariable"
_TUPLE = f"{_VARIABLES}.lists:TupleVariable"
_OWN_DICT = f"{_VARIABLES}.dicts:DunderDictVariable"
_OBJECT = f"{_VARIABLES}.user_defined:UserDefinedObjectVariable"
_CLASS = f"{_VARIABLES}.user_defined:UserDefinedClassVariable"
_PYTHON_MODULE = f"{_VARIABLES}.misc:PythonModuleVariable"
_FUNCTION = f"{_VARIABLES}.functions:UserFunctionVariable"
_TENSOR = f"{_VARIABLES}.tensor:TensorVariable"
_NN_MODULE = f"{_VARIABLES}.nn_module:UnspecializedNNModuleVariable"

_ITEMS: Final = (
    Seam(
        _DICT,
        ("getitem_const_raise_exception_if_absent",),
        absent_keys.subscript,
        "a key that a dict lacks",
    ),
    Seam(_DICT, ("as_python_constant",), absent_keys.take_whole, "whether a dict is empty"),
    *(
        Seam(
            owner,
            ("call_method",),
            absent_keys.take_all,
            "the keys of a dict, for a container",
            inherited=True,
        )
        for owner in (f"{_VARIABLES}.lists:ListVariable", facts.SETS)
    ),
    Seam(
        f"{_VARIABLES}.builtin:{facts.DICT_BUILTIN}",
        ("call_custom_dict_fromkeys",),
        absent_keys.take_keys,
        "the keys of a dict, for another one",
    ),
    Seam(
        f"{_VARIABLES}.builtin:BuiltinVariable",
        ("call_function",),
        absent_keys.use_whole,
        "the keys of a dict, in a text or for another container",
    ),
    Seam(
        _DICT,
        ("call_method",),
        absent_keys.take_item,
        "a key that a method does not find",
        inherited=True,
    ),
)

_ITEMS_BY_SLOT: Final = (
    Seam(_DICT, facts.REPR, absent_keys.show_items, "the keys of a dict, in a text"),
    Seam(
        f"{_VARIABLES}.user_defined:DefaultDictVariable",
        ("mp_subscript_impl",),
        absent_keys.default_item,
        "a key that a dict with a default lacks",
    ),
    Seam(
        f"{_VARIABLES}.user_defined:OrderedDictVariable",
        ("call_method",),
        absent_keys.take_item,
        "a key that a method does not find",
        inherited=True,
    ),
    Seam(
        _OWN_DICT,
        ("install_dict_contains_guard",),
        absent_keys.ask_attributes,
        "an attribute that is looked for in `__dict__`",
    ),
    Seam(
        _OWN_DICT,
        ("install_dict_keys_match_guard",),
        absent_keys.list_attributes,
        "the attributes that `__dict__` holds",
    ),
)

_ITEMS_BY_NAME: Final = (
    Seam(
        f"{_VARIABLES}.dicts:DefaultDictVariable",
        ("call_method",),
        absent_keys.default_item_by_method,
        "a key that a dict with a default lacks",
    ),
    *(
        Seam(
            owner,
            ("has_key_in_generic_dict",),
            absent_names.ask_own,
            "an attribute that is looked for in `__dict__`",
        )
        for owner in (_OBJECT, _CLASS)
    ),
)

_ATTRIBUTES: Final = (
    *(
        Seam(
            owner,
            facts.GETATTR,
            absent_names.attribute,
            "an attribute that a value lacks",
            inherited=owner is _FUNCTION,
        )
        for owner in (_OBJECT, _CLASS, _PYTHON_MODULE, _FUNCTION, _TENSOR)
    ),
    *(
        Seam(
            owner,
            facts.GETATTR,
            absent_names.attribute_of_container,
            "an attribute that a container lacks",
            inherited=True,
        )
        for owner in (_TUPLE, _LIST, _DICT)
    ),
    *(
        Seam(
            owner,
            ("call_obj_hasattr",),
            absent_names.has_attribute,
            "an attribute that is asked for",
            inherited=True,
        )
        for owner in (_PYTHON_MODULE, _FUNCTION, *[_TENSOR] * (not facts.HAS_SLOTS))
    ),
    Seam(
        _CLASS,
        ("call_obj_hasattr",),
        class_writes.has_attribute,
        "an attribute that the frame has set on a class",
    ),
    Seam(
        _OBJECT,
        ("method_setattr_standard",),
        absent_names.change_attribute,
        "an attribute that the frame itself sets or deletes",
    ),
    *(
        Seam(
            f"{_VARIABLES}.functions",
            ("bind_args_cached",),
            absent_defaults.bind_absent_defaults,
            "an argument for which there is no default",
        )
        for _ in range(facts.RAISES_FOR_ARGUMENTS)
    ),
    Seam(
        "torch._dynamo.symbolic_convert:InstructionTranslatorBase",
        ("load_builtin",),
        absent_names.load_builtin,
        "a global that a module lacks, where a builtin stands for it",
    ),
    *(
        Seam(
            f"torch._dynamo.symbolic_convert:{owner}",
            ("_load_global",),
            absent_names.load_global,
            "a global that the frame does not use",
        )
        for owner in ("InstructionTranslatorBase", "InliningInstructionTranslator")
    ),
    Seam(
        "torch._dynamo.symbolic_convert:InliningInstructionTranslator",
        ("get_globals_source_and_value",),
        standard_globals.global_of_callee,
        "what a global of a standard module holds",
    ),
)


_CLASSES: Final = (
    Seam(
        f"{_VARIABLES}.user_defined:UserDefinedVariable",
        ("_maybe_get_baseclass_method",),
        class_lookups.looked_up,
        "what the bases of a class hold",
    ),
    Seam(_NN_MODULE, ("call_function",), class_lookups.called, "the method that calls a module"),
    Seam(
        f"{_VARIABLES}.misc:SuperVariable",
        ("_resolved_getattr_and_source",),
        class_lookups.looked_up_in_bases,
        "what `super()` finds",
    ),
    *(
        Seam(owner, facts.GETATTR, module_hooks.asked_for_hooks, "the hooks of a module")
        for owner in (_NN_MODULE, _PYTHON_MODULE)
    ),
)

_CLASSES_BY_SLOT: Final = (
    Seam(
        _OBJECT,
        ("lookup_class_mro_attr",),
        class_lookups.looked_up,
        "what the class of a value holds",
    ),
    Seam(_CLASS, ("lookup_cls_mro_attr",), class_lookups.looked_up, "what a class holds"),
    Seam(
        f"{_VARIABLES}.object_protocol",
        ("_get_cached_slots",),
        special_methods.special_slots_of,
        "the operators of a class, of which Dynamo keeps the answer for ever",
        also=facts.SLOT_CACHES,
    ),
    Seam(_OBJECT, facts.RICHCOMPARE, special_methods.compared, "an object that is compared"),
    Seam(
        f"{_VARIABLES}.builtin",
        facts.GETITEM,
        special_methods.subscripted,
        "whether a class can be subscripted",
    ),
)

_CLASSES_BY_NAME: Final = (
    Seam(
        _OBJECT,
        ("try_get_descritor_and_setter_py_func",),
        class_lookups.looked_up,
        "what the class of a value holds",
    ),
    Seam(_CLASS, facts.GETATTR, class_lookups.read_of_class, "what a class holds"),
    Seam(
        f"{_VARIABLES}.builtin:BuiltinVariable",
        ("call_function",),
        special_methods.rejected,
        "an operator that an object lacks",
    ),
)

_SPECIAL: Final = (
    *(
        Seam(
            f"{_VARIABLES}.misc:ContextVarVariable",
            ("_get_value",),
            context_variables.get_unset,
            "a context variable that is not set",
            needed_by=(capabilities.COMPUTED_GUARDS,),
        )
        for _ in range(facts.READS_CONTEXT_VARIABLES)
    ),
    *(
        Seam(_OBJECT, (name,), special_methods.found_equal, "an object that is a key")
        for name in facts.EQUALITY_OF_KEYS
    ),
    *(
        Seam(
            f"{_VARIABLES}.builtin:BuiltinVariable",
            (name,),
            abstract_classes.asked_for_class,
            "classes that are registered with an abstract one",
        )
        for name in ("call_isinstance", "call_issubclass")
    ),
    Seam(
        f"{_VARIABLES}.builtin:BuiltinVariable",
        ("_handle_insert_op_in_graph",),
        own_operators.operated,
        "the operators of a class that has a `__torch_function__`, which Dynamo asks first",
    ),
    Seam(
        f"{_VARIABLES}.builtin:BuiltinVariable",
        ("call_callable",),
        special_methods.asked_if_callable,
        "whether an object can be called",
    ),
    Seam(
        f"{_VARIABLES}.builtin:BuiltinVariable",
        ("call_reversed",),
        special_methods.asked_to_reverse,
        "whether an object can be reversed",
    ),
    Seam(
        _OBJECT,
        ("_check_for_getattr",),
        special_methods.asked_for_getattr,
        "the method that is asked for attributes that are not found",
    ),
)

_OF_RELEASE: Final = (
    (*_ITEMS_BY_SLOT, *_CLASSES_BY_SLOT)
    if facts.HAS_SLOTS
    else (*_ITEMS_BY_NAME, *_CLASSES_BY_NAME)
)

SEAMS: Final = (*_ITEMS, *_ATTRIBUTES, *_CLASSES, *_SPECIAL, *_OF_RELEASE)
