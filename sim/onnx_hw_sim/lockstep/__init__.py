"""Simulation of several runs of one circuit in lockstep: a word of the circuit is a vector with one element for each
run.

``netlist`` reads the cells that yosys writes; ``steps`` and ``arithmetic`` say what each cell does in a cycle, and
``levelize`` in which order; ``program`` writes it as C++; ``library`` compiles it, and ``simulator`` runs it.
``vectors.h`` is the arithmetic, ``driver.cpp`` the cycle loop.
"""
