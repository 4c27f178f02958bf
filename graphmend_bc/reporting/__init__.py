"""Mends, declines and speculation counts as values; the closed list of reasons; tables.

May import: code, runtime. Imports no torch.
"""
