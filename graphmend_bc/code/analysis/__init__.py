"""Analyses of a code object: basic blocks, dominators, loops, liveness, the operand stack."""
