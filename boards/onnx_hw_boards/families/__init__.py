"""Chip families: one folder per family, found by itself.

A folder holds ``recipes.py`` (the ``Family`` values, the chips, the programs), ``cost.py`` (what a demand takes of a
chip), ``primitives`` (cells placed by hand, Amaranth) and ``cell_models.py`` (what its cells do, for simulation). The
first two are data: no Amaranth is loaded before a circuit is built, no simulator before a netlist is simulated.
"""
