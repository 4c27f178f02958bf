"""Small forms of library code in which breaks stay: they break no more often than under stock."""

from __future__ import annotations

import pytest

from tests.engine.test_break_memory import DOWN, UP, compiled

FORMS = {
    "non-maximum suppression": """
        def f(x):
            order, kept = x.argsort(), []
            while order.numel() > 0:
                first = order[0]
                kept.append(first)
                order = order[1:][x[order[1:]] > x[first] + 0.5]
            return torch.stack(kept)
        """,
    "an enum made of a number that is read": """
        import enum

        class Kind(enum.Enum):
            LOW = 1
            HIGH = 2

        def f(x):
            kind = Kind(int((x.max() > 0).int().item()) + 1)
            if kind is Kind.HIGH:
                x = x * 3
            return x + kind.value
        """,
    "steps in an order that is drawn": """
        def f(x):
            generator = torch.Generator().manual_seed(int(x[0] > 0))
            for step in torch.randperm(3, generator=generator).tolist():
                if step == 0:
                    x = x + 1
                elif step == 1:
                    x = x * 2
                else:
                    x = x - 3
            return x
        """,
    "what the first call sets up": """
        class Codebook(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("ready", torch.tensor([False]))
                self.register_buffer("codes", torch.zeros(2))

            def set_up(self, x):
                if self.ready:
                    return
                self.codes.data.copy_(x)
                self.ready.data.copy_(torch.tensor([True]))

            def forward(self, x):
                self.set_up(x)
                return (x - self.codes).abs()

        f = Codebook()
        """,
    "text that is cleaned below two calls": """
        import sysconfig

        def inner(x, name):
            x = x * 2
            sysconfig.get_path(name.strip().lower())
            return x + 1

        def middle(x):
            if x.sum() > 0:
                x = x + 3
            return inner(x, " Stdlib ")

        def f(x):
            return middle(x) * 2
        """,
    "a handler around a break": """
        import os

        def f(x):
            try:
                y = x * 2
                os.getcwd()
                if y.sum() > 0:
                    raise ValueError
            except ValueError:
                y = y + 1
            return y
        """,
    "a break in a loop over layers": """
        import os

        def layer(x, n):
            if x.max() > 100:
                x = x / 2
            if n == 1:
                os.getcwd()
            return x * 1.5

        def f(x):
            for n in range(3):
                x = layer(x, n)
            return x
        """,
    "a loss that keeps a history": """
        history = []

        def f(x):
            history.append(x.sum().item())
            if len(history) > 2:
                del history[0]
            return x * len(history)
        """,
    "pooling by a score": """
        def f(x):
            score = x.softmax(0)
            count = int(torch.ceil(0.5 * score.gt(0.1).sum()).item())
            kept = score.topk(count).indices
            return x[kept] * score[kept]
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
def test_no_more_breaks_than_stock(source: str) -> None:
    calls = [UP, DOWN, UP, DOWN]
    ours, _ = compiled(source, calls)
    stock, _ = compiled(source, calls, mends=False)
    assert sum(bool(f.break_reason) for f in ours) <= sum(bool(f.break_reason) for f in stock)


FAILED = {
    "non-maximum suppression": 10,
    "an enum made of a number that is read": 4,
    "steps in an order that is drawn": 7,
}
"""Attempts that fail in all frames of a first call; one in the others."""


@pytest.mark.parametrize("name", FORMS)
def test_attempts(name: str) -> None:
    frames, _ = compiled(FORMS[name], [UP])
    assert sum(len(frame.attempts) for frame in frames) <= FAILED.get(name, 1)
