"""Functions that are known by identity: what they do, and how they may be treated.

One file a kind of function. May import: runtime.
"""
