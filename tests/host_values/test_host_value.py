"""Values read from tensors that only leave the graph: `.item()` in messages, histories and meters."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.backends import TORCH
from tests.oracle import check
from tests.orders import Wanted

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.5])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    "call",
    [
        "print(x.sum().item())",
        'print(f"loss {x.sum().item():.3f} and {x.mean().item()!r}")',
        'print("%.4f" % x.sum().item())',
        'print("{:8.2f}|".format(x.sum().item()))',
        "print(x.tolist(), x.to(torch.int64).tolist(), (x > 0).tolist(), x.sum().tolist())",
        "print(float(x.sum()), int(x.to(torch.int32).sum()), float(x.argmax()))",
        "print(round(x.sum().item(), 2), x.max().item() * 100)",
        'print("a" + str(x.sum().item()), -x.sum().item(), x.sum().item() / 3)',
        "print((x > 0).all().item(), x.argmax().item(), x.to(torch.complex64).sum().item())",
        "print([x.sum().item(), {'k': x.min().item()}])",
        "print(max(x.sum().item(), 2.5), min(0, x.argmax().item()), abs(x.sum().item()))",
    ],
)
def test_in_messages(call: str) -> None:
    check(
        f"""
        def f(x):
            y = x + 1
            {call}
            return y * 2
        """,
        BOTH,
        mends="defer@3",
        declines=None,
    )


def test_logged_loss_of_a_training_step() -> None:
    check(
        """
        logger = logging.getLogger("program")
        model = nn.Linear(3, 2)
        torch.manual_seed(1)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn_like(p))

        def f(x):
            loss = model(x).square().mean()
            logger.warning("loss %.4f", loss.item())
            print(f"loss {loss:.3f}", f"{loss}")
            return loss
        """,
        BOTH,
        mends="defer@10 defer@11",
        grad=True,
        backend="aot_eager",
    )


def test_history_and_dicts_hold_python_numbers() -> None:
    check(
        """
        history = []
        metrics = {"loss": [], "best": None}

        def f(x):
            loss = x.square().mean()
            history.append(loss.item())
            metrics["loss"].append(float(loss))
            metrics["last"] = loss.item()
            metrics["best"] = x.max().item()
            return loss, loss.item()
        """,
        [UP, DOWN, UP],
        mends="defer@6 defer@7 defer@8 defer@9 defer@10",
    )


def test_running_meter() -> None:
    check(
        """
        class AverageMeter:
            def __init__(self):
                self.sum = 0.0
                self.count = 0
                self.avg = 0.0

            def update(self, val, n=1):
                if isinstance(val, torch.Tensor):
                    val = val.item()
                self.val = val
                self.sum += val * n
                self.count += n
                self.avg = self.sum / self.count

        meter = AverageMeter()
        out = []

        def f(x):
            return show() if x is None else step(x)

        def step(x):
            loss = x.square().mean()
            meter.update(loss.item(), 3)
            meter.update(loss)
            return loss

        def show():
            out.append([meter.sum, meter.count, meter.avg, meter.val])
        """,
        [UP, None, DOWN, None, UP, None, DOWN, None, UP, None],
        mends="defer@9 defer@23",
        orders=1,
    )


@pytest.mark.parametrize(
    ("use", "mends"),
    [
        ("y = y * v", "capture@3"),
        ("y = y + torch.full((3,), v)", "capture@3"),
        ("y = y[: int(v)]", "capture@3 capture@4"),
        ("y = y * 2 if v > 0 else y", "capture@3 speculate@4"),
        ("y = y + (1 if v in [1.0, 2.0] else 0)", "hoist@3"),
        ("y = y + 1 / v", "hoist@3"),
    ],
)
def test_values_needed_in_the_graph(use: str, mends: str) -> None:
    check(
        f"""
        def f(x):
            y = x + 1
            v = x.sum().item()
            {use}
            return y
        """,
        BOTH,
        mends,
    )


@pytest.mark.parametrize("use", ["y = y + len({v: 1})", "y = y + hash(v) % 7"])
def test_values_needed_while_tracing_break_as_stock(use: str) -> None:
    # Earlier versions of torch break at the container instead, after the value was deferred.
    known = TORCH >= (2, 13)
    with gm.config.patch(rules_off=("hoist",)):
        check(
            f"""
            def f(x):
                y = x + 1
                v = x.sum().item()
                {use}
                return y
            """,
            BOTH,
            mends="" if known else None,
            declines="capture-fails@3" if known else None,
            breaks=1,
        )


def test_value_live_over_a_break_that_stays() -> None:
    check(
        """
        def f(x):
            v = x.sum().item()
            torch._dynamo.graph_break()
            print(v)
            return x * v
        """,
        BOTH,
        mends="defer@2 defer@4",
        declines="break-requested@3",
        breaks=1,
    )


def test_value_is_that_at_the_call() -> None:
    check(
        """
        history = []

        def f(x):
            history.append(x.sum().item())
            print(x.tolist())
            x.mul_(2)
            history.append(x.sum().item())
            return x + 1
        """,
        BOTH,
        mends="defer@4 defer@5 defer@7",
    )


def test_text_made_before_a_change_and_printed_after_it() -> None:
    check(
        """
        def f(x):
            y = x + 1
            before = f"{y}"
            y.add_(10)
            after = f"{y.sum():.1f}"
            print(after)
            print(before)
            return y, before
        """,
        BOTH,
        mends="defer@6 defer@7",
    )


def test_str_and_repr() -> None:
    check(
        """
        def f(x):
            y = x + 1
            text = str(y)
            y.add_(10)
            print(text, repr(y), f"{y!r:>60} {y!s} {y.sum().item()!r}")
            return y
        """,
        BOTH,
        mends="defer@3 defer@5",
    )


def test_str_that_is_looked_at() -> None:
    check(
        """
        def f(x):
            text = str(x)
            return x + len(text)
        """,
        BOTH,
        declines="host-value-used@2",
        breaks=1,
    )


def test_in_an_arm() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                print("positive", x.sum().item())
                y = y * 2
            return y
        """,
        BOTH,
        mends="where@3 defer@4",
    )


def test_wrong_number_of_elements_raises_as_eager() -> None:
    check(
        """
        def f(x):
            print("before")
            print(x.item())
            return x
        """,
        [UP, torch.tensor([2.0])],
        mends="defer@2 defer@3",
        declines=None,
        breaks=None,
    )


def test_none_check_and_types() -> None:
    check(
        """
        seen = []

        def note(value=None, kind=float):
            if value is not None and isinstance(value, kind):
                seen.append(value)

        def f(x):
            note(x.sum().item())
            note(x.argmax().item(), int)
            note()
            return x + 1
        """,
        BOTH,
        mends="defer@8 defer@9",
    )


@pytest.mark.parametrize(
    ("text", "mends"),
    [
        ("f'{x.max().item():d}'", ""),
        ("'%ld' % x.max().item()", "hoist@3"),
        (
            "'%c' % x.to(torch.int64).max().item()",
            # A value that raises in the first call is not tried a second time.
            {"forward": "hoist@3", "reversed": ""},
        ),
        ("str(round(x.max().item(), -308))", "hoist@3"),
        ("str(float(x.to(torch.int64).max().item() * 10**400))", ""),
    ],
)
def test_texts_that_cannot_be_made_of_every_value(text: str, mends: Wanted[str]) -> None:
    check(
        f"""
        def f(x):
            try:
                v = {text}
            except (ValueError, OverflowError, TypeError):
                v = "none"
            return x + 1, v
        """,
        [torch.tensor([1.0, 2.0]), torch.tensor([float("nan"), -3.0]), torch.tensor([-1.0, -2.0])],
        mends,
        None,
        None,
    )


@pytest.mark.parametrize(
    "use",
    [
        *("b == 1", "b != 0", "b in (1, 2)", "b not in (0, 2)", "b is True", "b is not False"),
        *("b & 1", "b | 2", "b ^ True", "b + 1", "1 - b", "b < 1", "not b", "[5, 6][b]"),
        *("max(b, 0)", "sum([b, b])", "{True: 4, False: 3}[b]", "b and 3", "int(b)", "str(b)"),
    ],
)
@pytest.mark.parametrize("value", ["(n > 3).item()", "n.item() > 3"])
def test_truth_values_that_are_computed_with(use: str, value: str) -> None:
    """Also in a resumed function, which is compiled without the first one's plans."""
    check(
        f"""
        def f(x, n, seen):
            if x.sum() > 5:
                seen.append(1)
            b = {value}
            y = x + 2 if {use} else x + 5
            torch._dynamo.graph_break()
            b = {value}
            return y + 1 if {use} else y, {use}
        """,
        [(torch.ones(3), torch.tensor(n), []) for n in (5, 1)],
        mends="speculate@2 speculate@4 speculate@7",
        declines=None,
        breaks=None,
        orders=2,
    )
