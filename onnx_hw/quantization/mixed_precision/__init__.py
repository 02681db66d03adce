"""Mixed precision: the bit width of every tensor, by its sensitivity and by what it costs in hardware."""
