"""The epilogue: what runs after the graph and before Dynamo replays side effects.

Values that the host reads from outputs of the graph, snapshots of the arguments of deferred calls,
and the calls themselves. May import: symbols, calls, trace, graph.
"""
