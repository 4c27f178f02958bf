"""Compile a function wherever it is called, without touching it: `graphmend_bc.attach`.

`targets` says what a target means, `frame_hooks` loads the C extension. May import:
dynamo.patches, config.
"""
