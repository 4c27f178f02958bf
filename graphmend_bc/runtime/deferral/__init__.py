"""Deferred calls at run time: where their text goes, what their code reaches, how they run."""
