"""Weights outside the chip: options of where they lie, the slowest design, and FIFOs with which their tape need not
wait.
"""
