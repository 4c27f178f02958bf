"""Room on the interpreter's stack: no memory is mapped for each call, however deep it is made."""

from __future__ import annotations

import resource

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.frames.stack_room import launched_by, with_stack_room
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


def deeper(depth, call):
    return call() if depth == 0 else deeper(depth - 1, call)


def faults_of_graph(operators, device):
    """The most page faults of `CALLS` calls of a mended graph, of calls from many depths."""
    counts = []

    def backend(graph, inputs):
        def run(*args):
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
            for _ in range(CALLS):
                leaf()
            counts.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
            return graph(*args)

        return run

    @torch.compile(backend=backend)
    def program(x):
        if (x > 0).any():
            x = -x
        y = torch.ones(2, device=device)
        for _ in range(operators):
            y = y + 1
        return x, y

    torch._dynamo.reset()
    with gm.enabled():
        for depth in range(250):
            deeper(depth, lambda: program(torch.ones(2)))
    assert len(counts) == 250
    return max(counts)


@pytest.mark.slow
def test_no_memory_for_each_kernel_of_a_large_graph():
    assert faults_of_graph(300, "meta") < CALLS / 2


@pytest.mark.parametrize(("device", "launched"), [("cpu", 0), ("meta", 301)])
def test_operators_that_are_launched(device, launched):
    """C code calls kernels on the CPU; room would cost more than they do."""
    counts = []

    def backend(graph, inputs):
        counts.append(launched_by(graph.graph))
        return graph

    @torch.compile(backend=backend)
    def program():
        y = torch.ones(2, device=device)
        for _ in range(300):
            y = y + 1
        return y

    program()
    assert counts == [launched]
    assert (with_stack_room(program, launched) is program) == (device == "cpu")


def test_value_and_error():
    assert call_with_stack_room(max, [1, 3], key=lambda n: -n) == 1
    with pytest.raises(ZeroDivisionError):
        call_with_stack_room(divmod, 1, 0)
