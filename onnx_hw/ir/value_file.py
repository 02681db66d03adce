"""File of a value: dataclasses, numbers, texts and arrays, read without running anything that the file names.

A value of the compiler goes in, such as a design; an npz archive comes out, whose member ``value`` is JSON and whose
other members are the arrays. Only dataclasses and enumerations of ``onnx_hw`` are made again, by their constructors.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np

from onnx_hw.messages.regular_file import require_regular_file

T = TypeVar("T")

PACKAGES = ("onnx_hw.", "onnx_hw_link.")
"""First letters of modules whose classes may stand in a file."""

VALUE, DIGEST = "value", "sha256"

MAX_DEPTH = 200

DAMAGED = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, ImportError, EOFError, RuntimeError),
    *(AssertionError, MemoryError, OSError, zipfile.BadZipFile),
)
"""Exceptions of ``decode`` for bytes that are not what ``encode`` wrote."""


@dataclass(frozen=True)
class Stored:
    """Kind of a value that the file holds in another way, by a text.

    Attributes:
        type: class of such values.
        text: function from the value to its text.
        value: function from the text to the value.
    """

    type: type
    text: Callable[[Any], str]
    value: Callable[[str], Any]


def encode(value: Any, others: Mapping[str, Stored]) -> bytes:
    """Return the bytes of a value.

    Args:
        value: dataclass, number, text, array, or a tuple, list, set or mapping of such values.
        others: kinds of values that a text stands for, by a word of the file.

    Raises:
        TypeError: a value is of another type.
    """
    writer = _Writer(others)
    text = json.dumps(writer.plain(value), separators=(",", ":")).encode()
    numbers = {VALUE: np.frombuffer(text, np.uint8), **{f"a{k}": array for k, array in enumerate(writer.arrays)}}
    numbers[DIGEST] = np.frombuffer(_digest(text, writer.arrays), np.uint8)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in numbers.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def decode(path: Path, kind: type[T], others: Mapping[str, Stored]) -> T:
    """Return the value of a file.

    Args:
        kind: class that the value must have.
        others: as for ``encode``.

    Raises:
        DAMAGED: the file is missing or damaged, or another version wrote it.
    """
    with np.load(io.BytesIO(require_regular_file(path).read_bytes()), allow_pickle=False) as stored:
        text = stored[VALUE].tobytes()
        arrays = [stored[f"a{k}"] for k in range(len(stored.files) - 2)]
        if stored[DIGEST].tobytes() != _digest(text, arrays):
            raise ValueError("its digest is not that of its contents")
    value = _Reader(arrays, others).value(json.loads(text), 0)
    if not isinstance(value, kind):
        raise TypeError(f"it holds {type(value).__name__}")
    return value


def _digest(text: bytes, arrays: list[np.ndarray]) -> bytes:
    digest = hashlib.sha256(text)
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


class _Writer:
    """Value as JSON, and its arrays; an array that several values share is written once."""

    def __init__(self, others: Mapping[str, Stored]) -> None:
        self.others, self.arrays = others, list[np.ndarray]()
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of one that is gone

    def plain(self, value: Any) -> Any:
        """Return what JSON holds of a value: itself, an array for a tuple, or an object with one key, its kind."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        for word, other in self.others.items():
            if isinstance(value, other.type):
                return {word: other.text(value)}
        if isinstance(value, Enum):
            return {"enum": [_name(type(value)), value.name]}
        if type(value) is float:
            return {"float": value.hex()}
        if type(value) is tuple:
            return [self.plain(part) for part in value]
        if isinstance(value, (list, frozenset, set)):
            kind = {list: "list", set: "set"}.get(type(value), "frozenset")
            parts = value if kind == "list" else sorted(value, key=repr)
            return {kind: [self.plain(part) for part in parts]}
        if isinstance(value, Mapping):
            return {"dict": [[self.plain(key), self.plain(part)] for key, part in value.items()]}
        if isinstance(value, Fraction):
            return {"fraction": str(value)}
        if isinstance(value, PurePath):
            return {"path": str(value)}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if is_dataclass(value) and not isinstance(value, type):
            known = {each.name: self.plain(getattr(value, each.name)) for each in fields(value) if each.init}
            return {"new": [_name(type(value)), known]}
        raise TypeError(f"a {type(value).__module__}.{type(value).__name__} cannot be written to a file")

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.hasobject:
            return {"objects": [list(array.shape), [self.plain(part) for part in array.reshape(-1).tolist()]]}
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self._kept.append(array)
            self.arrays.append(array)
        return {"array": self._numbers[id(array)]}


class _Reader:
    """The inverse of ``_Writer``."""

    def __init__(self, arrays: list[np.ndarray], others: Mapping[str, Stored]) -> None:
        self.arrays, self.others = arrays, others
        for array in arrays:
            array.flags.writeable = False

    def value(self, plain: Any, depth: int) -> Any:
        """Return the value that JSON stands for.

        Raises:
            DAMAGED: nothing stands for it.
        """
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deep")
        if isinstance(plain, list):
            return tuple(self.value(part, depth + 1) for part in plain)
        if not isinstance(plain, dict):
            return plain
        ((kind, content),) = plain.items()
        if kind in self.others:
            return self.others[kind].value(content)
        if kind in ("list", "set", "frozenset"):
            parts = [self.value(part, depth + 1) for part in content]
            return parts if kind == "list" else set(parts) if kind == "set" else frozenset(parts)
        if kind == "dict":
            return {self.value(key, depth + 1): self.value(part, depth + 1) for key, part in content}
        if kind == "enum":
            return _class(content[0], Enum)[content[1]]
        if kind == "new":
            made = _class(content[0], object)
            return made(**{name: self.value(part, depth + 1) for name, part in content[1].items()})
        if kind == "objects":
            array = np.empty(len(content[1]), dtype=object)
            array[:] = [self.value(part, depth + 1) for part in content[1]]
            return array.reshape(content[0])
        if kind == "array":
            return self.arrays[content]
        simple: dict[str, Callable[[Any], Any]] = {
            "float": float.fromhex,
            "fraction": Fraction,
            "dtype": np.dtype,
            "path": Path,
            "scalar": lambda inner: self.value(inner, depth + 1)[()],
        }
        return simple[kind](content)


def _name(kind: type) -> str:
    if not kind.__module__.startswith(PACKAGES):
        raise TypeError(f"a {kind.__module__}.{kind.__name__} cannot be written to a file")
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, base: type) -> Any:
    """Return a class of onnx_hw by module and name."""
    module, _, path = name.partition(":")
    if not module.startswith(PACKAGES) or "." in path:
        raise TypeError(f"{name} is no class of onnx_hw")
    made = getattr(sys.modules.get(module) or import_module(module), path)
    known = isinstance(made, type) and issubclass(made, base) and made.__module__ == module
    if not known or (base is object and not is_dataclass(made)):
        raise TypeError(f"{name} is no such class")
    return made
