"""The bitstream of an ECP5, read back into cells and nets."""
