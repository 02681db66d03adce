"""The hardware operators: one file each, with its meaning, timing and cost; its circuit has the same name in ``rtl/``."""
