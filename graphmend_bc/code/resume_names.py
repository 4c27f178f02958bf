"""The names that Dynamo gives to the functions which go on after its graph breaks."""

from __future__ import annotations

import re

# `m` of a class C, broken in line 7: "C.torch_dynamo_resume_in_m_at_7". It has the qualifiers of
# the function, so it need not be the whole name, and a break in it wraps its name once more. Each
# pair of both ends stands for one break: the function's own name may end with "_at_1".
_RESUMED = re.compile(r"torch_dynamo_resume_in_([\w<>]+)_at_(-?\d+)(?!\w)")


def without_resumption(text: str) -> str:
    """Names of functions as the program has them.

    Args:
        text: a name, qualified or not, or any text with such names.

    Returns:
        The text without what Dynamo adds to names.

    Example:
        >>> without_resumption("C.torch_dynamo_resume_in_step_at_7")
        'C.step'
    """
    while (inner := _RESUMED.sub(r"\1", text)) != text:
        text = inner
    return text


def is_resumed(name: str) -> bool:
    """True for the name of a function that goes on after a break."""
    return _RESUMED.search(name) is not None


def in_words(name: str) -> str:
    """The name of a function for people.

    Args:
        name: the function's, qualified or not.

    Returns:
        The name that the program has, and the line of the break after which it goes on.

    Example:
        >>> in_words("C.torch_dynamo_resume_in_step_at_7")
        'C.step, after the break in line 7'
    """
    last = _RESUMED.search(name)
    if last is None:
        return name
    return f"{without_resumption(name)}, after the break in line {last[2]}"
