"""All names at once."""

# ruff: noqa: F403, F405
from graphmend_bc import *  # pyright: ignore[reportWildcardImportFromLibrary]

SOME = (enable, report, config.verify, UnsupportedVersionError)
