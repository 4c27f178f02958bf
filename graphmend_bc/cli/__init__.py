"""`python -m graphmend_bc`: run, explain. One file a subcommand.

May import: everything below.
"""
