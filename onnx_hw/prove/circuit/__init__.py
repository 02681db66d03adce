"""The links from golden and the timing to the circuit, and to the netlist of the chip: each value, each cycle."""
