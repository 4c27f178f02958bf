"""Programs whose arguments are one tensor, or share its memory: `f(x, y, z, k, a)`.

The forms are a group of the grammar's: programs that have it write through views, and give views back.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "aliases"

EXPRESSIONS: Final[dict[str, tuple[str, ...]]] = {
    "vector": (
        "x[:]",
        "y[1]",
        "{vector}.view(3)",
        "{vector}.detach()",
        "y.view(-1)[1:4]",
        "{vector}.as_strided((3,), (1,))",
        "{vector}.view_as({vector})",
        "{vector}.unsqueeze(0)[0]",
        "{vector}.contiguous()",
        "{vector}.to({vector}.dtype)",
        "{vector}.real",
    ),
    "matrix": ("y.view(2, 3)", "{vector}.expand(2, 3)", "torch.stack([x, x])", "y.contiguous()"),
    "test": (
        "{vector_name} is {vector_name}",
        "x.data_ptr() == {vector_name}.data_ptr()",
        "{vector_name}._is_view()",
    ),
}

STATEMENTS: Final = (
    "x.add_(1)",
    "{vector_name}[1:] = {number}",
    "y.view(-1)[2:5].mul_(2)",
    "y[0] = {vector}",
    "x.copy_({vector})",
    "{vector_name}[1:].copy_({vector_name}[:2])",
    "{vector_new} = {vector_name}.view(3)",
    "{vector_new} = {matrix_name}[1]",
    "{vector_new} = x",
    "torch.add({vector}, 1, out={vector_name})",
    "{vector_name}.data.mul_(2)",
    "{vector_name}.detach().sub_(1)",
    "{vector_name} += {vector_name}",
    "y.t()[0].add_({number})",
)

ENDS: Final = (
    "return x",
    "return x[:], {vector}",
    "return {vector_name}, {vector_name}",
    "return y[0], y",
    "return [x.view(3), {vector_name}[1:]]",
)

CALLS: Final = (
    "(x, y, {whole}, {k}, x)",
    "(x, y, {whole}, {k}, x.detach().clone())",
    "(x, y, {whole}, {k}, x[:])",
    "(x, y, {whole}, {k}, y[0])",
    "(y[0], y, {whole}, {k}, y[1])",
    "(y[1], y, {whole}, {k}, y[1])",
    "(y.flatten()[1:4], y, {whole}, {k}, y.flatten()[2:5])",
    "(x, x.expand(2, -1), {whole}, {k}, x)",
    "(x, y, {whole}, {k}, x.as_strided((3,), (0,)))",
    "(y.flatten()[::2], y, {whole}, {k}, y.flatten()[1::2])",
    "(x, y.t().contiguous().t(), {whole}, {k}, x.flip(0))",
)
"""What a call is given, made of two tensors. A tensor with a gradient is not copied with its views: only the
first two are for such."""

WITH_GRADIENT: Final = CALLS[:2]


def argument(form: str, vector: str, rows: str, whole: str, k: str) -> str:
    """The text of a call's arguments."""
    return f"(lambda x, y: {form.format(whole=whole, k=k)})({vector}, {rows})"
