"""What is called in a trace, and what becomes of a call: marked callees, higher-order operators.

May import: trace, frames, graph.
"""
