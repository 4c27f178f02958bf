"""Settings of graphmend_bc, in the form of torch's own config modules.

Every name can be set (`graphmend_bc.config.where_op_limit = 16`), patched for a while
(`with graphmend_bc.config.patch(where_op_limit=16): ...`) and, where an environment name is given,
preset from outside. An unknown name is an AttributeError.
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

miss_limit = 16
"""How often a frame may fall back to its original code before its speculations are given up."""

retrace_limit = 64
"""Most attempts at tracing one frame; past it, the frame is compiled as stock Dynamo would."""

effects: list[Any] = []
"""Functions of the user that only observe: calls of them are deferred as `print` is.

Example:
    >>> graphmend_bc.config.effects = [my_metrics.log]  # doctest: +SKIP
"""

if TYPE_CHECKING:

    def patch(*args: Any, **kwargs: Any) -> Any: ...


install_config_module(sys.modules[__name__])
