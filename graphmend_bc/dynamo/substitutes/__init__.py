"""Calls that are traced as something else with the same result.

May import: before_graph, trace, graph.
"""
