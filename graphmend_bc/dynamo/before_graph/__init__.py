"""The prologue: what runs before the graph, on the inputs of the frame.

A subgraph that depends on the inputs only becomes a source of Dynamo's, with guards like those of
any input. May import: host_values, symbols, calls, trace, graph.
"""
