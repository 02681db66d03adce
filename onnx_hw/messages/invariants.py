"""Errors for a value that breaks its invariants, made by a pass of ours or handed in by a caller.

Passes take one value and return the next, and each is verified before it goes on: a wrong network is reported where it
was made, not three stages later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_hw.messages.errors import Problem, UserError

MAX_FAULTS = 10
"""Number of faults in an error; one mistake may break every tensor."""


@dataclass(frozen=True)
class Fault:
    """Fault of a value.

    Attributes:
        what: one sentence: what must be, and what is.
        node, tensor: names of the node and the tensor that it is about, or empty.
    """

    what: str
    node: str = ""
    tensor: str = ""

    @property
    def where(self) -> str:
        """Place of the fault, such as ``node `conv1`, tensor `x```."""
        return ", ".join(f"{kind} `{name}`" for kind in ("node", "tensor") if (name := getattr(self, kind)))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class InvariantError(Exception):
    """Exception for a pass, ``made_by``, that returned a value with ``faults``, which is a bug of onnx-hw."""

    def __init__(self, made_by: str, what: str, faults: tuple[Fault, ...]) -> None:
        super().__init__(f"{made_by} made a broken {what}: {'; '.join(map(str, faults))}")
        self.made_by, self.faults = made_by, faults

    @property
    def fault(self) -> Fault:
        """The first fault."""
        return self.faults[0]


def refuse(what: str, faults: Iterable[Fault], made_by: str = "") -> None:
    """Raise an error if a value has faults.

    Args:
        what: kind of the value: ``network``, ``design``, ``model``.
        faults: its faults.
        made_by: name of the pass that made it; empty where a caller of the library handed it in.

    Raises:
        InvariantError: a pass made it.
        UserError: a caller did.
    """
    first = tuple(fault for fault, _ in zip(faults, range(MAX_FAULTS), strict=False))
    if first and made_by:
        raise InvariantError(made_by, what, first)
    if first:
        raise UserError(*(Problem(f"broken-{what}", fault.what, fault.where, stage="arguments") for fault in first))
