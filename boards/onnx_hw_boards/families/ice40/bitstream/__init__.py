"""Bitstreams of the iCE40 family, unpacked into cells and nets again."""
