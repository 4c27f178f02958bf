"""The only package that touches torch internals: where Dynamo is met, and what primitives mean in it."""
