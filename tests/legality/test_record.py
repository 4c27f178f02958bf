"""What is known of operators: which raise on values, compared with what torch raises on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional as F

from graphmend_bc.dynamo.graph.recurrent_operators import one_operator
from graphmend_bc.legality import ops
from graphmend_bc.legality.record import (
    OpRecord,
    draws,
    is_total,
    mixes_dtypes,
    raises_on_operands,
    raises_on_values,
    stops_process,
    written_by,
)
from tests.legality.test_gradients import Recording, records_of

X, START = torch.rand(3, 4), torch.tensor([0])
WEIGHT = X.clone().requires_grad_()
ROWS, FAR = torch.tensor([0, 2]), torch.tensor([0, 99])
WIDE, WIDE_FAR = torch.zeros(2, 4, dtype=torch.long), torch.full((2, 4), 99)
POSITIVE = torch.eye(3) * 2
LOGS, LETTERS, LENGTH = X.view(3, 1, 4).log_softmax(2), torch.ones(1, 1), torch.ones(1).long()
Function = Callable[[torch.Tensor], object]


def named(name: str, function: Callable[[], object]) -> Any:
    with Recording() as mode:
        function()
    return next(r for r in mode.records if name in (r.name, r.name.strip("_")))


RAISES: dict[str, tuple[Function, Any, Any]] = {
    "embedding": (lambda i: F.embedding(i, X), ROWS, FAR),
    "embedding_bag": (lambda i: F.embedding_bag(i, WEIGHT, START), ROWS, FAR),
    "embedding_bag_forward_only": (lambda i: F.embedding_bag(i, X, START), ROWS, FAR),
    "gather": (lambda i: X.gather(0, i), WIDE, WIDE_FAR),
    "index": (lambda i: X[i], ROWS, FAR),
    "index_add": (lambda i: X.index_add(0, i, X[:2]), ROWS, FAR),
    "index_copy": (lambda i: X.index_copy(0, i, X[:2]), ROWS, FAR),
    "index_fill": (lambda i: X.index_fill(0, i, 1.0), ROWS, FAR),
    "index_put": (lambda i: X.index_put((i,), X[:2]), ROWS, FAR),
    "index_select": (lambda i: X.index_select(0, i), ROWS, FAR),
    "multinomial": (lambda p: torch.multinomial(p, 1), X, -X),
    "nll_loss_forward": (lambda i: F.nll_loss(X[:2], i), ROWS, FAR),
    "nll_loss2d_forward": (
        lambda i: F.nll_loss(X.view(1, 3, 2, 2), i),
        torch.zeros(1, 2, 2, dtype=torch.long),
        torch.full((1, 2, 2), 9),
    ),
    "one_hot": (torch.inference_mode()(lambda i: F.one_hot(i, 3)), ROWS, FAR),  # seen whole there
    "put": (lambda i: X.put(i, X[0, :2]), ROWS, FAR),
    "scatter": (lambda i: X.scatter(0, i, 1.0), WIDE, WIDE_FAR),
    "scatter_add": (lambda i: X.scatter_add(0, i, X[:2]), WIDE, WIDE_FAR),
    "scatter_reduce": (lambda i: X.scatter_reduce(0, i, X[:2], "amax"), WIDE, WIDE_FAR),
    "take": (lambda i: X.take(i), ROWS, FAR),
    "assert_async": (
        lambda c: torch._assert_async(c),  # type: ignore[no-untyped-call]
        torch.tensor(True),
        torch.tensor(False),
    ),
    "bernoulli": (lambda p: torch.bernoulli(p), X, X + 2),
    "bincount": (lambda i: torch.bincount(i), ROWS, -ROWS),
    "ctc_loss": (
        torch.inference_mode()(lambda n: F.ctc_loss(LOGS, LETTERS, n, LENGTH)),
        LENGTH * 3,
        LENGTH * 9,
    ),
    "histc": (lambda x: torch.histc(x, 4), X, X / 0),
    "normal": (lambda s: torch.normal(X, s), X, -X),
    "poisson": (lambda x: torch.poisson(x), X, -X),
    "repeat_interleave": (lambda n: torch.repeat_interleave(n), ROWS, -ROWS),
    "cholesky": (lambda x: torch.cholesky(x), POSITIVE, -POSITIVE),
    "linalg_cholesky_ex": (lambda x: torch.linalg.cholesky(x), POSITIVE, -POSITIVE),
    "inverse": (torch.inference_mode()(torch.inverse), POSITIVE, POSITIVE * 0),
    "linalg_inv_ex": (lambda x: torch.linalg.inv(x), POSITIVE, POSITIVE * 0),
    "floor_divide": (lambda n: ROWS // n, ROWS + 1, ROWS),
    "remainder": (lambda n: ROWS % n, ROWS + 1, ROWS),
    "fmod": (lambda n: torch.fmod(ROWS, n), ROWS + 1, ROWS),
    "div": (lambda n: torch.div(ROWS, n, rounding_mode="trunc"), ROWS + 1, ROWS),
    "divide": (
        torch.inference_mode()(lambda n: torch.divide(ROWS, n, rounding_mode="floor")),
        ROWS + 1,
        ROWS,
    ),
    "index_reduce": (lambda i: X.index_reduce(0, i, X[:2], "prod"), ROWS, FAR),
    "embedding_renorm": (lambda i: F.embedding(i, X.clone(), max_norm=0.1), ROWS, FAR),
    "cross_entropy_loss": (
        torch.inference_mode()(lambda i: F.cross_entropy(X[:2], i)),
        ROWS,
        FAR,
    ),
    "nll_loss_nd": (torch.inference_mode()(lambda i: F.nll_loss(X[:2], i)), ROWS, FAR),
    "multi_margin_loss": (lambda i: F.multi_margin_loss(X[:2], i), ROWS, FAR),
    "multilabel_margin_loss": (
        torch.inference_mode()(lambda i: F.multilabel_margin_loss(X[:2], i)),
        WIDE,
        WIDE_FAR,
    ),
    "multilabel_margin_loss_forward": (
        lambda i: F.multilabel_margin_loss(X[:2], i),
        WIDE,
        WIDE_FAR,
    ),
    "max_unpool2d": (
        lambda i: F.max_unpool2d(X.view(1, 3, 2, 2), i, 2),
        torch.zeros(1, 3, 2, 2, dtype=torch.long),
        torch.full((1, 3, 2, 2), 99),
    ),
    "max_unpool3d": (
        lambda i: F.max_unpool3d(X.view(1, 3, 1, 2, 2), i, 2),
        torch.zeros(1, 3, 1, 2, 2, dtype=torch.long),
        torch.full((1, 3, 1, 2, 2), 99),
    ),
    "unsafe_index": (lambda i: torch.ops.aten._unsafe_index(X, [i]), ROWS, FAR),
    "unsafe_index_put": (
        lambda i: torch.ops.aten._unsafe_index_put(X, [i], X[:2]),
        ROWS,
        FAR,
    ),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, X), X, X + 2),
    "cholesky_inverse": (lambda x: torch.cholesky_inverse(x), POSITIVE, POSITIVE * 0),
    "masked_scatter": (
        lambda m: X.masked_scatter(m, X[0]),
        torch.tensor([[True], [False], [False]]),
        torch.tensor(True),
    ),
    "matrix_power": (
        torch.inference_mode()(lambda x: torch.matrix_power(x, -1)),
        POSITIVE,
        POSITIVE * 0,
    ),
    "pinverse": (torch.inference_mode()(torch.pinverse), POSITIVE, POSITIVE * float("nan")),
    "quantile": (torch.inference_mode()(lambda q: X.quantile(q)), X[0, 0], X[0, 0] + 2),
    "nanquantile": (torch.inference_mode()(lambda q: X.nanquantile(q)), X[0, 0], X[0, 0] + 2),
    "segment_reduce": (
        lambda n: torch.segment_reduce(X[:, 0], "sum", lengths=n),
        torch.tensor([1, 2]),
        torch.tensor([1, 99]),
    ),
    "svd": (torch.inference_mode()(torch.svd), POSITIVE, POSITIVE * float("nan")),
}


@pytest.mark.parametrize("name", RAISES)
def test_what_raises_on_values_is_known_to(name: str) -> None:
    function, good, bad = RAISES[name]
    record = named(name, lambda: function(good))
    with pytest.raises((RuntimeError, IndexError)):
        function(bad)
    assert raises_on_values(record)
    assert raises_on_operands(record) is (name not in ops.INDEXING)


def test_each_operator_that_looks_at_values_is_asked() -> None:
    checking = {name.strip("_") for name in ops.CHECKING} - {"binomial"}  # which is next
    assert ops.INDEXING | checking <= RAISES.keys()


def test_what_raises_on_an_accelerator_alone() -> None:
    """The kernel of CUDA asserts that the second operand is a probability."""
    assert raises_on_operands(named("binomial", lambda: torch.binomial(X, X)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin() + x,
        lambda x: x / 0,
        lambda x: x**-1.0,
        lambda x: x // 0.0,
        lambda x: x.long() // 127,
        lambda x: x.long() ** 2,
        lambda x: x.long() / x.long(),  # in floats
        lambda x: torch.linalg.vector_norm(x),
        lambda x: torch.linalg.cross(x, x),
        lambda x: F.softmax(x, 0),
        lambda x: torch.sort(x),
    ],
)
def test_what_raises_for_no_values(function: Function) -> None:
    assert not any(map(raises_on_values, records_of(function)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.long() // 0,
        lambda x: x.long() % 128,  # which bytes do not hold
        lambda x: x.long() ** -1,
        lambda x: x.long() ** -x.long(),
        lambda x: x.long() // x.long().clamp(min=1),
        lambda x: torch.div(x.long(), 0, rounding_mode="floor"),
        lambda x: x.long().remainder_(128),
        lambda x: x.bool().addcdiv_(x.bool(), x.bool()),
    ],
)
def test_divisions_of_integers_are_not_total(function: Function) -> None:
    records = records_of(lambda x: function(x.to("meta")))
    assert not all(map(is_total, records))


def test_a_quotient_of_truth_values_is_refused_by_the_kernel_alone() -> None:
    truth = torch.tensor([True])
    with pytest.raises(RuntimeError):
        truth.clone().addcdiv_(truth, truth)
    truth.to("meta").addcdiv_(truth.to("meta"), truth.to("meta"))


def test_draws() -> None:
    def drawn(function: Function) -> bool:
        return any(map(draws, records_of(function)))

    assert drawn(torch.rand_like)
    assert drawn(lambda x: F.dropout(x, 0.5))
    assert drawn(lambda x: torch.native_dropout(x, 0.5, True))
    assert not drawn(lambda x: torch.native_dropout(x, 0.5, False))
    assert not drawn(torch.sin)
    q = torch.rand(1, 1, 2, 4)
    attention = torch.ops.aten._scaled_dot_product_attention_math.default
    assert drawn(lambda x: torch.ops.aten.rrelu_with_noise(x, x * 1, 0.1, 0.3, True))
    assert not drawn(lambda x: torch.ops.aten.rrelu_with_noise(x, x * 1, 0.1, 0.3, False))
    record = OpRecord(attention, (q, q, q), {}, q)
    assert not draws(record)
    symbol = ShapeEnv().create_unbacked_symfloat()
    for chance in (0.5, 1, symbol):
        assert draws(replace(record, kwargs={"dropout_p": chance}))


def test_dtypes_that_are_mixed() -> None:
    def mixed(function: Function) -> bool:
        records = records_of(lambda x: function(x.to("meta")))  # which takes what a kernel may not
        return any(map(mixes_dtypes, records))

    assert not mixed(lambda x: x + x.double())
    assert not mixed(lambda x: x + x.long())
    assert mixed(lambda x: F.batch_norm(x.view(1, 3).double(), x, x + 1))
    assert not mixed(lambda x: F.batch_norm(x.view(1, 3), x, x + 1))
    assert mixed(lambda x: torch.addcdiv(x, x, x.double()))
    assert not mixed(lambda x: torch.addcmul(x, x, x.double()))
    assert not mixed(lambda x: torch.heaviside(x, x))
    assert not mixed(lambda x: torch.addcdiv(x, x, x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.batch_norm(x.view(1, 3).double(), x, x + 1),
        lambda x: torch.heaviside(x, x.double()),
        lambda x: F.layer_norm(x, (3,), x.double(), x.double()),
    ],
)
def test_kernels_that_do_not_take_dtypes_together(function: Function) -> None:
    with pytest.raises(RuntimeError):
        function(torch.ones(3))
    records = records_of(lambda x: function(x.to("meta")))
    assert any(map(mixes_dtypes, records))
    assert any(map(raises_on_values, records))


def test_operators_that_are_not_of_torch() -> None:
    record = OpRecord(one_operator("rnn_tanh"), (), {}, None)
    assert raises_on_values(record)
    assert not raises_on_operands(record)


def test_a_kernel_that_may_not_take_dtypes_together_raises() -> None:
    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x.view(1, 3).double(), x, x + 1)

    records = records_of(lambda x: normed(x.to("meta")))
    assert any(map(raises_on_values, records))
    assert not any(map(raises_on_operands, records))


def test_an_index_out_of_bounds_stops_a_process_that_uses_an_accelerator() -> None:
    def stops(function: Function, device: str) -> bool:
        return any(map(stops_process, records_of(lambda x: function(x.to(device)))))

    assert stops(lambda x: x[x.long()], "meta")  # any device but this one
    assert not stops(lambda x: x[(x * 0).long()], "cpu")
    assert not stops(lambda x: x + 1, "meta")


def test_what_is_written() -> None:
    record = records_of(lambda x: x.add_(1))[-1]
    assert written_by(record) == [record.args[0]]
    record = records_of(lambda x: torch.sin(x, out=torch.empty(3)))[-1]
    assert written_by(record)[0].shape == (3,)
    record = records_of(lambda x: x.view(1, 3))[-1]
    assert written_by(record) == []  # a view is an alias of what nobody writes
