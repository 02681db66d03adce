"""Names for values that a pass adds to a graph."""

from __future__ import annotations

from collections.abc import Container


def unused_name(name: str, *taken: Container[str]) -> str:
    """Return the name, followed by the fewest primes that make it differ from all names in ``taken``."""
    while any(name in names for names in taken):
        name += "'"
    return name
