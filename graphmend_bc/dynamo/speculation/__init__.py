"""Truth values and sizes that are assumed, and checked after the graph.

May import: before_graph, trace, graph.
"""
