"""Everything that touches TorchDynamo.

Each package below states its duty and what it may import. Arrows go one way, from `patches` down to
`graph`; `pyproject.toml` holds the order, and the tests check it.
"""
