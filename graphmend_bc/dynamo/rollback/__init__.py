"""Undo a graph that must not count, and run the original code instead (deoptimisation).

`rollback_analysis` shows before the graph runs that it can be undone; `deopt_wrapper` does it.
May import: trace, graph.
"""
