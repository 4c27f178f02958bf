"""Conditions in bytecode: short circuits, what they ask, which way they likely go."""
