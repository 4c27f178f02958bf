"""Stochastic depth: layers that random numbers leave out, in the forms that libraries have."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest
import torch

from tests.oracle import agrees
from tests.settling import Life, live

MODEL = """
import random
import numpy as np
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.outer(torch.relu(self.inner(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range({layers})])
        self.layerdrop = {rate}

    def forward(self, x):
{body}
        return x


torch.manual_seed(0)
model = Model()


def f(x):
    return model(x)
"""

FORMS = {
    "skips, as a value": """
        for layer in self.layers:
            skips = True if self.training and torch.rand([]) < self.layerdrop else False
            if not skips:
                x = layer(x)
        """,
    "skips, as a flag": """
        for layer in self.layers:
            skips = False
            if self.training:
                chance = torch.rand([])
                if chance < self.layerdrop:
                    skips = True
            if not skips:
                x = layer(x)
        """,
    "goes on with the next": """
        for layer in self.layers:
            if self.training and torch.rand([]) < self.layerdrop:
                continue
            x = layer(x)
        """,
    "a number": """
        for layer in self.layers:
            if not (self.training and torch.rand(1).item() <= self.layerdrop):
                x = layer(x)
        """,
    "of NumPy": """
        for layer in self.layers:
            chance = np.random.random()
            if not self.training or chance > self.layerdrop:
                x = layer(x)
        """,
    "of Python": """
        for layer in self.layers:
            chance = random.uniform(0, 1)
            if self.training and chance < self.layerdrop:
                continue
            x = layer(x)
        """,
    "drawn at once": """
        chances = torch.rand(len(self.layers))
        for i, layer in enumerate(self.layers):
            if not self.training or chances[i] > self.layerdrop:
                x = layer(x)
        """,
    "filled": """
        chances = torch.empty(len(self.layers)).uniform_()
        for i, layer in enumerate(self.layers):
            if not self.training or chances[i] > self.layerdrop:
                x = layer(x)
        """,
    "of a distribution": """
        for layer in self.layers:
            if torch.bernoulli(torch.tensor([1 - self.layerdrop])) == 1:
                x = layer(x)
        """,
}


def program(form: str, layers: int, rate: float) -> str:
    body = textwrap.indent(textwrap.dedent(FORMS[form]).strip(), " " * 8)
    return MODEL.format(layers=layers, rate=rate, body=body)


def seed(number: int) -> None:
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def lived(form: str, layers: int, rate: float, *, mends: bool) -> Life:
    calls = [(torch.full((2, 4), float(number)),) for number in range(30)]
    source = program(form, layers, rate)
    return live(source, calls, 20, mends=mends, before_call=seed)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_no_check_fails_where_many_layers_may_be_left_out(form: str) -> None:
    stock, mended = (lived(form, 6, 0.1, mends=mends) for mends in (False, True))
    assert mended.total.failed == 0
    assert mended.rest.compilations == mended.rest.attempts == 0
    assert mended.total.compilations <= stock.total.compilations


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("form", FORMS)
def test_layers_that_are_left_out_have_no_gradient(form: str, backend: str) -> None:
    agrees(program(form, 3, 0.5), [torch.ones(2, 4)] * 4, grad=True, backend=backend)
