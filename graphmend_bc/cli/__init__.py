"""`python -m graphmend_bc`: a file or a package for each subcommand.

May import: everything below.
"""
