"""What is known about ATen operators, by overload packet name.

The lists are closed: an operator that is on none of them is not run untaken. `total` means: for
inputs whose shapes and dtypes were accepted at trace time, no values make it fail.
"""

from __future__ import annotations

from typing import Final

VIEWS: Final = frozenset(
    [
        "alias",
        "detach",
        "view",
        "_unsafe_view",
        "expand",
        "permute",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "narrow",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "diagonal",
        "_reshape_alias",
        "view_as_real",
        "view_as_complex",
        "unfold",
        "lift_fresh",
        "movedim",
        "mT",
        "numpy_T",
    ]
)
"""Operators whose result shares memory with their input."""

FACTORIES: Final = frozenset(
    [
        "full",
        "zeros",
        "ones",
        "arange",
        "linspace",
        "eye",
        "scalar_tensor",
        "zeros_like",
        "ones_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "lift_fresh_copy",
    ]
)

LINEAR: Final = frozenset(
    [
        "add",
        "sub",
        "rsub",
        "neg",
        "sum",
        "mean",
        "cat",
        "stack",
        "clone",
        "_to_copy",
        "copy",
        "where",
        "masked_fill",
        "constant_pad_nd",
        "flip",
        "roll",
        "repeat",
        "tril",
        "triu",
        "lerp_scalar",
        "positive",
        "contiguous",
    ]
)
"""Operators whose derivative with respect to each input is a constant or a mask: a gradient that is
exactly zero stays zero whatever the values are."""

MASKED: Final = frozenset(["relu", "clamp", "clamp_min", "clamp_max", "hardtanh"])
"""Operators whose backward selects with a mask instead of multiplying by a value."""

SCALABLE: Final = frozenset({"mul", "div"})
"""Linear when the other operand is a finite Python number."""

TOTAL: Final = frozenset(
    [
        "abs",
        "sign",
        "sgn",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "equal_",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "isnan",
        "isinf",
        "isposinf",
        "isneginf",
        "nan_to_num",
        "floor",
        "ceil",
        "round",
        "trunc",
        "frac",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "atan2",
        "erf",
        "erfc",
        "erfinv",
        "sigmoid",
        "log_sigmoid_forward",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "elu",
        "selu",
        "leaky_relu",
        "hardswish",
        "hardsigmoid",
        "threshold",
        "square",
        "signbit",
        "addcmul",
        "lerp",
        "hypot",
        "logaddexp",
        "prod",
        "amax",
        "amin",
        "any",
        "all",
        "argmax",
        "argmin",
        "cumsum",
        "_softmax",
        "_log_softmax",
        "logsumexp",
        "linalg_vector_norm",
        "norm",
        "native_layer_norm",
        "_fused_rms_norm",
        "max",
        "min",
        "sort",
        "topk",
        "copysign",
        "heaviside",
        "xlogy",
        "sinc",
        "real",
        "imag",
        "conj",
        "_conj",
        "_conj_physical",
        "resolve_conj",
        "resolve_neg",
    ]
)

TOTAL_ON_FLOATS: Final = frozenset(
    ["pow", "fmod", "remainder", "floor_divide", "div", "divide", "addcdiv"]
)
"""Operators that fail on some integers (division by zero, negative exponents) but on no floats."""

DEAR: Final = frozenset(
    [
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "addmv",
        "mv",
        "dot",
        "matmul",
        "linear",
        "convolution",
        "_convolution",
        "einsum",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_attention_math",
        "scaled_dot_product_attention",
        "native_group_norm",
        "lstm",
        "gru",
    ]
)
"""Total operators whose cost is worth a branch."""

KNOWN: Final = VIEWS | FACTORIES | LINEAR | MASKED | SCALABLE | TOTAL | TOTAL_ON_FLOATS


UNIFORM: Final = frozenset(["addcdiv", "heaviside", "native_layer_norm"])
"""Known operators that do not take tensors of different dtypes, or not on every device."""

IN_PLACE: Final = frozenset(
    name + "_" for name in (LINEAR | MASKED | SCALABLE | TOTAL | TOTAL_ON_FLOATS | {"fill", "zero"})
)
"""Operators that write to their first argument as well known ones compute a result."""


FOREIGN: Final = frozenset(
    {
        "graphmend_bc::gru",
        "graphmend_bc::numpy_digitize",
        "graphmend_bc::numpy_interp",
        "graphmend_bc::numpy_isin",
        "graphmend_bc::rnn_relu",
        "graphmend_bc::rnn_tanh",
        "torchvision::deform_conv2d",
        "torchvision::nms",
        "torchvision::ps_roi_align",
        "torchvision::ps_roi_pool",
        "torchvision::roi_align",
        "torchvision::roi_pool",
        "transformers::grouped_mm_fallback",
    }
)
"""Operators of other libraries that only compute, and may raise if they do not like a value."""

INDEXING: Final = frozenset(
    {
        "cross_entropy_loss",
        "embedding",
        "embedding_bag",
        "embedding_bag_forward_only",
        "embedding_renorm",
        "gather",
        "index",
        "index_add",
        "index_copy",
        "index_fill",
        "index_put",
        "index_reduce",
        "index_select",
        "max_unpool2d",
        "max_unpool3d",
        "multi_margin_loss",
        "multilabel_margin_loss",
        "multilabel_margin_loss_forward",
        "multinomial",
        "nll_loss_forward",
        "nll_loss2d_forward",
        "nll_loss_nd",
        "one_hot",
        "put",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "take",
        "unsafe_index",
        "unsafe_index_put",
    }
)
"""Operators that take indices from a tensor; those in place have a trailing underscore."""


CHECKING: Final = frozenset(
    {
        *("_assert_async", "_ctc_loss", "bernoulli", "binary_cross_entropy", "bincount"),
        *("binomial", "cholesky", "cholesky_inverse", "ctc_loss", "histc", "inverse"),
        *("masked_scatter", "matrix_power", "nanquantile", "normal", "pinverse", "poisson"),
        *("quantile", "repeat_interleave", "segment_reduce", "svd"),
    }
)
"""Further operators that look at values and raise if they do not like them; so do `linalg_...`."""


NORMS: Final = frozenset({"linalg_cross", "linalg_vector_norm"})
"""Those of linear algebra that take all values. The norm of a matrix may have to decompose it."""
