"""Errors, invariants and text: everything that a user reads."""
