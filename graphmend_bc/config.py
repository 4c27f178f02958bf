"""Settings of graphmend_bc, in the form of torch's own config modules.

Every name can be set (`graphmend_bc.config.where_op_limit = 16`), patched for a while
(`with graphmend_bc.config.patch(where_op_limit=16): ...`) and preset from outside
(`GRAPHMEND_BC_WHERE_OP_LIMIT=16`, `GRAPHMEND_BC_RULES_OFF=cond,where`). An unknown name is an
AttributeError, and a value that is not valid a ValueError, wherever it comes from.

Example:
    >>> import graphmend_bc
    >>> with graphmend_bc.config.patch(where_op_limit=16):
    ...     graphmend_bc.config.where_op_limit
    16
"""

import sys
from typing import TYPE_CHECKING, Any

from torch.utils._config_module import Config, install_config_module

import graphmend_bc.setting_checks as checks

enabled: bool = True
"""False makes `enable()` and `attach()` do nothing. `GRAPHMEND_BC=0` sets it for good: the program
cannot set it to True then."""

strict_versions: bool = False
"""True refuses a torch that is newer than the newest one known. By default `enable()` tries there
what it replaces in torch, and mends by the rules for which that works."""

attach: str = ""
"""Targets that `enable()` and `python -m graphmend_bc run` attach to, separated by commas.

Example: GRAPHMEND_BC_ATTACH="package.models.*:*.forward,package.loss:focal"
"""

disk_cache: bool = True
"""False keeps no decisions on disk, and reads none; see docs/cache.md."""

cache_dir: str = ""
"""The directory in which decisions are kept. Empty for `graphmend_bc` in `$XDG_CACHE_HOME`, or in
`~/.cache` if that is not set."""

where_op_limit: int = 64
"""Most operators that an arm may have for the strategy `where`, which computes both arms."""

hoist_op_limit: int = 64
"""Most operators that may be run before a graph to compute a number that its trace needs."""

hoist_size_limit: int = 2**20
"""Most elements that these operators may compute together."""

hoist_limit: int = 6
"""How often a frame may be compiled for different values that are computed before its graph; half
as often for different lists of numbers, such as a random order. It must stay below
`torch._dynamo.config.recompile_limit`, or Dynamo skips the whole frame."""

concrete_eval_limit: int = 512
"""Most operators that may be run while compiling to learn the truth value of a condition in this
call; 0 leaves the first speculation on each condition to what the bytecode suggests."""

speculation_limit: int = 512
"""How often the trace of a frame may speculate at one site; more suggests an endless loop."""

arm_limit: int = 256
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
    "accumulate",
    "inline",
    "train",
)
"""The strategies that may be used; a site that needs another one is declined (`strategy-off`)."""

contrib: bool = True
"""False leaves what serves a single library or kind of model (`graphmend_bc/contrib/`) as stock
has it. It counts when mending is switched on."""

rules_off: tuple[str, ...] = ()
"""Names of rules that are not used, such as "cond"; docs/breaks.md lists them."""

sites_off: tuple[str, ...] = ()
"""Lines that are left as stock has them, each as "file:line"; the end of the file's path will do.
Where another number of the frame is captured as a symbol, one that such a line reads is too.

Example: GRAPHMEND_BC_SITES_OFF=model.py:12,layers/norm.py:40
"""

sites_only: tuple[str, ...] = ()
"""The only lines that are mended; empty for all. `graphmend-bc bisect` sets it."""

failed_check_limit: int = 16
"""How often a graph may raise, or the check of an assertion may fail, in at least an eighth of the
calls, before the site is left to stock Dynamo (`speculation-missed`)."""

flip_limit: int = 4
"""How often one site may be re-specialised to the other value."""

snapshot_limit: int = 2**24
"""Most bytes of inputs that are copied before each run of a graph with speculations that changes
them."""

attempt_limit: int = 64
"""Most attempts at tracing one frame; past it, the frame is compiled as stock Dynamo would."""

verify: int = 0
"""Which calls of mended frames are compared with eager Python, on copies: each of so many; 0 for
none. It counts when a frame is compiled. See docs/trouble.md."""

verify_action: str = "warn"
"""What a difference that `verify` finds comes to: "warn", one warning for each frame, or "raise",
an AssertionError. The report has all of them."""

effects: list[Any] = []
"""Functions of the user whose calls are deferred as those of `print` are. Their results must not be
used, and they must change nothing that the compiled function reads.

Example:
    >>> import graphmend_bc
    >>> def log_metric(name, value): ...
    >>> with graphmend_bc.config.patch(effects=[log_metric]):
    ...     len(graphmend_bc.config.effects)
    1
"""

if TYPE_CHECKING:  # torch makes no settings of what is not there when the module is run
    from collections.abc import Mapping
    from contextlib import ContextDecorator

    class _Patch(ContextDecorator):
        """Sets something while a block, or a function that it decorates, runs."""

        def __enter__(self) -> None: ...
        def __exit__(self, *exc_info: object) -> None: ...

    def patch(
        first: str | Mapping[str, object] | None = None,
        second: object = None,
        /,
        **settings: object,
    ) -> _Patch:
        """As `torch._dynamo.config.patch`: what sets something for a while."""


_RENAMED = {"retrace_limit": "attempt_limit"}
"""Settings by the names that they had before, under which they are still read and set."""


def _install() -> None:
    """Make this module a config module of torch's that checks what it is set to."""
    module, known = sys.modules[__name__], strategies
    kinds = checks.kinds_of(
        vars(module),
        {
            "failed_check_limit": checks.Count(least=1),
            "strategies": checks.Names(lambda: known),
            "rules_off": checks.Names(checks.rule_names, known_outside=False),
            "sites_off": checks.Places(),
            "sites_only": checks.Places(),
            "verify_action": checks.Choice(("warn", "raise")),
            "effects": checks.Functions(),
        },
    )
    checks.preset(vars(module), kinds, _RENAMED)
    for old, new in _RENAMED.items():
        vars(module)[old], kinds[old] = Config(alias=f"{__name__}.{new}"), kinds[new]
    if not checks.parsed(checks.Switch(), "GRAPHMEND_BC", True):
        vars(module)["enabled"] = Config(default=False, env_name_force="GRAPHMEND_BC")
    install_config_module(module)
    checks.check_when_set(module, kinds)


_install()
