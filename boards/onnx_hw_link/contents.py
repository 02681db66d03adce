"""Contents of the memories of a chip that can be loaded, such as weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from onnx_hw_link.greeting import ChipStatus, Greeting
from onnx_hw_link.link import LOADED_DIGEST

__all__ = ["Contents"]


@dataclass(frozen=True)
class Contents:
    """Contents of the memories of a chip, such as weights.

    Attributes:
        data: the bytes, in the order of their addresses.
        digest: 16 bytes that identify them.
    """

    data: bytes = field(repr=False)
    digest: bytes

    @classmethod
    def of(cls, data: bytes) -> Contents:
        """Return the contents with their digest."""
        return cls(data, hashlib.sha256(data).digest()[:LOADED_DIGEST])

    def is_held_by(self, greeting: Greeting) -> bool:
        """Return whether a chip says that it holds these contents, and takes frames."""
        return greeting.loaded == self.digest and bool(greeting.status & ChipStatus.READY)
