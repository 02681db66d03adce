"""Text for users: escaping and shortening of names, JSON, and suggestions for a misspelt name.

A name from a file or from the command line may hold escapes that command a terminal, line breaks that forge a message,
and marks that reverse the direction of what follows. Every text that is shown passes ``printable`` or ``legible``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

MAX_NAME = 48  # characters of a name in a sentence
MAX_TEXT = 2000  # characters of a message; names of any length may stand in it
MAX_FILE_NAME = 200  # bytes; most file systems allow 255, and endings are added

LEAST_LIKENESS = 0.65
"""Likeness of two names, 0 to 1 as ``difflib`` counts, below which one is no typing error of the other."""


def printable(text: str) -> str:
    """Return one line: control characters, line breaks, marks of direction and all else that is invisible are escaped.

    >>> printable("x\\x1b[2J\\u202ey")
    'x\\\\x1b[2J\\\\u202ey'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def legible(text: str) -> str:
    """Escape text of several lines as ``printable`` does, but for its line breaks."""
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def quote(text: str, limit: int = 80) -> str:
    """Return a name in double quotes, shortened to ``limit`` characters; quotes within it are escaped."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return '"' + "".join("\\" + c if c in '"\\' else printable(c) for c in shown) + '"'


def short(name: str) -> str:
    """Return a name for a sentence. Exporters make names of several hundred characters that differ in their ends."""
    return f"`{printable(name if len(name) <= MAX_NAME else f'…{name[1 - MAX_NAME :]}')}`"


def abridged(text: str, limit: int = MAX_TEXT) -> str:
    """Return one printable line of bounded length; what is too long is cut out of the middle."""
    shown = printable(text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}")
    return shown if len(shown) <= limit + 3 else f"{shown[: limit // 2]} … {shown[-limit // 2 :]}"


def spelled_shape(shape: Sequence[int | str | None]) -> str:
    """Return a shape such as ``[n,1,?,8]``; a length of None is unknown."""
    return f"[{','.join('?' if size is None else printable(str(size)) for size in shape)}]"


def file_name(name: str) -> str:
    """Return a name as part of a file name: without path separators and unprintable characters, and not too long."""
    plain = "".join(c if c.isprintable() and c not in "/\\\\" else "_" for c in name)
    return plain.encode()[:MAX_FILE_NAME].decode(errors="ignore")


def to_json(value: Any) -> str:
    """Return JSON for readers: letters of all languages as they are, invisible characters escaped.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return text + "\n"


def nearest(name: str, known: Iterable[str], likeness: float = LEAST_LIKENESS) -> str:
    """Return the known name that is most like another one, whatever the case; empty where none is as like it."""
    by_lower_case = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=likeness)
    return by_lower_case[close[0]] if close else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``did you mean `up5k`?``; where no name is close, list all of them.

    >>> did_you_mean("up6k", ["up5k", "ulx3s"])
    'did you mean `up5k`?'
    >>> did_you_mean("zynq", ["up5k", "ulx3s"])
    'there is `up5k`, `ulx3s`'
    """
    names = list(known)
    close = nearest(name, names)
    if close:
        return f"did you mean `{close}`?"
    return "there is " + ", ".join(f"`{other}`" for other in names) if names else ""
