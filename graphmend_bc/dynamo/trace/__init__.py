"""What one attempt at tracing a frame knows, whom it asks, and how a site stands in it.

May import: frames, graph, legality, runtime, reporting. `compilation` holds the state of the
attempt, `planner` says what it asks, `op_recorder` listens to the operators.
"""
