"""A chip's netlist simulated cell by cell, in 64 runs at once: one bit of a word for each of them."""
