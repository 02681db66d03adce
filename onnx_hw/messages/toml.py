"""A TOML file of the user's, of limited size."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import UserError


def read_toml(path: Path, largest: int, refused: Callable[[str], UserError]) -> dict[str, Any]:
    """Its tables.

    Args:
        largest: bytes.
        refused: the error of a file that must be so.

    Raises:
        UserError: it is not there, too large, or no TOML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
        if len(content) > largest:
            raise refused(f"at most {largest:,} bytes long")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise refused(f"readable: {error.strerror}") from None
    except RecursionError:
        raise refused("TOML whose tables and arrays are not nested this deep") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise refused(f"TOML: {error}") from None


def quoted(name: str) -> str:
    """As a string of TOML: one of JSON, and what has no shape is escaped."""
    text = json.dumps(name, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
