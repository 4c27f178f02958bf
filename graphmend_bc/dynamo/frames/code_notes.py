"""What Dynamo has noted about a code object, for the one that is traced in its place."""

from __future__ import annotations

from types import CodeType

from torch._dynamo.code_context import code_context


def carry_notes_over(code: CodeType, rewritten: CodeType) -> None:
    """Give rewritten code what Dynamo has noted about the original.

    That is which sizes vary between calls (the stance `eager_then_compile`), and the graph module
    whose code it is: its nodes have the metadata of the nodes to be.

    Args:
        code: the user's.
        rewritten: traced in its place; may be the same.

    Example:
        >>> def f(x): ...
        >>> code_context.get_context(f.__code__)["dynamism"] = {"x": True}
        >>> rewritten = f.__code__.replace(co_name="g")
        >>> carry_notes_over(f.__code__, rewritten)
        >>> code_context.get_context(rewritten)
        {'dynamism': {'x': True}}
    """
    if rewritten is not code and code_context.has_context(code):
        code_context.get_context(rewritten).update(code_context.get_context(code))
