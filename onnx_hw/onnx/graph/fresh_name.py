"""Names for values that a pass adds to a graph."""

from __future__ import annotations

from collections.abc import Container


def unused_name(name: str, *taken: Container[str]) -> str:
    """The name, with as many primes as it takes to be nobody else's."""
    while any(name in names for names in taken):
        name += "'"
    return name
