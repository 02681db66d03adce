"""Products, sums and clamping."""
