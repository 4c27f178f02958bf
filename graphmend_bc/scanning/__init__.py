"""Likely graph breaks in programs that are read and never run: sources, bytecode, archives.

May import: nothing of the others. Imports no torch; xdis only in the process that reads bytecode.
"""
