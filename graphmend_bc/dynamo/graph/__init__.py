"""The FX graph that is being traced: its nodes, its inputs' memory, what running it changes.

May import: legality, reporting, config. Knows no site and no trace.
"""
