"""The hardware operators, one file each: meaning, timing and cost. The circuit has the same name in ``rtl/``."""
