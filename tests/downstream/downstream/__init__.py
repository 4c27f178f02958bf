"""Uses every public name of graphmend_bc, typed."""
