"""The ways to mend a break, a file for each family; a rule widens a plan, proofs come later."""
