"""What is drawn from the generators of NumPy and Python is drawn before the graph.

May import: before_graph, host_values, calls, trace.
"""
