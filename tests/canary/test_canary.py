"""Each seam has a tiny program that reaches it and, where nothing else does its work, needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphmend_bc as gm
from graphmend_bc.canary import check
from graphmend_bc.canary.check import PROGRAMS, findings
from graphmend_bc.canary.program import Program
from graphmend_bc.contrib.load import extensions
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.patches import installer
from graphmend_bc.dynamo.patches.seam import ABSENT, Seam, SeamPlace, register_seam
from graphmend_bc.dynamo.patches.table import SEAMS
from graphmend_bc.engine.state import MendingState

ALL = (
    *installer._of_state(MendingState(), lambda *args: None, installer._Switch()),
    *SEAMS,
    *(seam for extension in extensions() for seam in extension.seams),
)
NOT_ALONE = frozenset(
    {
        "exc.get_dynamo_observed_exception (captures.raising)",
        "TensorVariable.call_method (frames.ask_tensor)",
        "TensorVariable.call_obj_hasattr (frames.ask_tensor)",
        "SymNodeVariable.create (symbolic_arithmetic.symbol_made)",
        "SymNodeVariable.richcompare_impl (frames.compare_symbols)",
        "BuiltinVariable.call_id (frames.ask_id)",
        "InstructionTranslatorBase.call_function (call_retry.retry_calls)",
        "ContinueExecutionCache.lookup (resume_functions.resume_in_original)",
        "symbolic_convert._detect_and_normalize_assert_statement (assertions.detect_assert)",
        "ConstDictVariable.as_python_constant (absent_keys.take_whole)",
        "SetVariable.call_method (absent_keys.take_all)",
        "BuiltinVariable.call_function (absent_keys.use_whole)",
        f"{facts.DICT_BUILTIN}.call_custom_dict_fromkeys (absent_keys.take_keys)",
        "StringFormatVariable.reconstruct (object_texts.reconstruct_text)",
        "InstructionTranslatorBase._format_value (tensor_formatting.format_value)",
        "ConstDictVariable.repr_impl (absent_keys.show_items)",
        "UserDefinedObjectVariable.lookup_class_mro_attr (class_lookups.looked_up)",
        "UserDefinedObjectVariable.try_get_descritor_and_setter_py_func (class_lookups.looked_up)",
        "UserDefinedVariable._maybe_get_baseclass_method (class_lookups.looked_up)",
        "UserDefinedObjectVariable.is_python_equal (special_methods.found_equal)",
        "BuiltinVariable.call_callable (special_methods.asked_if_callable)",
        "BuiltinVariable.call_reversed (special_methods.asked_to_reverse)",
        "UserDefinedObjectVariable._check_for_getattr (special_methods.asked_for_getattr)",
    }
)
"""Seams without which the program gives the same: another one stands behind it, or only larger
programs need it. That they are reached is all that these programs show."""

NOT_BY_NAME = frozenset({"ListVariable.call_method (absent_keys.take_all)"})
NOT_WITH_TABLES = frozenset(
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
    }
)
"""The same, in releases of torch with such a feature only: others need what is done there."""

ALONE = [
    seam
    for seam in ALL
    if seam.replaced
    and seam.label not in NOT_ALONE
    and (facts.HAS_SLOTS or seam.label not in NOT_BY_NAME)
    and not (facts.HAS_ATTRIBUTE_TABLES and seam.label in NOT_WITH_TABLES)
]


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    gm.disable()
    yield
    gm.disable()


def label(seam: Seam) -> str:
    return seam.label


def test_each_seam_has_one_program() -> None:
    labels = [seam.label for seam in ALL if seam.replaced]
    assert len(set(labels)) == len(labels)
    assert set(labels) <= set(PROGRAMS)


@pytest.mark.parametrize("seam", [seam for seam in ALL if seam.replaced], ids=label)
def test_is_reached_and_has_its_effect(seam: Seam) -> None:
    (found,) = findings(only=seam.label)
    assert found.ran or PROGRAMS[seam.label].needs
    assert found.reached or not found.ran
    assert found.fault == ""
    assert found.holds


@pytest.mark.parametrize("seam", ALONE, ids=label)
def test_the_program_shows_that_it_is_not_there(seam: Seam) -> None:
    staying: list[tuple[SeamPlace, object]] = []
    if seam.stays:
        staying = [(place, place.value()) for place in seam.places()]
    try:
        for place, value in staying:
            place.put(getattr(value, "__wrapped__", ABSENT))
        (found,) = findings(only=seam.label, without=seam.label)
        assert found.fault or not found.ran
    finally:
        for place, value in staying:
            place.put(value)


def test_a_seam_that_is_gone_around_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seam = Seam("torch._dynamo.utils", ("same",), lambda stock: stock, "nothing calls this")
    monkeypatch.setattr(check, "PROGRAMS", {**PROGRAMS, seam.label: Program("return x * 2")})
    registration = register_seam(seam)
    try:
        (found,) = findings(only=seam.label)
    finally:
        registration.remove()
    assert not found.reached
    assert not found.holds


def test_what_is_found_quickly_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check.bypassed.cache_clear()
    assert check.bypassed() == {}
    monkeypatch.setattr(check, "findings", None)
    assert check.bypassed() == {}
