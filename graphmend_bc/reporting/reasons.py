"""Why a site is left as it is: the closed list of reason codes.

Each code has a sentence for the user, hints for the next step, and a section of the same name in
docs/semantics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason code.

    Attributes:
        code: short name, stable across releases.
        explanation: one sentence that says what was found.
        hints: what the user can do about it.
    """

    code: str
    explanation: str
    hints: tuple[str, ...] = ()


_GUARD = "If the check only validates the input, move it out of the compiled function."
_SELECT = "If it is fine to compute both results, write it with torch.where."
_OUT = "Move the statement out of the branch, or the branch out of the compiled function."
_PASS_IN = "Compute it outside the compiled function and pass it in."

_ALL = (
    # What the bytecode shows.
    Reason("arm-raises", "An arm of the branch raises an exception.", (_GUARD,)),
    Reason(
        "arm-writes-scope",
        "An arm assigns a global variable or a variable shared with a closure.",
        ("Assign a local variable in the arm, and the shared one after the branch.",),
    ),
    Reason("arm-yields", "An arm has a `yield` or `await`.", (_OUT,)),
    Reason("arm-imports", "An arm imports a module.", ("Import it at the top of the file.",)),
    Reason(
        "arm-deletes-local",
        "An arm deletes a local variable.",
        ("Leave `del` out, or move it after the branch.",),
    ),
    Reason(
        "arm-inspects-frame",
        "An arm inspects its own frame (super(), locals(), exec ...).",
        ("Make the call before the branch and use its result in the arm.",),
    ),
    Reason(
        "exception-region",
        "A `try` or `with` block begins or ends inside an arm.",
        ("Put the branch inside the block instead of the block inside the arm.",),
    ),
    Reason(
        "handler-sees-write",
        "An exception handler around the branch reads a variable that an arm assigns.",
        ("Assign another variable in the arm.",),
    ),
    Reason(
        "loop-exit",
        "An arm leaves the loop that the branch is in.",
        ("Let the loop run to its end and select its results with torch.where.",),
    ),
    Reason(
        "unbound-in-one-arm",
        "A variable that is used later is assigned on one path only.",
        ("Assign the variable before the branch.",),
    ),
    Reason(
        "stack-live-in",
        "An arm uses intermediate values of the expression that the branch is part of.",
        ("Assign the result of the branch to a variable first.",),
    ),
    Reason(
        "code-growth",
        "Rewriting the branch would make the function's code too large.",
        ("Split the function, or use one `return` at its end instead of early returns.",),
    ),
    Reason(
        "not-optimized-code",
        "The code is the body of a module or class.",
        ("Move it into a function.",),
    ),
    Reason(
        "callee-not-found",
        "The bytecode does not tell which function is called.",
        ("Call the function by one name, on every path.",),
    ),
    Reason(
        "unhandled-instruction",
        "No rewrite exists for this instruction.",
        ("No setting helps; move the statement out of the compiled function.",),
    ),
    # What the trace shows.
    Reason(
        "arm-does-not-trace",
        "Dynamo cannot trace one of the arms to its end.",
        ("Remove the break inside the arm, or branch outside the compiled function.",),
    ),
    Reason(
        "arm-changes-state",
        "An arm changes Python state that exists outside of it.",
        ("Compute the new value in the arm, and store it after the branch.",),
    ),
    Reason(
        "arm-changes-mode",
        "An arm changes a torch mode such as grad mode or autocast.",
        ("Switch the mode around the whole branch.",),
    ),
    Reason(
        "arm-mutates-tensor",
        "An arm changes a tensor in place.",
        ("Use the out-of-place form in the arm, such as `y = y.mul(2)`.",),
    ),
    Reason(
        "arm-draws-random",
        "An arm draws random numbers.",
        ("Draw them before the branch, if they may be drawn in every call.",),
    ),
    Reason(
        "arm-may-raise",
        "An operator in an arm can fail for some values.",
        ("Use operands for which it cannot fail, such as a divisor that is never zero.",),
    ),
    Reason(
        "arm-op-unknown",
        "An operator in an arm is not known to be safe when the arm is not taken.",
        (_OUT,),
    ),
    Reason(
        "arm-too-dear",
        "An arm is too expensive to compute when it is not taken.",
        ("If its operators are cheap, raise graphmend_bc.config.where_op_limit.",),
    ),
    Reason(
        "predicate-not-scalar",
        "The condition is not a dense tensor with exactly one element.",
        ("Reduce it with `.any()` or `.all()`.",),
    ),
    Reason(
        "arms-differ-in-type",
        "The arms give values of different Python types.",
        ("Give both arms values of one type.", _SELECT),
    ),
    Reason("arms-differ-in-value", "The arms give different Python values.", (_SELECT,)),
    Reason(
        "arms-differ-in-layout",
        "The arms give tensors that differ in shape, dtype, device or strides.",
        ("Bring both to one form, for example with `.to(dtype)` or `.contiguous()`.",),
    ),
    Reason(
        "gradient-not-finite",
        "The gradient of the arm that is not taken could be infinite or NaN.",
        (
            "Give the operator a safe input when its arm is not taken: "
            "`torch.where(c, x, 1.0).sqrt()`.",
            "If no gradient is needed, run the branch under `torch.no_grad()`.",
        ),
    ),
    Reason(
        "gradient-reach",
        "The arms use different tensors, so that a missing gradient would become zeros.",
        (
            "If zeros are fine in place of None, write it with torch.where.",
            "If no gradient is needed, call the function under `torch.no_grad()`.",
        ),
    ),
    Reason(
        "backward-noticed",
        "A backward pass in the graph could be told from eager Python's.",
        (
            "Return `loss.detach()` or `loss.item()` instead of the loss.",
            "Or compile the function that computes the loss, and call backward() outside of it.",
        ),
    ),
    Reason(
        "array-after-break",
        "A NumPy number became an array at a graph break before the branch.",
        ("Make it a Python number with `int()` or `float()`.",),
    ),
    Reason(
        "gradient-of-written",
        "The graph writes to a tensor, and a gradient may be computed from the wrong value of it.",
        ("Write it outside the compiled function, as optimizers do.",),
    ),
    Reason(
        "alias-escapes",
        "The selected tensor would have to share memory with a tensor that the caller can see.",
        ("Clone the tensor in the arm that passes it on.",),
    ),
    Reason(
        "alias-mutated",
        "The selected tensor, or one that it may share memory with, is changed in place later.",
        ("Clone the tensor in the arm that passes it on, or write out of place.",),
    ),
    Reason(
        "identity-compared",
        "The program later observes which tensor object or memory the result is.",
        ("Compare values instead of identities, or do so outside the compiled function.",),
    ),
    Reason(
        "effect-argument",
        "An argument of the deferred call cannot be kept as it is until the graph has run.",
        ("Pass a text or a number that the function computes before the call.",),
    ),
    Reason(
        "effect-shows-grad",
        "The text would name an autograd node of eager Python that is not known for certain.",
        ("Print `t.detach()`.",),
    ),
    Reason(
        "effect-in-generator",
        "The call is inside a generator.",
        ("Move the call to the function that consumes the generator.",),
    ),
    Reason(
        "effect-in-cache",
        "The call is inside a function that caches its results; eager Python makes it only once.",
        ("Call the cached function outside the compiled function.",),
    ),
    Reason(
        "effect-moved",
        "The function replaces the stream that the call writes to, or catches warnings.",
        ("Replace the stream, or catch warnings, outside the compiled function.",),
    ),
    Reason(
        "call-not-last",
        "The call may change what the rest of the function reads.",
        ("Make the call in the last line before 'return', outside of 'try' blocks.",),
    ),
    Reason(
        "effect-settings",
        "What the call shows depends on a setting that the function changes.",
        ("Change print options, the default dtype and the like outside the compiled function.",),
    ),
    Reason(
        "effect-shares",
        "Code of the program's own runs in the call and may meet what the function works with.",
        (
            "Keep what a stream, handler, filter or hook counts or collects out of the compiled "
            "function.",
            "Let it use only the standard library and what it holds itself.",
        ),
    ),
    Reason(
        "effect-stack",
        "The call asks for a stack or exception that compiled code does not have.",
        (
            "Use a constant `stacklevel` and leave `stack_info`, `skip_file_prefixes` and "
            "`exc_info` out.",
        ),
    ),
    Reason(
        "host-value-used",
        "A Python value read from a tensor is needed while the graph is traced.",
        ("Keep the value a tensor.",),
    ),
    Reason(
        "state-used",
        "State that is added to is used for something else as well.",
        ("Read it outside of what is compiled.",),
    ),
    Reason(
        "capture-fails",
        "A size or number known only when the graph runs is needed while the graph is traced.",
        ("Keep shapes static, for example by masking with torch.where.",),
    ),
    Reason(
        "list-not-full",
        "The indices at which a mask is true cannot be assumed to be all indices.",
        ("Loop over all indices, and let those that are not set compute nothing.",),
    ),
    Reason(
        "hoist-not-input",
        "The value cannot be computed before the graph, from the frame's inputs alone.",
        (_PASS_IN,),
    ),
    Reason(
        "hoist-varies",
        "The graph depends on a value that differs in too many calls.",
        (
            "Keep the value a tensor.",
            "Raise graphmend_bc.config.hoist_limit, but keep it below "
            "torch._dynamo.config.recompile_limit.",
        ),
    ),
    Reason(
        "hoist-too-dear",
        "Computing the value before the graph would cost too much.",
        (
            _PASS_IN,
            "If it is a matter of number or size, raise graphmend_bc.config.hoist_op_limit or "
            "graphmend_bc.config.hoist_size_limit.",
        ),
    ),
    Reason(
        "draw-not-host",
        "The function that draws random numbers may do something else as well.",
        ("Draw outside the compiled function and pass the numbers in.",),
    ),
    Reason(
        "import-not-fixed",
        "What an import inside the function finds or raises may not be what it found here.",
        ("Import at the top of the file, and keep there whether it failed.",),
    ),
    Reason(
        "once-not-sure",
        "The function that prepares a module or makes a logger may not be reached in this call.",
        ("Call the model once before it is compiled, or make the logger outside the function.",),
    ),
    Reason(
        "probe-not-fixed",
        "The answer may differ between the start of the function and the place of the question.",
        ("Ask outside the compiled function and pass the answer in.",),
    ),
    Reason(
        "flags-not-neutral",
        "The flags or filters of the block may matter to what is inside it, or stay after it.",
        ("Set the flags or filters around the compiled function.",),
    ),
    Reason(
        "leaf-noticed",
        "The change of `requires_grad` could be told from eager Python's.",
        ("Set `requires_grad` outside the compiled function, or in its first line.",),
    ),
    Reason(
        "effect-raises",
        "The deferred call would raise, or may raise inside a `try` or `with` block.",
        (
            "If a warnings filter says `error`, let it show the warning instead.",
            "Move the call out of the `try` or `with` block.",
        ),
    ),
    Reason(
        "effect-shows-time",
        "The call makes a progress bar that is no plain text bar of tqdm.",
        ("Make the bar outside the compiled function, and call its `update()` inside.",),
    ),
    Reason(
        "bar-escapes",
        "A progress bar is queried, stored or passed on, or its end depends on reference counts.",
        ("Use the bar for a loop or in a `with` block, and call its methods as statements.",),
    ),
    Reason(
        "effect-result-used",
        "The result of the call, or a counter that it changes, is used in the function.",
        ("Call the function as a statement of its own.",),
    ),
    Reason(
        "call-not-traced",
        "Dynamo cannot trace this call, and the function is not known to be safe to defer.",
        ("Make the call outside the compiled function, and pass in what it gives.",),
    ),
    Reason(
        "break-requested",
        "The program asks Dynamo to break the graph here.",
        ("Remove the call of torch._dynamo.graph_break() if the break is not wanted any more.",),
    ),
    Reason(
        "inside-transform",
        "The site is inside a higher-order operator, a torch.func transform or a function mode.",
        ("Move the statement out of the transformed function.",),
    ),
    Reason(
        "inside-function",
        "The site is in 'forward' of an autograd function, or in a checkpointed block.",
        ("Ask for the value before the function or block is called, and pass it in.",),
    ),
    Reason(
        "speculation-writes-input",
        "The graph changes an input in place and could not be rolled back after a failed check.",
        (
            _GUARD,
            "If the input is only too large, raise graphmend_bc.config.snapshot_limit.",
        ),
    ),
    Reason(
        "speculation-has-effects",
        "The graph has an operator whose effects could not be rolled back after a failed check.",
        (_GUARD, "Call the operator outside the compiled function."),
    ),
    Reason(
        "strategy-off",
        "Settings leave out what would mend the site.",
        (
            "Add the strategy to graphmend_bc.config.strategies, or take the rule out of"
            " graphmend_bc.config.rules_off.",
        ),
    ),
    Reason(
        "torch-differs",
        "What would mend it rests on something that this release of torch lacks or goes around.",
        (
            "What that is is said by `python -m graphmend_bc doctor`.",
            "Install a release of torch that graphmend_bc knows.",
        ),
    ),
    Reason(
        "loop-unbounded",
        "The branch decides whether a loop continues, and nothing else ends the loop.",
        ("Use a `for` loop with a bound, or torch.while_loop.",),
    ),
    Reason(
        "no-such-loop",
        "The branch does not control a `while` loop of a form that can be rewritten.",
        ("Write the loop as `while condition:`, with its end as the only way out.",),
    ),
    Reason(
        "loop-carries-value",
        "The loop changes a value that torch.while_loop cannot carry.",
        ("Carry tensors and ints only, with the same shape and dtype in every iteration.",),
    ),
    Reason(
        "predicate-not-exact",
        "The condition could not be shown to be the same on tensors as on Python values.",
        ("Compare tensors instead of Python numbers.",),
    ),
    Reason(
        "speculation-guards-index",
        "The check may protect an index on an accelerator, where a bad index stops the process.",
        ("Clamp the index, or make the check outside the compiled function.",),
    ),
    Reason(
        "backend-refuses",
        "The backend cannot compile the operator that the site became.",
        ("Carry counters as tensors.", "Use another backend."),
    ),
    Reason(
        "cond-under-autocast",
        "The operators torch.cond and torch.while_loop are not used under autocast.",
        ("Move the branch or loop out of the autocast block.",),
    ),
    Reason(
        "cond-and-cuda-graphs",
        "Inductor runs a graph with torch.cond or torch.while_loop without CUDA graphs, if at all.",
        ("Compute both arms and select by torch.where.",),
    ),
    Reason(
        "hoist-and-cuda-graphs",
        "A value that varies would have a CUDA graph recorded for each of its values or sizes.",
        ("Pass the same values for a while, or keep them in tensors of fixed sizes.",),
    ),
    Reason(
        "mending-does-not-pay",
        "The function is compiled anew in too many calls, so stock Dynamo compiles it in pieces.",
        (
            "Keep what changes in every call (counters, sums) in tensors.",
            "TORCH_LOGS=recompiles says what changes.",
        ),
    ),
    Reason(
        "speculation-missed",
        "The check of the speculation failed too often, whichever arm was compiled.",
        (_GUARD, _SELECT),
    ),
    Reason(
        "decided-by-chance",
        "A random number decides, and the way that is not assumed is taken too often.",
        (_SELECT, _PASS_IN),
    ),
    Reason(
        "under-export",
        "An exported program has no epilogue in which a speculation could be checked.",
        (_GUARD, "Write the branch with torch.where or torch.cond."),
    ),
    Reason(
        "under-checkpoint",
        "The recomputation of a checkpoint would stop before what is done after the graph.",
        ("Call `checkpoint` with `early_stop=False`.",),
    ),
    Reason(
        "frame-suspends",
        "The compiled function is a coroutine or a generator, whose frame can be suspended.",
        ("Compile a function that it calls.",),
    ),
    Reason(
        "left-alone",
        "The function is marked with @graphmend_bc.leave_alone.",
        ("Remove the decorator to have the function mended.",),
    ),
    Reason(
        "object-finalised",
        "The function makes an object, and Python calls something when the last reference goes.",
        ("Make the object outside the compiled function, or end it by a method that is called.",),
    ),
    Reason(
        "does-not-compile",
        "Dynamo or the backend fails on the function without its graph breaks.",
        ("The log of the logger `graphmend_bc` has the error; it may be a bug of theirs.",),
    ),
    Reason(
        "internal-error",
        "The rewriter failed; this is a bug in graphmend_bc.",
        ("Please report it with the log of the logger `graphmend_bc`.",),
    ),
)

REASONS: Final = MappingProxyType({reason.code: reason for reason in _ALL})
"""Every reason by its code."""


class Refused(Exception):
    """A site cannot be rewritten, or not shown to be exact.

    Args:
        code: a key of `REASONS`.
        detail: what was found here, with the user's names; sentences or nothing.
        hints: what the user can do here, in place of the reason's own.
    """

    def __init__(self, code: str, detail: str = "", hints: tuple[str, ...] = ()) -> None:
        self.reason: Reason = REASONS[code]
        self.detail = detail
        self.hints: tuple[str, ...] = hints or self.reason.hints
        super().__init__(f"{code}: {self.reason.explanation} {detail}".rstrip())

    def again(self) -> Refused:
        """The same refusal, to be raised once more: one that was raised holds frames."""
        return Refused(self.reason.code, self.detail, self.hints)
