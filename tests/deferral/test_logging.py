"""The logging module beyond plain Logger methods: full records, levels, adapters, stack positions."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    "call",
    [
        'logger.log(logging.WARNING, "norm %s", x.sum())',
        'logger.log(7, "below the level")',
        'logger.warning("step", extra={"step": 3, "norm": x.sum()})',
        'logger.warning("%(a)s of %(b)s", {"a": x.sum(), "b": 3})',
        'logger.warning("no exception", exc_info=False)',
        'logger.error("nothing is being handled", exc_info=True)',
        'logger.exception("nothing is being handled")',
        'logger.warning("here", stacklevel=1)',
        'logger.warning("the caller", stacklevel=2)',
        'logger.warning("its caller", stacklevel=3)',
        'logger.warning(f"{x.sum():.3f} {x.shape} {x.dtype} {x.device}")',
        'logger.warning(type(x), "no format") if False else logger.warning(type(x))',
    ],
)
def test_records(call: str) -> None:
    check(
        f"""
        logger = logging.getLogger("program")

        def f(x):
            y = x + 1
            {call}
            return y * 2
        """,
        BOTH,
        mends="defer@5",
    )


def test_module_level_functions() -> None:
    check(
        """
        seen = []

        class Keep(logging.Handler):
            def emit(self, record):
                seen.append([record.name, record.getMessage(), record.lineno, record.funcName, record.pathname])

        for old in [h for h in logging.getLogger().handlers if type(h).__name__ == "Keep"]:
            logging.getLogger().removeHandler(old)
        logging.getLogger().addHandler(Keep())

        def f(x):
            logging.warning("x is %s", x.sum())
            logging.debug("off")
            logging.log(logging.CRITICAL, "thrice")
            return x + 1
        """,
        BOTH,
        mends="defer@12 defer@13 defer@14",
    )


def test_caller_whose_name_ends_as_that_of_a_resumed_function() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def tell(x):
            logger.warning("x is %s", x.sum(), stacklevel=2)

        def f(x):
            return look_at_1(x + 1)

        def look_at_1(x):
            torch._dynamo.graph_break()
            tell(x)
            return x * 2
        """,
        BOTH,
        mends="defer@4",
        declines="break-requested@10",
        breaks=2,
    )


@pytest.mark.parametrize("method", ["info", "warning", "error", "exception"])
def test_adapter(method: str) -> None:
    check(
        f"""
        logger = logging.getLogger("program")
        adapter = logging.LoggerAdapter(logger, {{"run": 7}})

        def f(x):
            adapter.{method}("norm %s", x.sum())
            return x + 1
        """,
        BOTH,
        mends="defer@5",
    )


def test_adapter_with_its_own_process() -> None:
    check(
        """
        class Prefixed(logging.LoggerAdapter):
            def process(self, msg, kwargs):
                return f"[{self.extra['run']}] {msg}", kwargs

        adapter = Prefixed(logging.getLogger("program"), {"run": 7})

        def f(x):
            adapter.warning("norm %s", x.sum())
            return x + 1
        """,
        BOTH,
        mends="defer@8",
    )


def test_level_is_asked_for() -> None:
    check(
        """
        logger = logging.getLogger("program")

        logger.setLevel(logging.NOTSET)

        def f(x):
            if logger.isEnabledFor(logging.WARNING):
                logger.warning("norm %s", x.sum())
            if logger.getEffectiveLevel() <= logging.DEBUG:
                logger.debug("never")
            return x + 1
        """,
        BOTH,
        mends="defer@6 defer@7 defer@8",
    )


def test_level_that_changes_between_calls() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def f(x, level):
            return inner(x) if level is None else set_level(level)

        def inner(x):
            logger.info("norm %s", x.sum())
            if logger.isEnabledFor(logging.INFO):
                x = x * 2
            return x + 1

        def set_level(level):
            logger.setLevel(level)
        """,
        [(UP, 10), (UP, None), (DOWN, 40), (UP, None), (UP, 0), (DOWN, None)],
        mends="defer@7 defer@8",
        declines=None,
        breaks=2,
        orders=1,
    )


def test_answers_that_change_between_calls() -> None:
    check(
        """
        logger = logging.getLogger("program")
        parent = logging.getLogger("program.child")
        adapter = logging.LoggerAdapter(parent, {})

        def f(x, change):
            return step(x) if change is None else exec(change, globals())

        def step(x):
            for log in (logger, parent, adapter):
                log.info("norm %s", x.sum())
                log.debug("sum %s", x.sum().item())
            if parent.getEffectiveLevel() == 7:
                x = x * 2
            return x + int(logger.isEnabledFor(25)) + int(parent.hasHandlers())
        """,
        [
            (UP, change)
            for change in (
                *("logger.setLevel(10)", None, "logger.setLevel(20)", None, None),
                *("logging.disable(20)", None, "logging.disable(0)", None),
                *("parent.setLevel(7)", None, "parent.level = 0", None),
                *("logger.disabled = True", None, "logger.disabled = False", None),
                *("parent.propagate = False", None, "parent.propagate = True", None),
                *("parent.setLevel(0)", None, "logger.setLevel(0)", None),
            )
        ],
        mends="defer@10 defer@11 defer@12 defer@14",
        declines=None,
        breaks=None,
        orders=1,
    )


def test_stack_level_counts_inlined_callers_and_no_arms() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def deprecated(x, message):
            if x.sum() > 0:
                logger.warning(message, stacklevel=2)
            return x

        class Layer(nn.Module):
            def forward(self, x):
                return deprecated(
                    x, "use the other layer"
                ) + 1

        layer = Layer()

        def f(x):
            return layer(x)
        """,
        BOTH,
        mends="where@4 defer@5",
    )


def test_exception_of_the_caller() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def f(x):
            logger.warning("while handling", exc_info=True)
            return x + 1
        """,
        BOTH,
        mends="defer@4",
    )


def test_stack_text_is_left_alone() -> None:
    outcome = check(
        """
        logger = logging.getLogger("program")

        class Cut(logging.Filter):
            def filter(self, record):
                record.stack_info = (record.stack_info or "").splitlines()[-1:]
                return True

        logger.filters[:] = [Cut()]

        def f(x):
            logger.warning("text", stack_info=True)
            logger.filters.clear()
            return x + 1
        """,
        [UP],
        mends="",
        declines=None,
        breaks=1,
    )
    assert "effect-stack@11" in outcome.declines


def test_exception_that_the_function_handles() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def f(x):
            try:
                raise KeyError("k")
            except KeyError:
                logger.exception("handled")
            return x + 1
        """,
        BOTH,
        declines="effect-stack@7",
        breaks=1,
    )


def test_cached_function() -> None:
    check(
        """
        import functools

        logger = logging.getLogger("program")

        @functools.lru_cache(None)
        def warn_once(message):
            logger.warning(message)

        def f(x):
            warn_once("only once")
            return x + 1
        """,
        [UP, DOWN, UP],
        mends="defer@10",
    )


@pytest.mark.parametrize("way", ["x.sum() > 0", "True"], ids=["also in a miss", "always"])
def test_records_of_a_resumed_function_have_its_own_name(way: str) -> None:
    check(
        f"""
        logger = logging.getLogger("program")

        def inner(x):
            logger.warning("sum %s", x.sum(), stacklevel=2)

        def f(x):
            y = x + 1
            torch._dynamo.graph_break()
            k = 2 if {way} else 3
            logger.warning("%s", k)
            inner(y)
            return y * k, k
        """,
        BOTH,
        mends="defer@4 defer@10" if way == "True" else "defer@4 speculate@9 defer@10",
        declines="break-requested@8",
        breaks=1,
    )
