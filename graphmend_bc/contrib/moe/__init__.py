"""Routers of mixtures of experts look which experts have something to do."""

from __future__ import annotations

from typing import Final

from graphmend_bc.contrib.moe import lists, rows
from graphmend_bc.extension import Extension

EXTENSION: Final = Extension("moe", rules=(lists.RULE, rows.RULE))
