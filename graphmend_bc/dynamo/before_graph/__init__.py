"""The prologue: what runs before the graph, on the inputs of the frame.

A subgraph that depends on the inputs only becomes a source of Dynamo's, with guards like those of
any input. Host code that draws random numbers runs here too. May import: after_graph, symbols,
trace, graph.
"""
