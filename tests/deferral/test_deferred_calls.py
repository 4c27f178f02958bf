"""print and logger calls: same text, same records, same order and count as in eager Python."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    "call",
    [
        'print("plain")',
        'print("many", x, 3, None, sep=" | ", end="!")',
        'print(f"sum {x.sum()} of {x.shape} and {x.mean():.3f}")',
        'print("%s" % x.dtype, x.shape[0], [x, 1], (x + 1, "t"))',
        "print(x.sum() > 0, x.to(torch.int64))",
        "print()",
    ],
)
def test_print(call: str) -> None:
    check(
        f"""
        def f(x):
            y = x + 1
            {call}
            return y * 2
        """,
        BOTH,
        mends="defer@3",
    )


def test_print_to_a_stream() -> None:
    check(
        """
        import sys

        def f(x):
            print("to stdout", x, file=sys.stdout)
            return x + 1
        """,
        BOTH,
        mends="defer@4",
    )


LOGGER = """
import functools
logger = logging.getLogger("program")
"""


@pytest.mark.parametrize("method", ["debug", "info", "warning", "error", "critical"])
def test_logger_methods_and_their_location(method: str) -> None:
    check(
        f"""
        logger = logging.getLogger("program")
        logger.setLevel(logging.DEBUG)

        def f(x):
            y = x + 1
            logger.{method}("value %s of %d", y.sum(), 3)
            return y * 2
        """,
        BOTH,
        mends="defer@6",
    )


def test_disabled_level() -> None:
    check(
        """
        logger = logging.getLogger("program")
        logger.setLevel(logging.ERROR)

        def f(x):
            logger.info("value %s", x.sum())
            logger.error("kept")
            return x * 2
        """,
        BOTH,
        mends="defer@5 defer@6",
    )


def test_logger_as_attribute_and_in_callees() -> None:
    check(
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.log = logging.getLogger("program")

            def forward(self, x):
                self.log.warning("forward got %s", x.sum())
                return self.inner(x) + 1

            def inner(self, x):
                self.log.warning("inner got %s", x.max())
                return x * 2

        model = Model()

        def f(x):
            y = model(x)
            model.log.warning("f got %s", y.min())
            return model(y)
        """,
        BOTH,
        mends="defer@7 defer@11 defer@18",
    )


def test_cached_method_logs_once() -> None:
    check(
        """
        import functools

        class Logger(logging.Logger):
            @functools.lru_cache(None)
            def warning_once(self, *args, **kwargs):
                self.warning(*args, **kwargs)

        logger = Logger("program")
        logger.parent = logging.getLogger("program")

        def f(x):
            logger.warning_once("only once")
            return x + 1
        """,
        [UP, DOWN, UP],
        mends="defer@12",
    )


def test_argument_keeps_its_value_at_the_call() -> None:
    check(
        """
        def f(x):
            y = x + 1
            seen = [y]
            print("before", y, seen)
            y.add_(10)
            seen.append(y)
            print("after", y, seen)
            return y
        """,
        BOTH,
        mends="defer@4 defer@7",
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("held = [y]", "text = f'{held}'", "held.append(2)"),
        ("held = [y.sum().item()]", "text = '{} {}'.format(held, 1)", "held.clear()"),
        ("held = {'a': y}", "text = f'{held!r}' if False else f'{held}'", "held['b'] = 1"),
        ("held = (y, [1])", "text = f'{held}'", "held[1].append(3)"),
        ("held = y", "text = f'{[held]} {held}'", "y.add_(1)"),
    ],
)
def test_text_of_what_changes_after_it_was_made(lines: tuple[str, ...]) -> None:
    check(
        f"""
        def f(x):
            y = x + 1
            {lines[0]}
            {lines[1]}
            {lines[2]}
            print(text)
            return y
        """,
        BOTH,
        mends="defer@3 defer@6" if "item()" in lines[0] else "defer@6",
    )


def test_input_printed_before_it_is_mutated() -> None:
    check(
        """
        def f(x):
            print("before", x)
            x.mul_(2)
            print("after", x)
            return x + 1
        """,
        BOTH,
        mends="defer@2 defer@4",
    )


def test_effects_in_arms_run_when_taken_and_in_order() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def f(x):
            print("start")
            y = x + 1
            if x.sum() > 0:
                logger.warning("positive %s", x.sum())
                y = y * 2
            else:
                print("negative", x.sum())
            print("end", y)
            return y
        """,
        BOTH,
        mends="defer@4 where@6 defer@7 defer@10 defer@11",
    )


def test_nested_predicates() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                if x.max() > 2:
                    print("both")
                print("outer")
            elif x.min() < -2:
                print("low")
            return y
        """,
        [UP, DOWN, UP * 0.1, DOWN * 0.1],
        mends="where@3 where@4 defer@5 defer@6 where@7 defer@8",
    )


def test_effect_before_a_break_that_stays() -> None:
    check(
        """
        def f(x):
            y = x + 1
            print("first", y)
            torch._dynamo.graph_break()
            print("second", y.sum())
            return y * 2
        """,
        BOTH,
        mends="defer@3 defer@5",
        declines="break-requested@4",
        breaks=1,
    )


def test_effect_in_a_loop() -> None:
    check(
        """
        def f(x):
            for i in range(3):
                x = x + i
                print(i, x)
            return x
        """,
        BOTH,
        mends="defer@4",
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "value", ["x", "x * 2", "(x * 2).sum()", "[x.exp(), (x - 1).mean()]", "x.view(3, 1).relu()"]
)
def test_tensors_with_history_show_eagers_nodes(value: str, backend: str) -> None:
    check(
        f"""
        logger = logging.getLogger("program")

        def f(x):
            y = x * 3
            print("is", {value}, "%s" % 3)
            logger.warning("is %s", {value})
            print(f"{{y}} {{y!r}} {{y.sum()}} {{y.sum()!s}}")
            return (y * x).sum()
        """,
        [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()],
        mends="defer@5 defer@6 defer@7",
        grad=True,
        backend=backend,
    )


def test_node_of_an_operator_that_is_not_listed() -> None:
    check(
        """
        def f(x):
            y = torch.linalg.inv(x)
            print(y)
            return y
        """,
        [torch.eye(3).requires_grad_()],
        declines="effect-shows-grad@3",
        breaks=1,
    )


def test_user_function_registered_as_effect() -> None:
    import graphmend_bc as gm

    seen: list[tuple[int, float]] = []

    def observe(step: int, value: torch.Tensor) -> None:
        seen.append((step, float(value)))

    def f(x: torch.Tensor) -> torch.Tensor:
        observe(3, x.sum())
        return x + 1

    with gm.config.patch(effects=[observe]), gm.enabled():
        assert torch.equal(torch.compile(f, backend="eager", fullgraph=True)(UP), UP + 1)
    assert seen == [(3, 6.0)]
    assert [mend.strategy for mend in gm.report().mends] == ["defer"]


def test_sites_inside_transforms_are_left_alone() -> None:
    check(
        """
        def g(x):
            print("in a transform")
            return x * 2

        def f(x):
            return torch.func.vmap(g)(x) + 1
        """,
        BOTH,
        declines="inside-transform@2",
        breaks=3,
    )


def test_argument_that_cannot_be_kept() -> None:
    check(
        """
        class Config:
            size = 3

            def __repr__(self):
                return f"Config({self.size})"

        def f(x):
            print(Config(), x.sum())
            return x + 1
        """,
        BOTH,
        declines="effect-argument@8",
        breaks=1,
    )


def test_callee_that_differs_between_paths() -> None:
    check(
        """
        import builtins

        def f(x, loud):
            (print if loud else builtins.print)("text")
            return x + 1
        """,
        [(UP, True), (DOWN, False)],
        mends="defer@4",
    )


def test_effect_in_a_generator_is_left_alone() -> None:
    check(
        """
        def numbers(x):
            print("start")
            yield x + 1
            print("rest")
            yield x + 2

        def f(x):
            return next(numbers(x)) * 2
        """,
        BOTH,
        declines="effect-in-generator@2",
        breaks=None,
    )


def test_exchanged_stream_is_left_alone() -> None:
    outcome = check(
        """
        import io, sys

        def f(x):
            old, sys.stdout = sys.stdout, io.StringIO()
            print("hidden")
            sys.stdout = old
            return x + 1
        """,
        BOTH,
        declines=None,
        breaks=None,
    )
    assert "effect-moved@5" in outcome.declines
