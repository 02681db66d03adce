"""Parts without a protocol: memories, registers and counters."""
