"""Differences that a backend makes of every graph, and not mending."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from graphmend_bc import session
from graphmend_bc.testing.observation import FIELDS, Observed
from tests.fuzz.arms import compiled, shown, where
from tests.fuzz.programs import Program
from tests.fuzz.rounding import is_rounding


def is_backends(program: Program, expected: list[Observed], mended: list[Observed]) -> bool:
    """True for what AOTAutograd does with every graph, while the same graph run as it is is exact.

    It drops operators whose result nothing uses, those that draw or raise included, and gives zeros
    to what only reaches outputs without a gradient, where eager Python leaves None. A graph is one
    node to autograd: a backward pass from any of its results goes through all of it. Stock graphs
    are the same, only smaller.
    """
    if program.backend == "eager":
        return False
    if program.backend == "inductor":  # what AOTAutograd does with it, Inductor does not undo
        below = replace(program, backend="aot_eager")
        found = compiled(below, session.new_state(mends=True))
        if where(expected, found) and not is_rounding(expected, found):
            return is_backends(below, expected, found)
    ways = (_differs_in_zeros, _goes_back_twice, is_rounding)
    if not any(way(expected, mended) for way in ways) and not _drops_operators(program):
        return False
    plain = compiled(replace(program, backend="eager"), session.new_state(mends=True))
    return where(expected, plain) is None


def _differs_in_zeros(expected: list[Observed], mended: list[Observed]) -> bool:
    """True if all that differs is gradients that are zeros or missing, or random numbers."""
    for want, got in zip(expected, mended, strict=True):
        if shown(want, "random_numbers") != shown(got, "random_numbers"):
            return True  # what follows a draw that was dropped draws other numbers
        for name in FIELDS:
            if name == "gradients":
                if _ZEROS.sub("None", shown(want, name)) != _ZEROS.sub("None", shown(got, name)):
                    return False
            elif shown(want, name) != shown(got, name):
                return False
    return True


def _goes_back_twice(expected: list[Observed], mended: list[Observed]) -> bool:
    """True if they differ in a call whose backward pass goes through a graph of an earlier call."""
    place = where(expected, mended)
    return place is not None and _BACK_TWICE in shown(mended[place[0]], "exception")


_BACK_TWICE = "Trying to backward through the graph a second time"


def _drops_operators(program: Program) -> bool:
    """True if a graph that is run as it is raises, or draws, where the compiled one does not."""
    dropped = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled = torch._dynamo.lookup_backend(program.backend)(graph, examples)

        def run(*inputs: Any) -> Any:
            raises, generator = _as_it_is(graph, inputs)
            outputs = compiled(*inputs)
            dropped.append(raises or not torch.equal(generator, torch.get_rng_state()))
            return outputs

        return run

    # Such a backend cannot be saved.
    compiled(replace(program, way="in turn"), session.new_state(mends=True), backend)
    return any(dropped)


def _as_it_is(graph: torch.fx.GraphModule, inputs: tuple[Any, ...]) -> tuple[bool, torch.Tensor]:
    """Whether a graph raises, and the generator's state after it."""
    copies = [
        value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    ]
    with torch.random.fork_rng():
        try:
            graph(*copies)
        except Exception:
            return True, torch.get_rng_state()
        return False, torch.get_rng_state()


_ZEROS = re.compile(r"\('NoneType', 'None'\)|\('torch\.\w+', [^']*'[\[\]\-0., ]*', \w+, '\w+'\)")
"""A gradient as the oracle shows it, if it is missing or zero."""
