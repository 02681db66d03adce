"""Links 3 and 4 of the proof: golden and the predicted cycles equal the circuit, and the netlist of the chip."""
