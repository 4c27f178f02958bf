"""Calls without a used result that are deferred to the epilogue: print, loggers, warnings.

May import: corrections, host_values, calls, trace.
"""
