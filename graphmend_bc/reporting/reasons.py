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


_GUARD = "If the check only guards against bad input, move it out of the compiled region."
_SPLIT = "Compute both results and choose with torch.where, if that is what you mean."
_OUT = "Move the statement out of the branch, or branch outside the compiled region."

_ALL = (
    # What the bytecode shows.
    Reason("arm-raises", "An arm of the branch raises an exception.", (_GUARD,)),
    Reason(
        "arm-writes-scope", "An arm writes a global or a variable shared with a closure.", (_OUT,)
    ),
    Reason("arm-yields", "An arm yields or awaits.", (_OUT,)),
    Reason("arm-imports", "An arm imports a module.", ("Import at the top of the file.",)),
    Reason("arm-deletes-local", "An arm deletes a local variable.", (_OUT,)),
    Reason(
        "arm-inspects-frame",
        "An arm looks at its own frame (super(), locals(), exec ...).",
        (_OUT,),
    ),
    Reason("exception-region", "A try or with block begins or ends inside an arm.", (_OUT,)),
    Reason(
        "handler-sees-write", "An exception handler reads a variable that an arm writes.", (_OUT,)
    ),
    Reason("loop-exit", "An arm leaves the loop that the branch is in.", (_SPLIT,)),
    Reason(
        "unbound-in-one-arm",
        "A variable used later is bound on one path only.",
        ("Give the variable a value before the branch.",),
    ),
    Reason("stack-live-in", "An arm consumes values that were pushed before the branch.", (_OUT,)),
    Reason("code-growth", "Rewriting the branch would make the code too large.", (_OUT,)),
    Reason("not-optimized-code", "The code is a module or class body, not a function.", ()),
    Reason("callee-not-found", "The callee of the call could not be found in the bytecode.", ()),
    Reason("unhandled-instruction", "No rewrite is known for this instruction.", ()),
    # What the trace shows.
    Reason("arm-does-not-trace", "Dynamo could not trace one of the arms.", (_OUT,)),
    Reason("arm-changes-state", "An arm changes Python state that outlives it.", (_OUT,)),
    Reason(
        "arm-changes-mode", "An arm changes a torch mode such as grad mode or autocast.", (_OUT,)
    ),
    Reason(
        "arm-mutates-tensor", "An arm changes a tensor in place.", ("Use the out-of-place form.",)
    ),
    Reason("arm-draws-random", "An arm draws random numbers.", (_OUT,)),
    Reason("arm-may-raise", "An operator in an arm can fail for some values.", (_OUT,)),
    Reason(
        "arm-op-unknown", "An operator in an arm is not known to be safe to run untaken.", (_OUT,)
    ),
    Reason("arm-too-dear", "The arms are too dear to compute both.", (_OUT,)),
    Reason("predicate-not-scalar", "The predicate does not have exactly one element.", ()),
    Reason("arms-differ-in-type", "The arms give values of different Python types.", (_SPLIT,)),
    Reason("arms-differ-in-value", "The arms give different Python values.", (_SPLIT,)),
    Reason(
        "arms-differ-in-layout",
        "The arms give tensors that differ in shape, dtype, device or layout.",
        (_SPLIT,),
    ),
    Reason(
        "gradient-not-finite",
        "A gradient could be NaN or infinite in the arm not taken.",
        (_SPLIT,),
    ),
    Reason("gradient-reach", "The arms send gradients to different tensors.", (_SPLIT,)),
    Reason(
        "array-after-break",
        "A NumPy number became an array at a graph break before the branch.",
        ("Make it a Python number with int() or float().",),
    ),
    Reason(
        "gradient-of-written",
        "A tensor that requires a gradient is written without grad mode and then used.",
        ("Write it outside the compiled function, or use what is to be written.",),
    ),
    Reason(
        "alias-escapes",
        "The chosen tensor would have to share memory with a tensor that is also visible outside.",
        ("Clone the tensor.",),
    ),
    Reason(
        "alias-mutated",
        "The chosen tensor, or one it may share memory with, is changed in place later.",
        ("Clone the tensor.",),
    ),
    Reason("identity-compared", "A chosen value is compared by identity later.", ()),
    Reason(
        "effect-argument",
        "An argument of the call cannot be kept until the graph has run.",
        ("Format the argument first.",),
    ),
    Reason(
        "effect-shows-grad",
        "The text would show an autograd node, which compiled code does not have.",
        ("Print `t.detach()`.",),
    ),
    Reason(
        "effect-in-generator", "The call is inside a generator.", ("Move it out of the generator.",)
    ),
    Reason(
        "effect-in-cache",
        "The call is inside a function that caches its results, and is not made every time.",
        ("Call the function outside the compiled region.",),
    ),
    Reason(
        "effect-moved",
        "The stream that the call writes to is exchanged in the function.",
        ("Exchange the stream outside the compiled function.",),
    ),
    Reason(
        "effect-stack", "The call asks for a stack position that compiled code does not have.", ()
    ),
    Reason(
        "host-value-used",
        "The value read from a tensor is needed while the graph is traced.",
        ("Keep the value a tensor.",),
    ),
    Reason(
        "capture-fails",
        "A size or number known only at run time is needed while the graph is traced.",
        ("Keep shapes static, for example by masking with torch.where.",),
    ),
    Reason(
        "list-not-full",
        "The list of the indices at which a mask is true does not hold them all.",
        ("Go over all indices, and let those that are not set compute nothing.",),
    ),
    Reason(
        "hoist-not-input",
        "The value cannot be computed before the graph, from the frame's inputs alone.",
        ("Compute it outside the compiled function and pass it in.",),
    ),
    Reason(
        "hoist-varies",
        "The value is another one in too many calls, and the graph depends on it.",
        ("Keep the value a tensor.",),
    ),
    Reason(
        "hoist-too-dear",
        "Computing the value before the graph would cost too much.",
        ("Compute it outside the compiled function and pass it in.",),
    ),
    Reason(
        "draw-not-host",
        "The function that draws uses something that is not known to be harmless.",
        ("Draw outside the compiled function and pass the numbers in.",),
    ),
    Reason(
        "once-not-sure",
        "The function that prepares a module or makes a logger may not be reached.",
        ("Call the model once before it is compiled, or make the logger outside the function.",),
    ),
    Reason(
        "probe-not-fixed",
        "The answer may be another one when the function is reached than when it begins.",
        ("Ask outside the compiled function.",),
    ),
    Reason(
        "flags-not-neutral",
        "The flags of the block could matter to what is inside it.",
        ("Set the flags around the compiled function.",),
    ),
    Reason(
        "leaf-noticed",
        "It could be noticed that the tensor does not require a gradient in the graph.",
        ("Set requires_grad outside the compiled function.",),
    ),
    Reason(
        "effect-raises",
        "The call would raise.",
        ("Let the filter show the warning instead of raising it.",),
    ),
    Reason(
        "effect-shows-time",
        "The call makes a progress bar that is no plain text bar of tqdm.",
        ("Make the bar outside the compiled function, and call its `update()` inside.",),
    ),
    Reason(
        "bar-escapes",
        "A progress bar is asked about, goes elsewhere, or is left to Python to close.",
        ("Use the bar for a loop or in a `with` block, and call its methods as statements.",),
    ),
    Reason(
        "effect-result-used",
        "The call's result is used, or what it changes is.",
        ("Call the function as a statement of its own.",),
    ),
    Reason(
        "call-not-traced",
        "Dynamo cannot trace this call, and it is not known to only observe.",
        ("If it only observes, add it to graphmend_bc.config.effects.",),
    ),
    Reason(
        "inside-transform",
        "The site is inside a higher-order operator, a torch.func transform or a function mode.",
        (_OUT,),
    ),
    Reason(
        "speculation-writes-input",
        "The graph changes an input in place, so it could not be taken back.",
        (_GUARD,),
    ),
    Reason(
        "speculation-has-effects",
        "The graph has an operator whose effects could not be taken back.",
        (_GUARD,),
    ),
    Reason(
        "strategy-off",
        "The strategy that the site needs is not among config.strategies.",
        ("Add it there.",),
    ),
    Reason(
        "loop-unbounded",
        "The branch decides whether a loop goes round again, and nothing else ends the loop.",
        ("Use a for loop with a bound, or torch.while_loop.",),
    ),
    Reason(
        "no-such-loop",
        "The branch does not guard a while loop of a form that is known.",
        (_OUT,),
    ),
    Reason(
        "loop-carries-value",
        "The loop carries a value from round to round that torch.while_loop cannot carry.",
        ("Carry tensors and ints only, with the same shape and dtype in every round.",),
    ),
    Reason(
        "predicate-not-exact",
        "The condition could not be shown to be the same on tensors as on Python values.",
        ("Compare tensors instead of Python numbers.",),
    ),
    Reason(
        "speculation-guards-index",
        "An index that the check may be there to protect is used on an accelerator.",
        ("Clamp the index, or check it outside the compiled region.",),
    ),
    Reason(
        "backend-refuses",
        "The backend cannot compile the operator that the site became.",
        ("Carry counters as tensors; or use another backend.",),
    ),
    Reason(
        "cond-under-autocast", "The operator for conditions is not used under autocast.", (_OUT,)
    ),
    Reason("speculation-missed", "The unlikely arm was taken too often.", (_GUARD,)),
    Reason(
        "under-export", "An exported program has no place for a check after the graph.", (_GUARD,)
    ),
    Reason(
        "under-checkpoint",
        "A checkpoint's recomputation would stop before what is done after the graph.",
        ("Call `checkpoint` with `early_stop=False`.",),
    ),
    Reason(
        "frame-suspends",
        "The compiled function is a coroutine or a generator.",
        ("Compile a function that it calls.",),
    ),
    Reason("left-alone", "The function is marked with leave_alone.", ()),
    Reason(
        "internal-error",
        "The rewriter failed; this is a bug in graphmend_bc.",
        ("Please report it with the log.",),
    ),
)

REASONS: Final = MappingProxyType({reason.code: reason for reason in _ALL})
"""Every reason by its code."""


class Refused(Exception):
    """A site cannot be rewritten, or not shown to be exact.

    Args:
        code: a key of `REASONS`.
        detail: what was found here, with the user's names; one sentence or nothing.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        self.reason = REASONS[code]
        self.detail = detail
        super().__init__(f"{code}: {self.reason.explanation} {detail}".rstrip())

    def again(self) -> Refused:
        """The same refusal, to be raised once more: one that was raised holds frames."""
        return Refused(self.reason.code, self.detail)
