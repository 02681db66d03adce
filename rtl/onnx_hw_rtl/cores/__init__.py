"""Cores: one file per hardware operator, and what they share."""
