"""Builds the optional C extension; everything else about the project is in pyproject.toml.

Without a C compiler, or with GRAPHMEND_BC_NO_EXTENSION=1, the package installs without the
extension: it mends as before, and only `graphmend_bc.attach` is missing. A free-threaded build of
CPython gets none either, and `graphmend_bc.enable()` says there why it does not mend.
"""

import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

# The files share names with each other and with nobody else.
C_FLAGS = ["/std:c11"] if sys.platform == "win32" else ["-std=c11", "-fvisibility=hidden"]

FRAME_HOOKS = Extension(
    "graphmend_bc._frame_hooks",
    sources=sorted(glob("csrc/*.c")),
    depends=sorted(glob("csrc/*.h")),
    extra_compile_args=C_FLAGS,
)


class OptionalBuildExt(build_ext):
    """Turns any failure to compile into one warning, and goes on without the extension."""

    def run(self) -> None:
        """Build the extension, or say once why it could not be built."""
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            self.extensions = []
            self.warn(
                "graphmend_bc is installed without its C extension and will not mend, because it "
                "relies on the GIL, which this free-threaded build of Python lacks."
            )
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            self.extensions = []  # what is not built is not copied or listed either
            self.warn(
                f"graphmend_bc is installed without its C extension, which could not be built: "
                f"{error}. graphmend_bc.attach() will not work; everything else will. To have "
                "it, install a C compiler and the headers of this Python, and install again. "
                "Set GRAPHMEND_BC_NO_EXTENSION=1 to skip this step."
            )


skipped = os.environ.get("GRAPHMEND_BC_NO_EXTENSION", "") not in ("", "0")

setup(
    ext_modules=[] if skipped else [FRAME_HOOKS],
    cmdclass={"build_ext": OptionalBuildExt},
)
