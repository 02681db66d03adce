"""Demand of operators: what they ask of a chip, in counted parts."""
