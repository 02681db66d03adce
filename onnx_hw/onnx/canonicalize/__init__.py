"""Rewriting of a model into the few forms that are lowered."""
