"""Readers of memories outside the chip, and models of those memories."""
