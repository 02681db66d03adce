"""The link from golden and the timing to the circuit: whether they agree, value by value and cycle by cycle."""
