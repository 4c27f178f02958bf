"""Programs that compute sizes and indices with NumPy, as Dynamo traces it: by torch's functions."""

from __future__ import annotations

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import check
from tests.releases import since

torch.manual_seed(0)
A, B, C = torch.randn(8, 4), torch.randn(8, 4), torch.randn(20, 4)
CALLS = [A, B, C]

HEAD = "import numpy as np\nimport torch\n\ndef f(x):\n    "


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "size",
    [
        'np.ceil(np.log1p(x.shape[0])).astype("int").item()',
        "np.floor(np.sqrt(x.size(0))).astype(np.int64).item()",
        "np.array([x.shape[0], 3])[1].item()",
        "np.minimum(x.shape[0], 5).item()",
    ],
)
def test_a_number_of_sizes_is_known(size: str, backend: str) -> None:
    check(
        f"{HEAD}n = {size}\n    assert type(n) is int\n    return x[:n] * range(20)[n]\n",
        CALLS,
        "hoist@5",
        backend=backend,
        fullgraph=True,
    )


def test_a_number_of_what_the_graph_computes_is_declined() -> None:
    check(
        f"{HEAD}n = np.abs((x @ x.T).numpy()).argmax().item()\n    return [x] * n\n",
        CALLS,
        declines="hoist-too-dear@5",
        breaks=2,
    )


@pytest.mark.parametrize(
    "body",
    [
        "x[torch.from_numpy(x.numpy().nonzero()[0])]",
        "x * len(x.numpy().nonzero())",
        "np.where(x.numpy() > 0)",
        "np.unique(x.numpy().round() + 0.0, return_counts=True)",
        "x.numpy()[x.numpy() > 0]",
        "x * x.numpy().argmax().item()",
        "x * x.numpy().item(3)",
        "x * len(x.numpy().tolist())",
        "x[: int(x.numpy().argmax() % 4)]",
        "np.bincount(np.abs(x.numpy()).astype(np.int64).ravel())",
        "x.reshape(int(np.prod(x.shape)))",
        "x.reshape(*np.array(x.shape[::-1]).tolist())",
        "x[: int((np.array(x.shape) // 2)[0])]",
    ],
)
def test_arrays_stay_arrays(body: str) -> None:
    others = {"x * len(x.numpy().tolist())": "hoist@5", "x * x.numpy().item(3)": ""}
    if since(2, 15):
        others["x * x.numpy().item(3)"] = "capture@5"
    check(f"{HEAD}return {body}\n", CALLS, others.get(body, "capture@5"), fullgraph=True)


def test_a_number_that_a_break_makes_an_array() -> None:
    """Stock computes with the array in a graph, where torch promotes it as it does the number."""
    calls = [torch.tensor(x) for x in ([1.0, 2.0], [3.0, 2.0], [-1.0, 4.0])]
    body = "i = np.argmax(x.numpy())\n    print(i)\n    if i == 0: return x[i], 1\n    return x * i"
    check(f"{HEAD}{body}\n", calls, declines="effect-argument@6 array-after-break@7", breaks=2)
