"""What a thrown-away graph may leave behind: modes, switches, levels, inference tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import _cur_sdpa_kernel_backends

from tests.backends import TORCH
from tests.oracle import check
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
INSIDE, OUTSIDE = (UP, torch.tensor([0])), (UP, torch.tensor([9]))


def modes() -> tuple[object, ...]:
    torch.autocast_increment_nesting()
    return (
        torch.autocast_decrement_nesting(),
        torch.is_autocast_enabled("cpu"),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        _cur_sdpa_kernel_backends(with_priority=True),
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "mode",
    [
        "torch.autocast('cpu', dtype=torch.bfloat16)",
        "torch.no_grad()",
        "torch.inference_mode()",
        "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)",
    ],
)
def test_graph_that_raises_between_on_and_off(mode: str, backend: str) -> None:
    if TORCH < (2, 13) and (mode, backend) == ("torch.inference_mode()", "aot_eager"):
        pytest.skip("the backend fails and leaves torch's dispatcher in disorder")
    before = modes()
    check(
        f"""
        import torch.nn.attention
        layer = nn.Linear(3, 3)

        def f(x, i):
            with {mode}:
                print("in")
                z = layer(x)[i]
                if z.sum() > 1e9:
                    return None
            return z
        """,
        [INSIDE, OUTSIDE, INSIDE],
        mends="defer@6 speculate@8",
        backend=backend,
    )
    assert modes() == before


@pytest.mark.skipif(not since(2, 13), reason="Stock 2.11 ends in an internal error.")
def test_graph_that_raises_inside_a_transform() -> None:
    before = modes()
    check(
        """
        def f(x, i):
            print("in")
            y = torch.func.vmap(lambda a, k: x[k] * a)(x, i)
            if y.sum() > 1e9:
                return None
            return y
        """,
        [(UP, torch.tensor([0, 1, 2])), (UP, torch.tensor([9, 1, 1]))],
        mends="defer@2 speculate@4",
    )
    assert modes() == before


def test_inference_tensor_that_is_written() -> None:
    check(
        """
        with torch.inference_mode():
            cache = torch.zeros(3)

        def f(x):
            with torch.inference_mode():
                cache.add_(x)
                if cache.sum() < 0:
                    raise ValueError(f"{x} {cache}")
                return x + cache
        """,
        [UP, DOWN * 3, UP],
        mends="speculate@7",
    )


def test_process_wide_setting_is_not_rolled_back() -> None:
    was_on = torch.are_deterministic_algorithms_enabled()
    check(
        """
        torch.use_deterministic_algorithms(False)

        def f(x):
            on = torch.are_deterministic_algorithms_enabled()
            torch.use_deterministic_algorithms(not on)
            if x.sum() < 0:
                raise ValueError(f"{on}")
            return x + 1, on
        """,
        [UP, DOWN, UP, DOWN],
        declines="speculation-has-effects@6",
        breaks=3,
    )
    torch.use_deterministic_algorithms(was_on)
