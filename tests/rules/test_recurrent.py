"""Recurrent modules."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from graphmend_bc.dynamo.graph import recurrent_operators
from graphmend_bc.dynamo.graph.recurrent_operators import form_of_results, one_operator
from tests.oracle import agrees, check
from tests.releases import STOCK_IS_WRONG, since
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
    "GRU": program("GRU"),
    "GRU, two layers, both ways": program("GRU", "num_layers=2, bidirectional=True, bias=False"),
    "GRU from a state": program("GRU", given=", torch.ones(1, 2, 5)"),
    "GRU of doubles": program("GRU", "dtype=torch.float64").replace("relu(x)", "relu(x.double())"),
    "GRU, frozen, that trains": program(
        "GRU", "num_layers=2", grad="enable_grad", mode="requires_grad_(False).train"
    ),
    "GRU of a model": of_module(mode="eval", grad="no_grad").replace("nn.LSTM", "nn.GRU"),
    "RNN of relus": program("RNN", "nonlinearity='relu', bidirectional=True"),
    "RNN of a model in inference mode": of_module(mode="train", grad="inference_mode").replace(
        "nn.LSTM", "nn.RNN"
    ),
    "both": of_module(mode="eval", grad="no_grad")
    .replace("nn.LSTM(5", "nn.GRU(5")
    .replace("rnn(y, state)", "rnn(y, state[0])"),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("source", WHOLE.values(), ids=WHOLE.keys())
def test_a_layer_is_an_operator(source: str, backend: str) -> None:
    outcome = agrees(source, [X, -X, X[:, :2]], backend=backend)
    if "inference" in source and not since(2, 13):
        assert "call-not-traced@" in outcome.declines
        return
    if source == WHOLE["frozen"] and backend == "aot_eager":
        # AOTAutograd runs the graph without gradients, for which oneDNN has another kernel.
        assert "call-not-traced@" in outcome.declines
        return
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
    "GRU with dropout": program("GRU", "num_layers=2, dropout=0.5", mode="train"),
    "GRU that learns": program("GRU", grad="enable_grad"),
    "GRU of a class of its own": program("GRU").replace(
        "rnn = nn.GRU", "class Own(nn.GRU):\n    pass\n\nrnn = Own"
    ),
    "GRU under autocast": program("GRU").replace(
        "torch.no_grad()", "torch.no_grad(), torch.autocast('cpu')"
    ),
    "a gradient of the sequence of a GRU": program(
        "GRU", mode="requires_grad_(False).eval", grad="enable_grad"
    ).replace("relu(x)", "relu(x.clone().requires_grad_())"),
    "GRU of halves": program("GRU", "dtype=torch.bfloat16").replace(
        "relu(x)", "relu(x.bfloat16())"
    ),
    "GRU in a transform": program("GRU").replace(
        "rnn(y)", "(torch.vmap(lambda t: rnn(t)[0])(y[None])[0], y)"
    ),
    "doubles": program(options="batch_first=True, dtype=torch.float64").replace(
        "relu(x)", "relu(x.double())"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", LEFT.values(), ids=LEFT.keys())
def test_what_becomes_a_graph_of_steps_is_left(source: str) -> None:
    outcome = agrees(source, [X, -X], grad=True)
    assert "inline" not in outcome.mends
    reasons = ("call-not-traced", "inside-transform", "unhandled-instruction")
    assert outcome.declines.split("@")[0] in reasons


def test_inductor_calls_the_operator() -> None:
    outcome = agrees(WHOLE["GRU, two layers, both ways"], [X, -X, X[:, :2]], backend="inductor")
    assert (outcome.breaks, outcome.declines) == (0, "")


@pytest.mark.parametrize("options", ["", "batch_first=True", "bidirectional=True"])
def test_sequences_of_other_lengths_are_one_graph(options: str) -> None:
    calls = [torch.linspace(-1, 1, 12 * n).reshape(3, n, 4) for n in range(2, 7)]
    if not options:
        calls = [call.transpose(0, 1) for call in calls]
    outcome = check(program("GRU", options), calls, None, orders=1)
    assert (outcome.graphs, outcome.breaks) == (2, 0)


@pytest.mark.parametrize("name", recurrent_operators.NAMES)
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("rows_first", [False, True])
def test_results_have_the_form_that_is_foreseen(name: str, both: bool, rows_first: bool) -> None:
    kind = torch.nn.GRU if name == "gru" else torch.nn.RNN
    for layers, bias, turned in product((1, 2), *[(False, True)] * 2):
        rnn = kind(4, 5, layers, bias=bias, batch_first=rows_first, bidirectional=both)
        for steps, rows in ((2, 3), (1, 1), (1, 3), (3, 1), (2, 0)):
            x = torch.ones((rows, steps, 4) if rows_first else (steps, rows, 4))
            x = x.transpose(0, 1).contiguous().transpose(0, 1) if turned else x
            state = torch.zeros(layers * (1 + both), rows, 5)
            given = (x, state, rnn._flat_weights, bias, layers, 0.0, False, both, rows_first)
            learn = [False] * 2 + [True] * len(rnn._flat_weights)
            with torch.no_grad():
                wanted, found = getattr(torch, name)(*given), one_operator(name)(learn, *given)
                forms = form_of_results(learn, *given)
            for tensor, same, foreseen in zip(wanted, found, forms, strict=True):
                assert torch.equal(tensor, same)
                assert len({(t.shape, t.stride(), t.dtype) for t in (tensor, same, foreseen)}) == 1


BODIES = {
    "in both arms": "y, state = rnn(x if x.sum() > 0 else -x)\n    return y * 2, state",
    "in a loop": "for _ in range(3):\n        x = torch.tanh(rnn(x)[0][..., :4])\n    return x",
    "before a layer that learns": "return last(rnn(x)[0])",
    "results are written to": "y, state = rnn(x)\n    y.add_(1)\n    x.add_(y[..., :4])\n"
    "    return rnn(x)[0], y, state",
    "of a sequence with a gradient": "x = x.clone().requires_grad_()\n    with torch.no_grad():\n"
    "        y = rnn(x)[0]\n    return (x * 2).sum() + y.sum()",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_it_stands_among_other_code(body: str) -> None:
    source = f"""
torch.manual_seed(0)
rnn, last = nn.GRU(4, 5, batch_first=True).requires_grad_(False), nn.Linear(5, 2)

def f(x):
    {body}
"""
    outcome = agrees(source, [X, -X, X[:, :2]], backend="aot_eager", grad=True)
    assert "inline@" in outcome.mends


@pytest.mark.skipif(since(2, 15), reason="InternalTorchDynamoError, without mending too.")
@pytest.mark.parametrize("mode", ["GRU", "LSTM"])
def test_a_class_of_your_own_calls_its_base(mode: str) -> None:
    """The mark of a call must not be on `super()`: torch asks which frame calls it."""
    source = f"""
        class Doubled(nn.{mode}):
            def forward(self, x, state=None):
                y, last = super().forward(x, state)
                return y * 2, last

        layer = Doubled(4, 5)
        around = torch.no_grad

        def f(x):
            return layer(x)
        """
    agrees(source, [torch.ones(2, 3, 4), -torch.ones(2, 3, 4)])


def test_settings_of_a_module_may_be_symbols() -> None:
    outcome = agrees(program("GRU"), [X, -X, X[:, :2]], dynamic=True)
    assert (outcome.breaks, outcome.declines) == (0, "")


def test_a_check_fails_after_the_module_ran() -> None:
    source = """
        torch.manual_seed(0)
        rnn = nn.GRU(4, 5)

        def f(x):
            with torch.no_grad():
                y, state = rnn(x)
            if y.sum() > 1:
                raise ValueError(f"Too large: {y.sum():.2f}")
            print(state.sum())
            return y * 2
        """
    outcome = agrees(source, [X, X * 20, -X, X * 30])
    assert "speculate@" in outcome.mends
    assert "defer@" in outcome.mends


def test_what_raises_raises_as_in_eager_python() -> None:
    source = program("GRU", options="", given=", h")
    source = source.replace("def f(x)", "def f(x, h)")
    good, wide, many = torch.zeros(1, 3, 5), torch.zeros(1, 3, 6), torch.zeros(2, 3, 5)
    agrees(source, [(X, good), (X, wide), (X, many), (X[:, :, :3], good), (X.double(), good)])
    agrees(source, [(X[:0], good), (X, good)])


@pytest.mark.parametrize(
    "change",
    [
        "rnn.weight_ih_l0.data.add_(1)",
        "rnn.register_forward_hook(lambda m, a, r: (r[0] + 1, r[1]))",
        "rnn = nn.RNN(4, 5, batch_first=True)",
        "rnn.weight_ih_l0.requires_grad_(True)",
        pytest.param(
            "rnn.double()", marks=pytest.mark.skipif(not since(2, 13), reason=STOCK_IS_WRONG)
        ),
        "rnn.train()",
    ],
)
def test_a_gru_changes(change: str) -> None:
    before = "torch.manual_seed(0)\nrnn = nn.GRU(4, 5, 2, dropout=0.5).requires_grad_(False).eval()"
    body = """
y, state = rnn(x.reshape(1, 3, 1).expand(1, 3, 4))
return y * 2, state
"""
    changing(before, body, change)


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
    if change == "rnn.double()" and not since(2, 13):
        pytest.skip("Torch's check of the weights' type is not traced: another error is raised.")
    before = "torch.manual_seed(0)\nrnn = nn.LSTM(4, 5, batch_first=True)"
    body = """
with torch.no_grad():
    y, state = rnn(x.reshape(1, 3, 1).expand(1, 3, 4))
return y * 2, state
"""
    changing(before, body, change)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences_are_left(kind: str) -> None:
    source = f"""
        torch.manual_seed(0)
        rnn = nn.{kind}(4, 5, batch_first=True)
        pack = nn.utils.rnn.pack_padded_sequence

        def f(x):
            with torch.no_grad():
                y, state = rnn(pack(x, [3, 2], batch_first=True))
                return y.data, state
        """
    agrees(source, [X, -X])
