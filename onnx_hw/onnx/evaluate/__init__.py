"""The numpy reference, shapes, constant folding."""
