"""Parts without a protocol: memories, registers, counters."""
