"""Programs whose frames hold many sites, or sites that several rules refuse."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import torch

Calls = list[tuple[Any, ...]]


def defined(source: str) -> dict[str, Any]:
    """The names of a module of that text."""
    module: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(textwrap.dedent(source), module)
    return module


def _function(source: str, *calls: Any) -> Callable[[], tuple[Any, Calls]]:
    given = [call if isinstance(call, tuple) else (call,) for call in calls]
    return lambda: (defined(source)["f"], given)


def _unrolled(count: int) -> str:
    return f"""
        def f(x):
            total = x.new_zeros(())
            for i in range({count}):
                if x[i] > 0:
                    total = total + x[i] * 2
                else:
                    total = total - 1
            return total
        """


def _numbers(count: int) -> str:
    """As `_unrolled`, but the arms choose a Python number."""
    return f"""
        def f(x):
            total = x.new_zeros(())
            for i in range({count}):
                if x[i] > 0:
                    k = 2
                else:
                    k = 3
                total = total + x[i] * k
            return total
        """


def _written_out(count: int, arms: str) -> str:
    body = "".join(f"    if x[{i}] > 0:\n{arms}" for i in range(count))
    return f"def f(x):\n    x = torch.sin(x)\n{body}    return x + 1\n"


def _items(count: int) -> str:
    body = "".join(f"    x = x * x[{i}].item()\n" for i in range(count))
    return f"def f(x):\n{body}    return x + 1\n"


def _effects(count: int) -> str:
    body = "".join(f"    x = torch.sin(x)\n    note({i})\n" for i in range(count))
    return (
        "import time\ndef note(n):\n    time.sleep(0)\n"
        f"def f(x):\n    x = x * 2\n{body}    return x + 1\n"
    )


def _thousand() -> str:
    body = "    x = torch.sin(x)\n" * 500
    return f"def f(x):\n{body}    if x.sum() > 0:\n        x = x * 2\n{body}    return x\n"


def _thousand_numbers() -> str:
    body = "    x = torch.sin(x)\n" * 500
    site = "    if x.sum() > 0:\n        k = 2\n    else:\n        k = 3\n"
    return f"def f(x):\n{body}{site}{body}    return x * k\n"


_CALLEES = """
    def clamp(x):
        if x.max() > 1:
            x = x / x.max()
        return x

    def check(x):
        if torch.isnan(x).any():
            raise ValueError("nan")

    def scale(x):
        k = 2 if x[0] > 0 else 3
        return x * k

    def f(x):
        check(x)
        x = clamp(x)
        x = scale(x)
        check(x)
        return clamp(x) + scale(x)
    """

_PASTE = """
    def paste(masks, boxes, img_h: int, img_w: int, skip_empty: bool = True):
        if skip_empty:
            x0_int, y0_int = torch.clamp(
                boxes.min(dim=0).values.floor()[:2] - 1, min=0
            ).to(dtype=torch.int32)
            x1_int = torch.clamp(boxes[:, 2].max().ceil() + 1, max=img_w).to(dtype=torch.int32)
            y1_int = torch.clamp(boxes[:, 3].max().ceil() + 1, max=img_h).to(dtype=torch.int32)
        else:
            x0_int, y0_int = 0, 0
            x1_int, y1_int = img_w, img_h
        x0, y0, x1, y1 = torch.split(boxes, 1, dim=1)
        N = masks.shape[0]
        img_y = torch.arange(y0_int, y1_int, dtype=torch.float32) + 0.5
        img_x = torch.arange(x0_int, x1_int, dtype=torch.float32) + 0.5
        img_y = (img_y - y0) / (y1 - y0) * 2 - 1
        img_x = (img_x - x0) / (x1 - x0) * 2 - 1
        gx = img_x[:, None, :].expand(N, img_y.size(1), img_x.size(1))
        gy = img_y[:, :, None].expand(N, img_y.size(1), img_x.size(1))
        grid = torch.stack([gx, gy], dim=3)
        if not masks.dtype.is_floating_point:
            masks = masks.float()
        img_masks = F.grid_sample(masks, grid.to(masks.dtype), align_corners=False)
        if skip_empty:
            return img_masks[:, 0], (slice(y0_int, y1_int), slice(x0_int, x1_int))
        return img_masks[:, 0], ()

    def f(masks, boxes):
        return paste(masks, boxes, 32, 32)
    """

_PASTE_LOOP = """
    def paste_one(mask, box, h, w):
        b = box.int()
        x0, y0, x1, y1 = b[0].item(), b[1].item(), b[2].item(), b[3].item()
        wide, high = max(x1 - x0 + 1, 1), max(y1 - y0 + 1, 1)
        mask = F.interpolate(mask[None, None], size=(high, wide), mode="bilinear")[0, 0]
        image = torch.zeros((h, w), dtype=mask.dtype)
        left, right = max(x0, 0), min(x1 + 1, w)
        top, bottom = max(y0, 0), min(y1 + 1, h)
        image[top:bottom, left:right] = mask[top - y0 : bottom - y0, left - x0 : right - x0]
        return image

    def f(masks, boxes):
        return torch.stack([paste_one(m, b, 32, 32) for m, b in zip(masks[:, 0], boxes)])
    """

_NMS = """
    def iou(a, b):
        low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
        inter = (high - low).clamp(min=0).prod()
        area = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod()
        return inter / (area - inter)

    def f(boxes, scores):
        order = scores.argsort(descending=True)
        keep = []
        for i in range(len(boxes)):
            box = boxes[order[i]]
            ok = True
            for other in keep:
                if iou(box, other) > 0.5:
                    ok = False
                    break
            if ok:
                keep.append(box)
        return torch.stack(keep)
    """

_KMEANS = """
    import torch.nn as nn

    class Codebook(nn.Module):
        def __init__(self, dim=8, size=16):
            super().__init__()
            self.register_buffer("initted", torch.tensor([START]))
            self.register_buffer("embed", torch.randn(size, dim))
            self.register_buffer("cluster_size", torch.zeros(size))

        @torch.no_grad()
        def init_embed(self, data):
            if self.initted:
                return
            means = data[torch.randperm(data.shape[0])[: self.embed.shape[0]]]
            for _ in range(10):
                dists = torch.cdist(data, means)
                buckets = dists.argmin(dim=-1)
                bins = torch.bincount(buckets, minlength=means.shape[0])
                empty = bins == 0
                sums = torch.zeros_like(means).scatter_add_(
                    0, buckets[:, None].expand(-1, data.shape[1]), data
                )
                new = sums / bins.masked_fill(empty, 1)[:, None]
                means = torch.where(empty[:, None], means, new)
            self.embed.data.copy_(means)
            self.cluster_size.data.copy_(bins.float())
            self.initted.data.copy_(torch.tensor([True]))

        def expire(self, data):
            expired = self.cluster_size < 1
            if not torch.any(expired):
                return
            index = torch.randint(0, data.shape[0], (self.embed.shape[0],))
            self.embed.data.copy_(torch.where(expired[:, None], data[index], self.embed))

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            self.init_embed(flat)
            index = torch.cdist(flat, self.embed).argmin(dim=-1)
            out = F.embedding(index, self.embed).view_as(x)
            if self.training:
                onehot = F.one_hot(index, self.embed.shape[0]).to(flat.dtype)
                self.cluster_size.data.mul_(0.9).add_(onehot.sum(0) * 0.1)
                self.expire(flat)
            return x + (out - x).detach()

    f = Codebook()
    """

_SELECTED = """
    def f(x):
        m = x > 1
        s = 0.0
        if m.any():
            v = x[m]
            s = v.mean().item() if v.numel() else 0.0
        return x * s
    """

_CURSOR = """
    def f(y, t, n: int = 6):
        out, j, step = [y], 1, 0.25
        t0 = t[0]
        for i in range(n):
            t1 = t0 + step
            y1 = y + step * torch.sin(y)
            while j < len(t) and t1 >= t[j]:
                out.append(y + (y1 - y) * (t[j] - t0) / (t1 - t0))
                j += 1
            y, t0 = y1, t1
        return torch.stack(out)
    """

_MATCHER = """
    def match(iou, low=0.4, high=0.5):
        if iou.numel() == 0:
            raise ValueError("nothing to match")
        values, matches = iou.max(dim=0)
        matches[values < low] = -1
        matches[(values >= low) & (values < high)] = -2
        return matches

    def loss(scores, targets, matches):
        foreground = matches >= 0
        count = foreground.sum()
        target = torch.zeros_like(scores)
        target[foreground, targets[matches[foreground]]] = 1.0
        valid = matches != -2
        total = F.binary_cross_entropy_with_logits(scores[valid], target[valid], reduction="sum")
        return total / max(1, count)

    def f(ious, scores, targets):
        losses = []
        for iou, score, target in zip(ious, scores, targets):
            degenerate = iou.sum(1) <= 0
            if degenerate.any():
                where = torch.where(degenerate)[0][0].item()
                raise ValueError(f"box {where} matches nothing")
            losses.append(loss(score, target, match(iou)))
        return torch.stack(losses).mean()
    """

_RATIO = """
    def f(a, b):
        num = (a * b).sum()
        den = a.sum() + b.sum()
        if den == 0:
            raise ZeroDivisionError("empty")
        score = num / den
        weight = 1.5 if score > 0.5 else 2
        bias = 0.1 if a[0] > 0 else 3.0
        sign = 1 if b[0] > 0 else -1
        return score * weight + bias * sign
    """

_IN_A_LIST = """
    def f(x):
        seen = []
        for i in range(8):
            if x[i] > 0:
                seen.append(x[i])
            if x[i] < -1:
                seen.pop() if seen else None
        return torch.stack(seen).sum() if seen else x.sum()
    """


def _boxes() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    corner = torch.rand(3, 2) * 10
    return torch.rand(3, 1, 7, 7), torch.cat([corner, corner + 5 + torch.rand(3, 2) * 10], 1)


def _codebook(start: str) -> Callable[[], tuple[Any, Calls]]:
    def make() -> tuple[Any, Calls]:
        torch.manual_seed(0)
        return defined(_KMEANS.replace("START", start))["f"], [(torch.randn(2, 20, 8),)] * 2

    return make


_WAVE = torch.sin(torch.arange(64.0) * 1.7)

PROGRAMS: dict[str, Callable[[], tuple[Any, Calls]]] = {
    "10 rounds, tensors": _function(_unrolled(10), _WAVE, -_WAVE),
    "60 rounds, tensors": _function(_unrolled(60), _WAVE, -_WAVE),
    "10 rounds, numbers": _function(_numbers(10), _WAVE),
    "60 rounds, numbers": _function(_numbers(60), _WAVE),
    "10 sites, tensors": _function(_written_out(10, "        x = x * 2\n"), _WAVE, -_WAVE),
    "60 sites, tensors": _function(_written_out(60, "        x = x * 2\n"), _WAVE, -_WAVE),
    "10 sites, numbers": _function(
        _written_out(10, "        k = 2\n    else:\n        k = 3\n    x = x * k\n"), _WAVE
    ),
    "60 sites, numbers": _function(
        _written_out(60, "        k = 2\n    else:\n        k = 3\n    x = x * k\n"), _WAVE
    ),
    "10 calls of item": _function(_items(10), _WAVE),
    "10 calls that break": _function(_effects(10), _WAVE),
    "1000 operators": _function(_thousand(), _WAVE),
    "1000 operators, number": _function(_thousand_numbers(), _WAVE),
    "callees": _function(_CALLEES, _WAVE, -_WAVE),
    "paste masks": _function(_PASTE, _boxes()),
    "paste masks one by one": _function(_PASTE_LOOP, _boxes()),
    "nms": _function(_NMS, (_boxes()[1], torch.rand(3))),
    "k-means done": _codebook("True"),
    "k-means to do": _codebook("False"),
    "selection": _function(_SELECTED, _WAVE, _WAVE * 3),
    "cursor": _function(_CURSOR, (torch.ones(3), torch.linspace(0, 1, 4))),
    "matcher": _function(
        _MATCHER, (torch.rand(2, 4, 9), torch.randn(2, 9, 3), torch.ones(2, 4, dtype=torch.long))
    ),
    "ratio": _function(_RATIO, (_WAVE.abs(), _WAVE.abs() + 1)),
    "appends to a list": _function(_IN_A_LIST, _WAVE * 2),
}
