"""What one attempt at tracing a frame knows, and how a site stands in it.

May import: graph, legality, runtime, reporting. `context` holds the state of the attempt;
`op_recorder` listens to the operators; `breaks` says where Dynamo stopped.
"""
