"""Slices between tensors, and keys that hold them."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check
from tests.releases import since

A, B, C = (
    torch.tensor([3.0, 1.0, 0.0]),
    torch.tensor([2.0, 2.0, 1.0]),
    torch.tensor([0.0, 1.0, 4.0]),
)
CALLS = [A, B, C]


@pytest.mark.parametrize("key", ["(x > 1, 0)", "(slice(None), x > 1)"])
def test_keys_that_hold_tensors(key: str) -> None:
    outcome = check(
        f"""
        def f(x):
            both = torch.stack([x, x + 1, x + 2], 1)
            y = x
            for v in both[{key}].reshape(-1):
                y = y + v
            return y
        """,
        CALLS,
        mends="hoist@4",
        fullgraph=True,
    )
    assert "hoist" in outcome.mends


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "y = x[n[0] : n[1]].sum()",
        "y = x[: n[1]].sum() + x[n[0] :].sum()",
        "y = x[n[0] : 3 : n[1]].sum()",
        "y = x * 1; y[n[0] : n[1]] = 7",
        "y = x * 1; y[..., n[0] : n[1]] += 1",
        "y = x.expand(2, 3).clone()[:, n[0] : n[1]] * 2",
        "y = x[0:2]; at = n[0] * 0\n    for v in n: y = torch.cat([y, x[at : at + v]]); at += v",
    ],
)
@pytest.mark.parametrize("off", [(), ("capture",)])
def test_slices_between_tensors(body: str, off: tuple[str, ...]) -> None:
    way = "hoist" if off or "..." in body else "capture"
    with gm.config.patch(rules_off=off):
        check(
            f"def f(x, n):\n    {body}\n    return y\n",
            [(A, torch.tensor([0, 2])), (B, torch.tensor([1, 3])), (A, torch.tensor([2, 1]))],
            mends=f"{way}@{2 + body.count(chr(10))}",
            fullgraph=True,
        )


def test_slices_between_tensors_that_the_function_makes() -> None:
    check(
        """
        def f(x):
            sizes, at, parts = torch.as_tensor([[1, 2], [1, 1]]), 0, []
            for high, wide in sizes:
                parts.append(x[at : at + high * wide])
                at = at + high * wide
            return parts, [n for n in range(at)]
        """,
        CALLS,
        mends="hoist@4 hoist@6" if since(2, 14) else "capture@4 hoist@6",
        fullgraph=True,
    )


@pytest.mark.parametrize("mode", ["constant", "reflect"])
@pytest.mark.parametrize("length", [10, 11, 3])
def test_tensors_that_say_how_much_is_padded(mode: str, length: int) -> None:
    """As EnCodec's convolutions have it: the padded tensor itself is too dear to have before."""
    x = torch.arange(2.0 * length).reshape(2, 1, length)
    check(
        f"""
        stride, size = torch.tensor(4), torch.tensor(7)
        weight = torch.ones(1, 1, 7, requires_grad=True)

        def f(x):
            x = torch.nn.functional.conv1d(x, weight[..., :1]) * 2
            count = torch.ceil((x.shape[-1] - size) / stride + 1).to(torch.int64) - 1
            extra = count * stride + size - x.shape[-1]
            return torch.nn.functional.pad(x, (2, extra), mode="{mode}")
        """,
        [x, x + 1],
        mends="hoist@functional.py",
        grad=True,
    )


PATCHES = """
import numpy as np

def patches(n, p):
    starts = np.meshgrid(np.arange(0, n, p), np.arange(0, n, p), indexing="ij")
    rows = np.asarray([one.flatten() for one in starts]).T
    return [tuple(slice(s, s + p) for s in row) for row in rows]

def f(x, n, p):
    keys = [(slice(None),) + key for key in patches(n, p)]
    parts = torch.cat([x[key] for key in keys])
    return parts * 2
"""
"""As sliding windows are cut out."""


@pytest.mark.slow
def test_slices_that_are_made_before_they_are_used() -> None:
    x = torch.arange(36.0).reshape(1, 6, 6)
    calls = [(x, 6, 2), (-x, 6, 2), (x, 6, 3), (x[:, :4], 4, 2)]
    check(PATCHES, calls, mends=None, declines=None, breaks=None, grad=True)
    check(PATCHES, [(x, 6, 2), (-x, 6, 2)], mends="hoist@10", orders=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "count[key] += 1\n    return count, x",
        "count[key] = x[:, :p, :p]\n    return count * 2",
        "x[key] += 1\n    return x + 1",
        "with torch.no_grad():\n        x.mul_(2)[key] = count[key]\n    return x + 1",
        "seen[int(key[1].start)] = 3\n    return x + seen[0]",
        "count[key] = 'text'\n    return count",
    ],
)
def test_parts_that_are_written(body: str) -> None:
    source = (
        PATCHES[: PATCHES.index("def f")]
        + f"""
seen = {{}}

def f(x, p):
  count = torch.zeros_like(x)
  for part in patches(x.shape[1], p):
    key = (slice(None),) + part
    seen[0] = 0
  for part in patches(x.shape[1], p)[:2]:
    key = (slice(None),) + part
    {body}
"""
    )
    x = torch.arange(36.0).reshape(1, 6, 6)
    calls = [(x.clone(), 2), (-x, 2), (x.clone(), 3)]
    check(source, calls, mends=None, declines=None, breaks=None)


@pytest.mark.parametrize(
    "bounds",
    [
        "n, n + 2",
        "n[None], None",  # torch makes a number of it
        "n.float(), None",
        "n > 0, None",
        "None, None, n",
        "None, n.numpy()",
        "None, n.numpy() + 1",
        "n[None].numpy(), None",  # NumPy does not
        "torch.stack([n, n]), None",
    ],
)
def test_bounds_of_a_slice_that_is_made_before(bounds: str) -> None:
    source = f"""
        def f(x, n):
            key = slice({bounds})
            return x[key] * 2, x[0][(key,)]
        """
    x = torch.arange(8.0).reshape(2, 4).T
    one, two = torch.tensor(1), torch.tensor(2)
    check(source, [(x, one), (x, two), (-x, one)], mends=None, declines=None, breaks=None)
