"""The family Lattice iCE40."""
