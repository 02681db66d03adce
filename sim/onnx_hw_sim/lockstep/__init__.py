"""Several runs of one circuit at once, in lockstep: a word of the circuit is a vector, an element of it a run's.

``netlist`` reads the cells that yosys writes, ``steps`` and ``arithmetic`` say what each does in a cycle, ``order``
when, ``program`` puts it down as C++; ``library`` compiles it, ``simulator`` runs it. ``vectors.h`` is the arithmetic,
``driver.cpp`` the cycle loop.
"""
