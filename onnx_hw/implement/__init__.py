"""From a netlist to the bits of a chip, by programs of others."""
