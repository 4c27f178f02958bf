"""The only package that touches torch internals: where Dynamo is met, what primitives mean."""
