"""Settings of graphmend_bc, in the form of torch's own config modules.

Every name can be set (`graphmend_bc.config.where_op_limit = 16`), patched for a while
(`with graphmend_bc.config.patch(where_op_limit=16): ...`) and, where an environment name is given,
preset from outside. An unknown name is an AttributeError.

Example:
    >>> import graphmend_bc
    >>> with graphmend_bc.config.patch(where_op_limit=16):
    ...     graphmend_bc.config.where_op_limit
    16
"""

import sys
from typing import TYPE_CHECKING, Any

from torch.utils._config_module import Config, install_config_module

enabled: bool = Config(default=True, env_name_default="GRAPHMEND_BC_ENABLED")
"""False makes `enable()` a no-op; for switching everything off from outside."""

force: bool = Config(default=False, env_name_default="GRAPHMEND_BC_FORCE")
"""True skips the check that this torch and this Python are known."""

attach: str = Config(default="", env_name_default="GRAPHMEND_BC_ATTACH")
"""Targets that `enable()` and `python -m graphmend_bc run` attach to, separated by commas.

Example: GRAPHMEND_BC_ATTACH="package.models.*:*.forward,package.loss:focal"
"""

where_op_limit = 64
"""Most operators that an arm may have for both arms to be computed."""

hoist_op_limit = 64
"""Most operators that may be run before a graph to compute a number that its trace needs."""

hoist_size_limit = 2**20
"""Most elements that these operators may compute together."""

hoist_limit = 6
"""How often a frame may be compiled anew for a value that is computed before its graph; it must
stay below `torch._dynamo.config.recompile_limit`, or Dynamo gives the whole frame up."""

look_limit = 512
"""Most operators that may be run while compiling to learn which way a condition goes in this call;
0 leaves the first guess at each condition to what the bytecode suggests."""

guess_limit = 512
"""How often the trace of a frame may come by a site and guess; more suggests an endless loop."""

arm_limit = 256
"""Most arms that are traced for one branch, those of the branches inside it included."""

strategies: tuple[str, ...] = (
    "fold",
    "where",
    "cond",
    "while_loop",
    "capture",
    "hoist",
    "speculate",
    "defer",
    "probe",
    "flags",
    "leaf",
    "draw",
    "once",
    "copy",
    "polyfill",
)
"""The ways in which sites may be mended; a site that needs another one is left as stock has it."""

rules_off: tuple[str, ...] = ()
"""Names of rules that are not used, such as "cond"; docs/breaks.md lists them."""

miss_limit = 16
"""How often a guess may be wrong, in at least an eighth of the calls, before it is changed."""

turn_limit = 4
"""How often a guess at one site may be changed before the site is left as stock Dynamo has it."""

snapshot_limit = 2**24
"""Most bytes of inputs that are copied before a graph that changes them and rests on guesses."""

retrace_limit = 64
"""Most attempts at tracing one frame; past it, the frame is compiled as stock Dynamo would."""

effects: list[Any] = []
"""Functions of the user that only observe: calls of them are deferred as `print` is.

Example:
    >>> import graphmend_bc
    >>> def log_metric(name, value): ...
    >>> with graphmend_bc.config.patch(effects=[log_metric]):
    ...     len(graphmend_bc.config.effects)
    1
"""

if TYPE_CHECKING:

    def patch(*args: Any, **kwargs: Any) -> Any: ...


install_config_module(sys.modules[__name__])
