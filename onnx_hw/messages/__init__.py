"""Errors, invariants and text: everything that is said to a user."""
