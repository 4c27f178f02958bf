"""Truth values and sizes that are taken for granted and checked after the graph.

May import: before_graph, trace, graph.
"""
