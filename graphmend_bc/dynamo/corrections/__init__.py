"""Where stock Dynamo traces something wrongly that its graph breaks normally hide.

One file a fault of stock. May import: host_values, symbols, calls, trace.
"""
