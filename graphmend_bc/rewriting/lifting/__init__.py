"""Arms and rounds become functions."""
