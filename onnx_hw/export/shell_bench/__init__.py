"""The files of every folder ``shell``: a bench per shell, which needs cocotb and numpy alone."""
