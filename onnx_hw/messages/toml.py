"""TOML files of the user, of limited size."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import UserError
from onnx_hw.messages.regular_file import require_regular_file


def read_toml(path: Path, largest: int, refused: Callable[[str], UserError]) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        largest: greatest size, in bytes.
        refused: returns the error that says what the file must be, as in "readable: ...".

    Raises:
        UserError: the file is missing, too large, or not TOML.
    """
    try:
        with require_regular_file(path).open("rb") as file:
            content = file.read(largest + 1)
        if len(content) > largest:
            raise refused(f"at most {largest:,} bytes long")
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise refused(f"readable: {error.strerror}") from None
    except RecursionError:
        raise refused("TOML whose tables and arrays are not nested this deep") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise refused(f"TOML: {error}") from None


def quoted(name: str) -> str:
    """Return a name as a TOML string: a JSON string with invisible characters escaped."""
    text = json.dumps(name, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
