"""The plans of one frame: which site is rewritten how, and what is left to try."""
