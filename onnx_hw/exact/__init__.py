"""Exact arithmetic on integers, and the proofs of it: nothing above has to be believed here."""
