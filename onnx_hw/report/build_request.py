"""Options of a build and digests of its files, from which ``onnx-hw verify`` makes the design once more."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.schedule_request import NUMBERS

FOLDER_OPTIONS = ("inputs", "calibration")
"""Options that may name a folder."""

SCHEDULING = "scheduling"
"""Field of ``BuildOptions`` whose fields stand among the other options; foldings are in a file."""

REQUESTED = (*NUMBERS, "fastest")
"""Fields of the ``ScheduleRequest`` that do so."""


@dataclass(frozen=True)
class BuildRequest:
    """Options of the build, and the files that they name."""

    options: Annotated[Mapping[str, Any], "the fields of `onnx_hw.runtime.options.BuildOptions`; paths are absolute"]
    sha256: Annotated[Mapping[str, str], "SHA-256 of the contents of every file that was read, by option"]


def describe_build_request(options: BuildOptions) -> BuildRequest:
    """Return the options and the digests of the files as they are now.

    Call it before the stage that reads the files has begun, or after it is done.
    """
    names = (n for n in files_of(options) if n in FOLDER_OPTIONS or not os.path.isdir(getattr(options, n)))
    digests = {name: sha256(getattr(options, name)) for name in names}
    return BuildRequest(flat(options), {name: digest for name, digest in digests.items() if digest is not None})


def files_of(options: BuildOptions) -> tuple[str, ...]:
    """Return the names of the options that name a file to be read."""
    paths = (field.name for field in fields(options) if isinstance(getattr(options, field.name), Path))
    return tuple(name for name in paths if name not in ("out", "store"))


def sha256(path: Path) -> str | None:
    """Return the SHA-256 of a file's contents, or of the names and contents of a folder's files and of its folders.

    None where they cannot be read; the stage that needs them reports that.
    """
    try:
        if path.is_dir():
            entries = list(path.iterdir())
            entries += [entry for folder in entries if folder.is_dir() for entry in folder.iterdir()]
            each = {entry.relative_to(path).as_posix(): sha256(entry) for entry in entries if entry.is_file()}
            return hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def flat(options: BuildOptions) -> dict[str, Any]:
    """Return the fields of the options for JSON, with those of the request to the scheduler among them."""
    built = plain(options)
    numbers = built.pop(SCHEDULING)
    return built | {name: numbers[name] for name in REQUESTED}


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as ``BuildOptions`` nests them; the inverse of ``flat``."""
    others = {name: value for name, value in options.items() if name not in REQUESTED}
    return others | {SCHEDULING: {name: options[name] for name in REQUESTED if name in options}}


def plain(value: Any) -> Any:
    """Return a dataclass as the objects, arrays, texts and numbers that JSON holds; paths become absolute."""
    return msgspec.to_builtins(value, enc_hook=_to_builtin)


def _to_builtin(value: Any) -> Any:
    """Return a path as a text, a numpy scalar as a number."""
    return str(value.absolute()) if isinstance(value, Path) else value.item()
