"""Which programs show that their seam is not there; the others only show that it is reached.

Behind some seams another one stands, or only larger programs need what they do.
"""

from __future__ import annotations

from typing import Final

from graphmend_bc.dynamo import facts

_NOT_ALONE: Final = frozenset(
    {
        "exc.get_dynamo_observed_exception (captures.raising)",
        "TensorVariable.call_method (frames.ask_tensor)",
        "TensorVariable.call_obj_hasattr (frames.ask_tensor)",
        "SymNodeVariable.create (symbolic_arithmetic.symbol_made)",
        "SymNodeVariable.richcompare_impl (frames.compare_symbols)",
        "InstructionTranslatorBase.call_function (call_retry.retry_calls)",
        "ContinueExecutionCache.lookup (resume_functions.resume_in_original)",
        "symbolic_convert._detect_and_normalize_assert_statement (assertions.detect_assert)",
        "ConstDictVariable.as_python_constant (absent_keys.take_whole)",
        "SetVariable.call_method (absent_keys.take_all)",
        "BuiltinVariable.call_function (absent_keys.use_whole)",
        f"{facts.DICT_BUILTIN}.call_custom_dict_fromkeys (absent_keys.take_keys)",
        "StringFormatVariable.reconstruct (object_texts.reconstruct_text)",
        "ConstDictVariable.repr_impl (absent_keys.show_items)",
        "UserDefinedObjectVariable.lookup_class_mro_attr (class_lookups.looked_up)",
        "UserDefinedObjectVariable.try_get_descritor_and_setter_py_func (class_lookups.looked_up)",
        "UserDefinedVariable._maybe_get_baseclass_method (class_lookups.looked_up)",
        "UserDefinedObjectVariable.is_python_equal (special_methods.found_equal)",
        "BuiltinVariable.call_reversed (special_methods.asked_to_reverse)",
        "UserDefinedObjectVariable._check_for_getattr (special_methods.asked_for_getattr)",
    }
)
"""Seams without which the program gives the same."""

_NOT_BY_NAME: Final = frozenset(
    {
        "ListVariable.call_method (absent_keys.take_all)",
        "UserDefinedClassVariable.call_function (finalisers.call_class)",
        "UserDefinedClassVariable.call_obj_hasattr (class_writes.has_attribute)",
    }
)
_NOT_WITH_TABLES: Final = frozenset(
    {
        "SideEffects.codegen_update_mutated (user_sets.replay_sets)",
        "TensorVariable.mp_ass_subscript_impl (frames.set_item)",
        "TensorVariable.mp_ass_subscript_impl (tensor_indexing.set_item)",
        "TensorVariable.call_method (tensor_indexing.call_method)",
        "BuiltinVariable.call_function (object_texts.call_builtin)",
        "DequeVariable.sq_repeat_impl (bounded_deques.repeated)",
        "TorchInGraphFunctionVariable.call_function (dropout.call_dropout)",
        "PythonModuleVariable.call_obj_hasattr (absent_names.has_attribute)",
        "OrderedDictVariable.call_method (absent_keys.take_item)",
        "UserDefinedClassVariable.lookup_cls_mro_attr (class_lookups.looked_up)",
        "BuiltinVariable.call_callable (special_methods.asked_if_callable)",
    }
)
"""The same, in releases of torch with such a feature only: others need what is done there."""


def shows_absence(label: str) -> bool:
    """Whether the program of a seam goes wrong in this torch where the seam is not put in.

    Args:
        label: the seam's.
    """
    by_slots = facts.HAS_SLOTS or label not in _NOT_BY_NAME
    by_names = not facts.HAS_ATTRIBUTE_TABLES or label not in _NOT_WITH_TABLES
    return label not in _NOT_ALONE and by_slots and by_names
