"""Effects behind functions of libraries: rank-zero wrappers, front ends, run objects that log."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

RANK_ZERO = """
import functools, warnings

logger = logging.getLogger("program")

def rank_zero_only(fn, default=None):
    @functools.wraps(fn)
    def wrapped_fn(*args, **kwargs):
        rank = getattr(rank_zero_only, "rank", None)
        if rank is None:
            raise RuntimeError("The rank needs to be set before use")
        if rank == 0:
            return fn(*args, **kwargs)
        return default

    return wrapped_fn

def _info(*args, stacklevel=2, **kwargs):
    kwargs["stacklevel"] = stacklevel
    logger.warning(*args, **kwargs)

@rank_zero_only
def rank_zero_info(*args, stacklevel=4, **kwargs):
    _info(*args, stacklevel=stacklevel, **kwargs)

def _warn(message, stacklevel=2, **kwargs):
    warnings.warn(message, stacklevel=stacklevel, **kwargs)

@rank_zero_only
def rank_zero_warn(message, stacklevel=4, **kwargs):
    _warn(message, stacklevel=stacklevel, **kwargs)

class WarningCache(set):
    def warn(self, message, stacklevel=5, **kwargs):
        if message not in self:
            self.add(message)
            rank_zero_warn(message, stacklevel=stacklevel, **kwargs)

class Run:
    @rank_zero_only
    def log(self, metrics, step=None):
        print("logged", metrics, step)

run, cache = Run(), WarningCache()
"""
REAL = """
from lightning_utilities.core import rank_zero
from lightning_utilities.core.rank_zero import WarningCache, rank_zero_info, rank_zero_only, rank_zero_warn

rank_zero.log = logging.getLogger("program")
rank_zero.log.setLevel(logging.INFO)

class Run:
    @rank_zero_only
    def log(self, metrics, step=None):
        print("logged", metrics, step)

run, cache = Run(), WarningCache()
"""
OF_LIBRARY = "defer@rank_zero.py"
# Each with what is mended on the first rank and on others, of the look-alike and of the library.
CALLS = {
    'rank_zero_info("loss %s", x.sum().item())': (
        ("defer@19 defer@49", "defer@49"),
        (f"defer@18 {OF_LIBRARY}", "defer@18"),
    ),
    'rank_zero_warn("warned", category=RuntimeWarning)': (("defer@26", ""), (OF_LIBRARY, "")),
    'rank_zero_warn(f"sum {x.sum():.1f}")': (("defer@26", ""), (OF_LIBRARY, "")),
    'cache.warn("once")': (("defer@26", ""), (OF_LIBRARY, "")),
    'run.log({"loss": x.mean().item()}, step=3)': (
        ("defer@41 defer@49", "defer@49"),
        ("defer@10 defer@18", "defer@18"),
    ),
}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("library", ["look-alike", "lightning-utilities"])
def test_rank_zero(library: str, call: str, rank: int) -> None:
    program = f"""{RANK_ZERO if library == "look-alike" else REAL}
rank_zero_only.rank = {rank}

def f(x):
    y = x * 2
    {call}
    return y + 1
"""
    check(program, [UP, DOWN, UP], CALLS[call][library != "look-alike"][rank])


def test_rank_that_changes_between_calls() -> None:
    check(
        f"""{RANK_ZERO}
def f(x):
    return step(x) if isinstance(x, torch.Tensor) else setattr(rank_zero_only, "rank", x)

def step(x):
    run.log({{"loss": x.mean().item()}})
    return x + 1
""",
        [0, UP, 1, UP, 0, DOWN],
        mends="defer@41 defer@49",
        breaks=None,
        declines=None,
        orders=1,
    )


@pytest.mark.parametrize(
    ("call", "mends", "declines"),
    [
        ("show(x.sum().item(), 'b', sep='-')", "defer@5 defer@14", ""),
        ("print('a', *values, sep='-')", "defer@14", ""),
        ("print(*(1, 2), **{'end': '!'})", "defer@14", ""),
        ("print(*values)", "", "unhandled-instruction@14"),
        ("print(*names)", "", "unhandled-instruction@14"),
        ("replaced(1)", "", "unhandled-instruction@11"),
    ],
)
def test_unpacked_arguments(call: str, mends: str, declines: str) -> None:
    check(
        f"""
        values, names = [1, 9], {{1}}
        names.update((9, 8))

        def show(*args, **kwargs):
            print(*args, **kwargs)

        def replaced(*args):
            args = {{1}}
            args.add(9)
            args.add(8)
            print(*args)

        def f(x):
            {call}
            return x + 1
        """,
        BOTH,
        mends=mends,
        declines=declines,
        breaks=bool(declines),
    )


CACHED = """
import functools

logger = logging.getLogger("program")

class Adapter(logging.LoggerAdapter):
    @functools.lru_cache(None)
    def warning_once(self, *args, **kwargs):
        self.warning(*args, **kwargs)

class Counting(logging.Logger):
    calls = 0

    @functools.lru_cache(None)
    def warning_once(self, *args, **kwargs):
        self.warning(*args, **kwargs)

    def warning(self, *args, **kwargs):
        self.calls += 1
        super().warning(*args, **kwargs)

adapter, counting = Adapter(logger, {}), Counting("program")
counting.parent = logger

def info(text):
    print("own", text)

@functools.lru_cache(None)
def own_once(text):
    info(text)

@functools.lru_cache(None)
def printed_once(text):
    print(text)

@functools.cache
def warning_once(text):
    logger.warning(text)
    return 3

def f(x):
    {call}
    return x + 1
"""


@pytest.mark.parametrize(
    ("call", "mends", "declines", "breaks"),
    [
        ("adapter.warning_once('%s is old', 'it')", "defer@41", "", 0),
        ("warning_once('dropped')", "defer@41", "", 0),
        ("counting.warning_once('text')", "", "call-not-traced@41", 1),
        ("own_once('text')", "", "effect-in-cache@25", 1),
        (
            "printed_once('a'); printed_once('b'); printed_once('a')",
            "",
            "effect-in-cache@33",
            3,
        ),
        ("x = x * warning_once('used')", "", "effect-in-cache@37", 1),
    ],
)
def test_functions_that_cache(call: str, mends: str, declines: str, breaks: int) -> None:
    check(CACHED.replace("{call}", call), [UP, DOWN, UP], mends, declines, breaks)


class Run:
    """Looks like a run of an experiment tracker."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def log(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self.rows.append((step, metrics))


def test_run_of_a_tracker() -> None:
    with gm.config.patch(effects=[Run.log]):
        check(
            """
            from tests.deferral.test_wrappers import Run

            rows = []

            class Trainer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.run = Run()
                    self.run.rows = rows
                    self.layer = nn.Linear(3, 1)
                    nn.init.ones_(self.layer.weight)

                def forward(self, x, step):
                    loss = self.layer(x).square().mean()
                    self.run.log({"loss": loss.item(), "lr": 0.1}, step=step)
                    if loss > 10:
                        self.run.log({"large": loss.detach()}, step=step)
                    return loss

            trainer = Trainer()

            def f(x, step):
                return trainer(x, step)
            """,
            [(UP, 1), (DOWN, 2), (UP * 0.1, 3)],
            mends="defer@15 where@16 defer@17",
            grad=True,
        )
