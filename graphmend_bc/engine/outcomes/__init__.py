"""What became of mended frames: failed checks, recompilations, and what they cost."""
