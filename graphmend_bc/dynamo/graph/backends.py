"""Which backend compiles a graph, as Dynamo holds it."""

from __future__ import annotations

from typing import Any

from torch._dynamo.backends import debugging


def is_inductor(compiler_fn: object) -> bool:
    """Whether a backend is Inductor itself; one of the program's that calls it is not.

    Args:
        compiler_fn: as Dynamo has it.
    """
    found = _given(compiler_fn)
    name = getattr(found, "compiler_name", getattr(found, "__name__", ""))
    return name == "inductor"


def runs_as_traced(compiler_fn: object) -> bool:
    """Whether a backend runs the graph of the trace itself, so that autograd notes it as in eager.

    Args:
        compiler_fn: as Dynamo has it.
    """
    found = _given(compiler_fn)
    # `torch.compile` keeps a backend that was named beside its options.
    return getattr(found, "compiler_fn", found) in (debugging.eager, debugging.eager_noexcept)


def _given(compiler_fn: object) -> Any:
    """The backend as it was given to `torch.compile`, without what Dynamo puts around it."""
    return getattr(compiler_fn, "_torchdynamo_orig_backend", compiler_fn)
