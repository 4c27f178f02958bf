"""Names of what goes on after a break, as Dynamo makes them and as people read them."""

from __future__ import annotations

import pytest

from graphmend_bc.code.resume_names import in_words, is_resumed, without_resumption

NAMES = {
    "torch_dynamo_resume_in_f_at_12": ("f", 12),
    "Net.torch_dynamo_resume_in_forward_at_7": ("Net.forward", 7),
    "make.<locals>.torch_dynamo_resume_in_step_at_3": ("make.<locals>.step", 3),
    "torch_dynamo_resume_in_<lambda>_at_4": ("<lambda>", 4),
    "torch_dynamo_resume_in_torch_dynamo_resume_in_f_at_12_at_15": ("f", 15),
    "A.torch_dynamo_resume_in_torch_dynamo_resume_in_m_at_2_at_9": ("A.m", 9),
    "torch_dynamo_resume_in_value_at_0_at_8": ("value_at_0", 8),
    "A.torch_dynamo_resume_in_torch_dynamo_resume_in_look_at_1_at_5_at_6": ("A.look_at_1", 6),
    "torch_dynamo_resume_in_f_at_-1": ("f", -1),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_goes_on_has_the_name_of_its_function(name: str) -> None:
    function, line = NAMES[name]
    assert is_resumed(name)
    assert without_resumption(name) == function
    assert in_words(name) == f"{function}, after the break in line {line}"


@pytest.mark.parametrize(
    "name", ["f", "Net.forward", "value_at_0", "<lambda>", "f.<locals>.g_at_1"]
)
def test_other_names_are_left(name: str) -> None:
    assert not is_resumed(name)
    assert without_resumption(name) == in_words(name) == name


def test_names_in_a_text() -> None:
    text = "'m.py', 3, 'torch_dynamo_resume_in_f_at_2', (torch_dynamo_resume_in_g_at_1_at_9)"
    assert without_resumption(text) == "'m.py', 3, 'f', (g_at_1)"
