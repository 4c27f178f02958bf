"""Five Hugging Face models under ``torch.compile``: a plain user's script.

Each model runs twice in eager and twice compiled. Outputs must be equal bit for bit, and so must
the log records: their number, order, level, text and place. The script exits with 1 if they are
not. It does not know graphmend_bc; that is the point of

    python benchmarks/demo.py
    python -m graphmend_bc run benchmarks/demo.py
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from models import MODELS, build
from torch.utils._pytree import tree_leaves

RUNS = 2


class Records(logging.Handler):
    """Keeps what a log shows of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        place = (record.pathname, record.lineno, record.funcName)
        self.seen.append((record.name, record.levelno, record.getMessage(), *place))


@contextmanager
def recorded_logs() -> Iterator[list[tuple[object, ...]]]:
    """Yields the records of transformers' loggers, with every once-only message due again."""
    logging.Logger.warning_once.cache_clear()
    logger, handler = logging.getLogger("transformers"), Records()
    logger.addHandler(handler)
    try:
        yield handler.seen
    finally:
        logger.removeHandler(handler)


def run(model: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> tuple[list[Any], list[Any]]:
    """Returns the leaves of the outputs of all runs, and the log records."""
    with torch.no_grad(), recorded_logs() as records:
        outputs = [model(**inputs) for _ in range(RUNS)]
    # An output of transformers is a dict: its tensors, caches included, are leaves of a tuple.
    return tree_leaves([output.to_tuple() for output in outputs]), records


def same(a: Any, b: Any) -> bool:
    """Equality that tensors must meet in type, layout and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return _facts(a) == _facts(b) and torch.equal(_bits(a), _bits(b))
    return bool(a == b)


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def check(name: str) -> bool:
    """Compares eager and compiled runs of one model and says what was found."""
    case = build(name)
    eager, eager_records = run(case.model, case.inputs)
    compiled, compiled_records = run(torch.compile(case.model, backend="eager"), case.inputs)
    same_outputs = len(eager) == len(compiled) and all(map(same, eager, compiled))
    same_records = eager_records == compiled_records
    if same_outputs and same_records:
        print(f"OK   {name}: {len(eager)} outputs, {len(eager_records)} log record(s) equal")
        return True
    print(f"FAIL {name}: outputs equal: {same_outputs}, log records equal: {same_records}")
    return False


def main() -> int:
    transformers.logging.disable_default_handler()  # the records are compared, not shown
    results = [check(name) for name in MODELS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
