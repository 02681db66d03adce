"""Scripts of a page: two kept libraries and code of our own, all embedded, so that the page is one file.

The libraries lie in ``templates/vendor``, exactly as their makers publish them on npm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_hw.messages.text import abridged

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
MAX_NAME = 200  # characters
_FORBIDDEN = ("]]>", "</script", "</style")
"""Texts that would end the element in which a file is embedded."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that XML forbids; scripts have them in texts only, where an escape means the same."""


@dataclass(frozen=True)
class Library:
    """Library of another project.

    Attributes:
        package: its name on npm.
        version: version of the files.
        sha256: digests of its files, by name.
        licence: file with its licence.
    """

    package: str
    version: str
    sha256: Mapping[str, str]
    licence: str


LIBRARIES = (
    Library(
        "uplot",
        "1.6.32",
        {
            "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        },
        "LICENSE-uPlot",
    ),
    Library(
        "@dagrejs/dagre",
        "3.1.3",
        {"dagre.min.js": "54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578"},
        "LICENSE-dagre",
    ),
)
"""Libraries of the pages, both with the MIT licence: plots with axes, and the layout of a graph."""


@cache
def embedded(name: str) -> Markup:
    """Return a script or a style sheet for a page, in CDATA; a library's begins with its licence.

    Args:
        name: name of a file in ``templates`` or in ``templates/vendor``.
    """
    from markupsafe import Markup

    library = next((library for library in LIBRARIES if name in library.sha256), None)
    path = TEMPLATES / name if library is None else TEMPLATES / "vendor" / name
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL")]
    if library is not None:
        licence = (path.parent / library.licence).read_text(encoding="utf-8").strip()
        lines.insert(0, f"/*! {library.package} {library.version}\n{licence}\n*/")
    text = "\n".join(lines)
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    if any(part in text for part in _FORBIDDEN):
        raise AssertionError(f"{name} cannot be embedded")
    return Markup(f"/*<![CDATA[*/\n{text}\n/*]]>*/")


def json_of(value: Any) -> Markup:
    """Return JSON of a value or a dataclass for a script element, which no character in it can end.

    Names in it are printable.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    from markupsafe import Markup

    text = json.dumps(_printable(value), allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return abridged(value, MAX_NAME)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _printable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _printable(entry) for name, entry in value.items()}
    return [_printable(entry) for entry in value] if isinstance(value, list | tuple) else value
