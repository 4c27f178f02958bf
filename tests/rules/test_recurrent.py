"""Recurrent modules."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees
from tests.releases import since
from tests.surroundings import changing

X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)

MODEL = """
rnn = nn.{kind}(4, 5, {options})
rnn.{mode}()

def f(x):
    with torch.{grad}():
        y = torch.relu(x)
        y, state = rnn(y{given})
        return y * 2, state
"""


def program(
    kind: str = "LSTM",
    options: str = "batch_first=True",
    mode: str = "eval",
    grad: str = "no_grad",
    given: str = "",
) -> str:
    seeded = f"torch.manual_seed(0)\n{MODEL}"
    return seeded.format(kind=kind, options=options, mode=mode, grad=grad, given=given)


MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.rnn = nn.Parameter(torch.ones(4)), nn.LSTM(4, 5, batch_first=True)
        self.rest = nn.ModuleList([nn.LSTM(5, 5, batch_first=True) for _ in range(2)])

    def forward(self, x):
        {flattens}
        y, state = self.rnn(torch.relu(x) * self.scale, None)
        again, _ = self.rnn(x, state)
        for rnn in self.rest:
            y, _ = rnn(y, state)
        return y * 2 + again, state

torch.manual_seed(0)
model = Model().{mode}()

def f(x):
    with torch.{grad}():
        return model(x)
"""


def of_module(mode: str, grad: str) -> str:
    # torch 2.15 breaks the graph where it is asked for any method.
    flattens = "pass" if since(2, 15) else "self.rnn.flatten_parameters()"
    return MODULE.format(mode=mode, grad=grad, flattens=flattens)


STATE = ", (torch.ones(1, 2, 5), torch.zeros(1, 2, 5))"

WHOLE = {
    "plain": program(),
    "steps first": program(options=""),
    "two layers": program(options="num_layers=2, batch_first=True"),
    "both ways": program(options="bidirectional=True, batch_first=True"),
    "without bias": program(options="bias=False, batch_first=True"),
    "from a state": program(given=STATE),
    "training without dropout": program(mode="train"),
    "dropout that is off": program(options="num_layers=2, dropout=0.5, batch_first=True"),
    "of a model": of_module(mode="eval", grad="no_grad"),
    "of a model in inference mode": of_module(mode="train", grad="inference_mode"),
    "frozen": program(grad="enable_grad", mode="requires_grad_(False).eval"),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("source", WHOLE.values(), ids=WHOLE.keys())
def test_a_layer_is_an_operator(source: str, backend: str) -> None:
    outcome = agrees(source, [X, -X, X[:, :2]], backend=backend)
    assert (outcome.breaks, outcome.declines) == (0, "")
    assert "inline@" in outcome.mends


LEFT = {
    "gradients": program(grad="enable_grad"),
    "of a model that learns": of_module(mode="train", grad="enable_grad"),
    "a gradient of the sequence": program(
        mode="requires_grad_(False).eval", grad="enable_grad"
    ).replace("relu(x)", "relu(x.clone().requires_grad_())"),
    "dropout": program(options="num_layers=2, dropout=0.5, batch_first=True", mode="train"),
    "projections": program(options="proj_size=2, batch_first=True"),
    "GRU": program("GRU"),
    "RNN": program("RNN"),
    "doubles": program(options="batch_first=True, dtype=torch.float64").replace(
        "relu(x)", "relu(x.double())"
    ),
}


@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT.keys())
def test_what_becomes_a_graph_of_steps_is_left(source: str) -> None:
    outcome = agrees(source, [X, -X], grad=True)
    assert "inline" not in outcome.mends
    assert outcome.declines.split("@")[0] in ("call-not-traced", "unhandled-instruction")


@pytest.mark.parametrize(
    "change",
    [
        "rnn.weight_ih_l0.data.add_(1)",
        "rnn.weight_ih_l0 = nn.Parameter(torch.ones(20, 4))",
        "rnn.register_forward_hook(lambda m, a, r: (r[0] + 1, r[1]))",
        "rnn = nn.LSTM(4, 5, batch_first=True, bidirectional=True)",
        "rnn = nn.GRU(4, 5, batch_first=True)",
        "rnn.double()",
        "rnn.load_state_dict({k: v * 2 for k, v in rnn.state_dict().items()})",
    ],
)
def test_the_module_changes(change: str) -> None:
    before = "torch.manual_seed(0)\nrnn = nn.LSTM(4, 5, batch_first=True)"
    body = """
with torch.no_grad():
    y, state = rnn(x.reshape(1, 3, 1).expand(1, 3, 4))
return y * 2, state
"""
    changing(before, body, change)


def test_packed_sequences_are_left() -> None:
    source = """
        torch.manual_seed(0)
        rnn = nn.LSTM(4, 5, batch_first=True)
        pack = nn.utils.rnn.pack_padded_sequence

        def f(x):
            with torch.no_grad():
                y, state = rnn(pack(x, [3, 2], batch_first=True))
                return y.data, state
        """
    agrees(source, [X, -X])
