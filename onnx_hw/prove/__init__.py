"""Links 2 to 4 of the proof chain: reference = golden (``model/``), golden = circuit and circuit = netlist
(``circuit/``).
"""
