"""Undo a graph that must not count, and run the original code instead (deoptimisation).

`rollback_analysis` shows before the graph runs that it can be undone; `watched_graph` does it.
May import: trace, graph.
"""
