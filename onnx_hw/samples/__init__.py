"""Samples of a caller and outputs of a run, as arrays."""
