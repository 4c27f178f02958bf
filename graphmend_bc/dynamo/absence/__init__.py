"""What a trace learns from what is not there: names, keys, defaults, hooks, special methods.

Stock Dynamo does not guard on it. May import: calls, trace.
"""
