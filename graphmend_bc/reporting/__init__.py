"""Mends, declines and speculation counts as values; the closed list of reasons; tables.

May import: runtime. Imports no torch.
"""
