"""Files of every folder ``shell``: one test bench per shell, which needs only cocotb and numpy."""
