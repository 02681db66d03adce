"""Weights outside the chip: options of where they lie, and FIFOs with which their tape need not wait."""
