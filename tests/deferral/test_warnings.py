"""warnings.warn: category, location, stack level, once-registries, filters that make it an error."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    "call",
    [
        'warnings.warn("plain")',
        'warnings.warn("deprecated", DeprecationWarning)',
        'warnings.warn("own", category=Own)',
        'warnings.warn(f"norm {x.sum():.2f}", RuntimeWarning)',
        'warnings.warn("the caller", UserWarning, 2)',
        'warnings.warn("the caller", stacklevel=2)',
        'warnings.warn("the caller\'s caller", stacklevel=3)',
        'warn("imported by name")',
        'warnings.warn_explicit("explicit", UserWarning, "elsewhere.py", 77)',
    ],
)
def test_warn(call: str) -> None:
    check(
        f"""
        import warnings
        from warnings import warn

        class Own(UserWarning):
            pass

        def f(x):
            y = x + 1
            {call}
            return y * 2
        """,
        [UP, DOWN, UP],
        mends="defer@9",
    )


def test_location_is_that_of_the_inlined_caller() -> None:
    check(
        """
        import warnings

        def deprecated(x):
            warnings.warn("use the other one", DeprecationWarning, stacklevel=2)
            return x * 2

        def f(x):
            x = deprecated(x)
            x = deprecated(
                x + 1
            )
            return x
        """,
        [UP, DOWN, UP],
        mends="defer@4",
    )


@pytest.mark.parametrize("action", ["always", "ignore", "once", "default", "module"])
def test_filters(action: str) -> None:
    check(
        f"""
        import warnings

        warnings.filterwarnings("{action}", module=__name__)

        def f(x):
            for i in range(3):
                warnings.warn("in a loop")
                warnings.warn(f"number {{i}}")
            return x + 1
        """,
        [UP, DOWN, UP],
        mends="defer@7 defer@8",
    )


def test_warning_under_a_predicate() -> None:
    check(
        """
        import warnings

        warnings.filterwarnings("always", module=__name__)

        def f(x):
            if torch.isnan(x).any():
                warnings.warn("nan in the input")
            return x + 1
        """,
        [UP, torch.tensor([1.0, float("nan"), 2.0]), DOWN],
        mends="where@6 defer@7",
    )


def test_error_filter_before_compilation_is_left_alone() -> None:
    check(
        """
        import warnings

        warnings.filterwarnings("error", module=__name__)

        def f(x):
            x.add_(1)
            try:
                warnings.warn("not allowed")
            except UserWarning as error:
                print("caught", error)
            x.add_(1)
            return x + 1
        """,
        BOTH,
        declines="effect-raises@8",
        breaks=1,
    )


def test_error_filter_set_later_runs_the_original_code() -> None:
    check(
        """
        import warnings

        state = {}

        def f(x, action):
            if action is not None:
                warnings.filterwarnings(action, module=__name__)
                return None
            return inner(x)

        def inner(x):
            print("before")
            state["before"] = 1
            y = x * 2
            try:
                warnings.warn("not allowed")
            except UserWarning as error:
                print("caught", error)
                return y
            state["after"] = y
            print("after")
            return y + 1
        """,
        [(UP, None), (UP, "error"), (DOWN, None), (UP, None), (UP, "ignore"), (DOWN, None)],
        mends="defer@12 defer@16 defer@21",
        declines=None,
        breaks=None,
        orders=1,
    )


def test_error_surfaces_with_the_users_line() -> None:
    check(
        """
        import traceback, warnings

        def warn(x):
            warnings.warn(f"norm {x.sum():.1f}")
            return x

        def g(x):
            return warn(x) + 1

        lines = []

        def f(x, action):
            if action is not None:
                warnings.filterwarnings(action, module=__name__)
                return None
            try:
                return g(x)
            except UserWarning as error:
                lines.append([(s.lineno, s.name) for s in traceback.extract_tb(error.__traceback__) if s.filename == "<program>"])
                raise
        """,
        [(UP, None), (UP, "error"), (DOWN, None), (UP, None)],
        mends="defer@4",
        declines=None,
        breaks=None,
        orders=1,
    )


def test_catch_warnings_inside_the_function() -> None:
    check(
        """
        import warnings

        def f(x):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.warn("hidden")
            return x + 1
        """,
        BOTH,
        mends="flags@5 flags@6",
    )


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    "block",
    [
        "with warnings.catch_warnings(record=True) as caught:",
        "with warnings.catch_warnings(record=True) as caught, torch.no_grad():",
        "with recording() as caught:",
        "with contextlib.ExitStack() as s, s.enter_context(recording()) as caught:",
    ],
)
def test_warnings_that_the_function_records(block: str, called: bool) -> None:
    outcome = check(
        f"""
        import contextlib
        import warnings

        @contextlib.contextmanager
        def recording():
            with warnings.catch_warnings(record=True) as caught:
                yield caught

        def g(x):
            {block}
                warnings.warn("recorded")
            return x + len(caught)

        def f(x):
            return g(x) * 2

        {"" if called else "f = g"}
        """,
        BOTH,
        mends="",
        declines=None,
        breaks=None,
    )
    assert "defer" not in outcome.mends


def test_closed_stream_raises_where_eager_does() -> None:
    check(
        """
        import io

        stream = io.StringIO()
        log = []

        def f(x, close):
            if close:
                stream.close()
                return None
            return inner(x)

        def inner(x):
            log.append("before")
            print("first")
            try:
                print("second", x.sum(), file=stream)
            except ValueError as error:
                log.append(str(error))
                return x
            log.append("after")
            return x + 1
        """,
        [(UP, False), (DOWN, False), (UP, True), (UP, False), (DOWN, False)],
        mends="defer@14 defer@16",
        declines=None,
        breaks=None,
        orders=1,
    )
