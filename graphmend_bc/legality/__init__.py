"""Trace-time proofs: may both arms of a branch be computed and one result chosen?

Nothing here knows about Dynamo. The facts are recorded operators, fake tensors and FX nodes; a
proof that fails raises `Refused` with a reason code.
"""
