"""Room on the interpreter's stack: no memory is mapped for each call, however deep it is made."""

from __future__ import annotations

import resource

import pytest

from graphmend_bc.runtime.data_stack import call_with_stack_room

CALLS = 500


def leaf():
    a = b = c = d = e = f = g = h = 0  # so that frames are of some size
    return a + b + c + d + e + f + g + h


def most_faults(depth):
    """The most page faults of `CALLS` calls, of all depths up to a number."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        leaf()
    here = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    return here if depth == 0 else max(here, most_faults(depth - 1))


def test_no_memory_for_each_call():
    most_faults(300)
    assert call_with_stack_room(most_faults, 300) < CALLS / 2


def test_value_and_error():
    assert call_with_stack_room(max, [1, 3], key=lambda n: -n) == 1
    with pytest.raises(ZeroDivisionError):
        call_with_stack_room(divmod, 1, 0)
