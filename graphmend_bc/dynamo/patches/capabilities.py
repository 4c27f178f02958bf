"""What rests on seams: capabilities that rules need, and features that a program can do without.

A rule says what it needs (`Rule.needs`); a seam says what rests on it (`Seam.needed_by`). A seam
protects the exactness of what rests on it, and need not be what makes it work. What protects every
mend is essential; so is what nothing is said of.
"""

from __future__ import annotations

from typing import Final

ESSENTIAL: Final = ("all mends",)
"""Nothing is mended without it."""

SELECTION: Final = "results chosen from two tensors"
"""The identity of such a result is not the program's."""

SYMBOLS: Final = "numbers known at run time"
"""Numbers that a trace does not know, or knows of this call only."""

HOST_READS: Final = "numbers read after the graph"

COMPUTED_GUARDS: Final = "guards that compute"
"""Guards that compute something from the inputs, or ask the process."""

UNCACHED_CALLS: Final = "calls that are made each time"
"""What must not be mended inside the call of a function that caches its results."""

GROWN_LISTS: Final = "lists that grow"
"""Without it, a function that joins a list that it adds to is compiled anew in each call."""

DEFERRED_CALLS: Final = "calls made after the graph"

NUMPY_DRAWS: Final = "draws from NumPy's generator"

PYTHON_DRAWS: Final = "draws from Python's generators"

MODULE_FLAGS: Final = "flags of modules"

DECIDING: Final = "decisions at breaks"
"""Breaks that nothing mends cost no attempt; without it, each costs one."""

RETRYING: Final = "mends of calls on the spot"
"""Without it, a call that breaks the graph costs an attempt for each rule that is tried."""

RESUMING: Final = "resumption in the program's code"
"""Without it, Python goes on after a break with rewritten code."""

ATTRIBUTE_DICTS: Final = "dicts of attributes"
"""Without it, `vars` of an object that a function makes may lack what it sets."""

AUTOGRAD_FUNCTIONS: Final = "methods of autograd functions"
"""Without it, those that are class methods break the graph."""

NESTED_BREAKS: Final = "breaks inside of called functions"
"""Without it, Python may go on inside of code of ours, if `nested_graph_breaks` is set."""
