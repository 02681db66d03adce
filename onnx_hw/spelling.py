"""Names in sentences: the one somebody may have meant, and those that are too long."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_NAME = 48


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint such as ``did you mean `ecp5`?``; otherwise the list of what there is.

    >>> did_you_mean("ecp6", ["ecp5", "ulx3s"])
    'did you mean `ecp5`?'
    >>> did_you_mean("zynq", ["ecp5", "ulx3s"])
    'there is `ecp5`, `ulx3s`'
    """
    names = list(known)
    by_lower_case = {name.lower(): name for name in names}
    close = get_close_matches(given.lower(), by_lower_case, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{by_lower_case[close[0]]}`?"
    return "there is " + ", ".join(f"`{name}`" for name in names) if names else ""


def short(name: str) -> str:
    """A name in a sentence; exporters make some of several hundred characters, told apart by their ends."""
    return f"`{name}`" if len(name) <= LONGEST_NAME else f"`…{name[1 - LONGEST_NAME :]}`"
