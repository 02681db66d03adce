"""The files of every cocotb folder."""
