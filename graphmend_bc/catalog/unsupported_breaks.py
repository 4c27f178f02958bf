"""Break types of public models that are left as stock has them, with the reason.

A type that is neither listed here nor known to a rule was not seen in a census of public models.
"""

from types import MappingProxyType
from typing import Final

LEFT: Final = MappingProxyType(
    {
        "Attempted to use `torch.nn.Parameter()` constructor with Dynamo": (
            "A parameter made in every call is a new leaf of the autograd graph in every call."
        ),
        "Attempted to use tensor creation function with requires_grad=True": (
            "It makes a leaf of the autograd graph in every call. Where nobody reads its gradient,"
            " make the tensor without requires_grad."
        ),
        "Generator reconstruction with mutations": (
            "It follows from a break inside a generator; mending that one removes it."
        ),
        "Import failure": (
            "A module that is imported raises, or what the import finds cannot be guarded on."
        ),
        "failed to bind arguments when attempting to inline": (
            "The arguments do not fit the function, as Dynamo passes them."
        ),
        "mapping proxy affected by dictionary mutation": (
            "The dict behind the proxy may have been changed, as other code refers to it too."
        ),
        "Missing tp_iternext": (
            "It follows from a break inside an iterator; mending that one removes it."
        ),
        "setattr() on unsupported type": "The attribute belongs to a type written in C.",
        "Unexpected type in sourceless builder": "Dynamo does not support objects of this type.",
        "Uninitialized nn.Module": (
            "A module is built in forward; its parameters would be new in every call."
        ),
        "Unsupported python_type() call": "Dynamo does not support objects of this type.",
    }
)
"""From the break type to one sentence."""

PARTLY: Final = MappingProxyType(
    {
        "Unsupported Tensor.requires_grad_() call": (
            "It makes an input a leaf that requires a gradient, which its caller sees. Nothing"
            " breaks where it is the first thing that is done with the tensor."
        ),
        "Unsupported method call": "The method is written in C; what it does is not known.",
        "Attempted to copy.deepcopy a tensor": (
            "The copy has its own copy of the tensor's gradient and of all memory it is a view of."
        ),
        "Attempted to wrap RNN, GRU, or LSTM": (
            "Dynamo does not trace recurrent modules unless torch._dynamo.config.allow_rnn is set."
        ),
        "Unsupported function call (delayed)": (
            "Dynamo does not trace what is called. From torch 2.15 on, that may be a recurrent"
            " module; torch._dynamo.config.allow_rnn has it traced."
        ),
        "Attempted to call function marked as skipped": (
            "The function is written in C or marked as not to be traced; what it does is not known."
        ),
        "attempted to trace numpy function unsupported by PyTorch": (
            "Torch has no function like it, and it does not draw from NumPy's generator."
        ),
        **dict.fromkeys(
            (
                "setattr() on Tensor.requires_grad",
                "requires_grad_() intermediate leaked as output",
            ),
            "It makes a leaf of a tensor in the middle of a graph, which a graph cannot hold.",
        ),
        "torch.* op returned non-Tensor": (
            "The function reads or sets a setting of the process, which a graph would miss."
        ),
        "Unsupported context manager": (
            "Dynamo does not know what entering and leaving it does. A lock is held while its"
            " block runs, and a graph has no place to hold it."
        ),
    }
)
"""The same for what is left of break types that a rule knows."""

REQUESTED: Final = frozenset({"Call to `torch._dynamo.graph_break()`"})
"""Breaks that the program asks for."""

_BACKWARD = ("Compile the function that computes the loss, and call backward() outside of it.",)
ENTERED: Final = ("Enter the context manager outside the compiled function.",)
"""What the user can do about breaks where a context manager is entered or left."""

HINTS: Final = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "Unsupported Tensor.backward() call",
                "backward() with empty inputs",
                "backward() with in-graph created tensor",
            ),
            _BACKWARD,
        ),
        **dict.fromkeys(
            (
                "Attempted to reconstruct context manager's __enter__ method",
                "Sourceless context manager without mutation support",
                "Unsupported context manager",
            ),
            ENTERED,
        ),
    }
)
"""What the user can do about breaks of a type, in place of what the reason code suggests."""
