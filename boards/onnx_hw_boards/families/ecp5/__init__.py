"""The family Lattice ECP5."""
