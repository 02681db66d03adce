"""Names in sentences: fit for a terminal whatever they hold, the one somebody may have meant, those that are too long.

A name from a file, or from the command line, may hold escapes that command a terminal, line breaks that forge a
message, marks that turn the direction of what follows. Whatever is shown passes ``printable`` or ``legible``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LONGEST_NAME = 48
LONGEST_TEXT = 2000  # characters of a message; names of any length may stand in it
LONGEST_FILE_NAME = 200  # bytes; most file systems allow 255, and endings are added


def printable(text: str) -> str:
    """One line: control characters, line breaks, marks of direction and whatever else has no shape are escaped.

    >>> printable("x\\x1b[2J\\u202ey")
    'x\\\\x1b[2J\\\\u202ey'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def legible(text: str) -> str:
    """The same for text of several lines."""
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def quote(text: str, limit: int = 80) -> str:
    """A name in double quotes, which it cannot leave, shortened."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return '"' + "".join("\\" + c if c in '"\\' else printable(c) for c in shown) + '"'


def short(name: str) -> str:
    """A name in a sentence; exporters make some of several hundred characters, told apart by their ends."""
    return f"`{printable(name if len(name) <= LONGEST_NAME else f'…{name[1 - LONGEST_NAME :]}')}`"


def abridged(text: str, limit: int = LONGEST_TEXT) -> str:
    """One printable line of bounded length: what is too much is left out in the middle."""
    shown = printable(text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}")
    return shown if len(shown) <= limit + 3 else f"{shown[: limit // 2]} … {shown[-limit // 2 :]}"


def file_name(name: str) -> str:
    """A name as part of a file's: without path separators and what is not printable, and not too long."""
    plain = "".join(c if c.isprintable() and c not in "/\\\\" else "_" for c in name)
    return plain.encode()[:LONGEST_FILE_NAME].decode(errors="ignore")


def to_json(value: Any) -> str:
    """JSON that people read: letters of all languages as they are, what has no shape escaped; NaN is refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return text + "\n"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint such as ``did you mean `up5k`?``; otherwise the list of what there is.

    >>> did_you_mean("up6k", ["up5k", "ulx3s"])
    'did you mean `up5k`?'
    >>> did_you_mean("zynq", ["up5k", "ulx3s"])
    'there is `up5k`, `ulx3s`'
    """
    names = list(known)
    by_lower_case = {name.lower(): name for name in names}
    close = get_close_matches(given.lower(), by_lower_case, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{by_lower_case[close[0]]}`?"
    return "there is " + ", ".join(f"`{name}`" for name in names) if names else ""
