"""Shared libraries of simulations, and whole chips that are simulated in them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

POINTER, I64, U64, U32, I32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32

Signature = tuple[Any, Sequence[Any]]
"""(type of the result, types of the arguments)."""


class NativeLibrary:
    """Shared library that a C++ compiler made of a driver and a circuit."""

    PREFIX: ClassVar[str]
    """Beginning of the names of the driver's functions."""
    SIGNATURES: ClassVar[Mapping[str, Signature]]
    """The driver's functions, by the rest of their names."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self._c = ctypes.CDLL(str(library))
        for name, (result, arguments) in self.SIGNATURES.items():
            function = self._function(name)
            function.restype, function.argtypes = result, arguments

    def _function(self, name: str) -> Any:
        return getattr(self._c, f"{self.PREFIX}_{name}")


class NativeChip(NativeLibrary):
    """Whole chip that is simulated; its driver has the functions ``open``, ``close``, ``cycle`` and ``error``.

    Args:
        library: the shared library.
        speed: argument of ``open``, which says how long a bit takes.
    """

    def __init__(self, library: Path, speed: float) -> None:
        super().__init__(library)
        self._handle = self._function("open")(speed)

    @property
    def cycle(self) -> int:
        """Number of cycles simulated so far."""
        return int(self._function("cycle")(self._handle))

    @property
    def _error(self) -> str:
        """Text of the error that ended the simulation."""
        text: bytes = self._function("error")(self._handle)
        return text.decode()

    def close(self) -> None:
        """Release the chip; no other method may be called afterwards."""
        if self._handle is not None:
            self._function("close")(self._handle)
            self._handle = None
