"""What was learnt of functions, kept for later frames and for other processes."""
