"""What the remaining graph breaks cost: `graphmend_bc.profile`.

The C extension measures calls; `break_costs` puts the time down to breaks. May import:
attachment.frame_hooks, dynamo.trace.
"""
