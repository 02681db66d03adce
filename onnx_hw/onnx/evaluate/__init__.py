"""Evaluation of a graph: the numpy reference, shapes, constant folding."""
