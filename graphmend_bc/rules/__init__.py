"""The ways to mend a break, one file a rule; a rule only widens a plan, the proofs come later."""
