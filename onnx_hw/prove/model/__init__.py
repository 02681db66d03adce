"""Proof that golden equals the reference."""
