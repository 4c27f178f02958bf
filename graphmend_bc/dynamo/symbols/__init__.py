"""Numbers that are known only at run time: unbacked symbols, and what may be computed with them.

May import: trace, graph, legality.
"""
