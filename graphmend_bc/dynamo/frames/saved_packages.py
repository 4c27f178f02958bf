"""torch's cache of compiled frames, which is off while mending is on.

With `torch._dynamo.config.caching_precompile` a frame that another process compiled is used as it
is: nothing is traced, so nothing would be mended. What is mended cannot be put there either: it
rests on guards that torch does not save, and drops.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch._dynamo import config

log = logging.getLogger("graphmend_bc")


@dataclass(slots=True)
class SavedPackages:
    """Whether the cache was on when mending was switched on.

    Attributes:
        was_on: if so, it is put on again when mending is switched off.
    """

    was_on: bool = False

    def keep_out(self) -> None:
        """Switch the cache off, and say so."""
        if config.caching_precompile:
            self.was_on, config.caching_precompile = True, False
            _tell()

    def let_in(self) -> None:
        """Switch the cache on again, if it was."""
        if self.was_on:
            self.was_on, config.caching_precompile = False, True


def without_package(given: dict[str, Any]) -> AbstractContextManager[Any]:
    """A block in which a frame is compiled although the cache was switched on after mending was.

    Args:
        given: the arguments of Dynamo's `_compile`; the package is left out of them.
    """
    if not config.caching_precompile:
        return nullcontext()
    if given.get("package") is not None:
        given["package"] = None
    _tell()
    block: AbstractContextManager[Any] = config.patch(caching_precompile=False)
    return block


@cache
def _tell() -> None:
    """Once in a process."""
    log.warning(
        "torch._dynamo.config.caching_precompile is off while graphmend_bc is enabled: what it "
        "loads was compiled without mending. Unset TORCH_CACHING_PRECOMPILE, or call "
        "graphmend_bc.disable() before torch.compile. Plans and kernels are kept as without it."
    )
