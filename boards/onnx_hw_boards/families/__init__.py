"""Chip families: one file per family, with its tools' recipes and its chips."""
