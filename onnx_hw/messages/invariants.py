"""What is said about a value that is not what it must be: by the pass that made it, or by whoever handed it in.

Passes take one value and return the next, and each is verified before it goes on: a wrong network is named where it was
made, not three stages later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_hw.messages.errors import Problem, UserError

SHOWN = 10
"""Faults that are told; one mistake may break every tensor."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a value.

    Attributes:
        what: one sentence: what must be, what is.
        node, tensor: the names of those it is about, or empty.
    """

    what: str
    node: str = ""
    tensor: str = ""

    @property
    def where(self) -> str:
        """``node `conv1`, tensor `x```."""
        return ", ".join(f"{kind} `{name}`" for kind in ("node", "tensor") if (name := getattr(self, kind)))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class InvariantError(Exception):
    """A pass returned a value that is not what it must be: a bug of onnx-hw.

    Attributes:
        made_by: the pass.
        faults: the first of what is wrong.
    """

    def __init__(self, made_by: str, what: str, faults: tuple[Fault, ...]) -> None:
        super().__init__(f"{made_by} made a broken {what}: {'; '.join(map(str, faults))}")
        self.made_by, self.faults = made_by, faults

    @property
    def fault(self) -> Fault:
        """The first one."""
        return self.faults[0]


def refuse(what: str, faults: Iterable[Fault], made_by: str = "") -> None:
    """Raise what is wrong, if anything is.

    Args:
        what: what the value is: ``network``, ``design``, ``model``.
        made_by: the pass it comes from; empty where a caller of the library hands it in.

    Raises:
        Broken: a pass made it.
        UserError: a caller did.
    """
    found = tuple(fault for fault, _ in zip(faults, range(SHOWN), strict=False))
    if found and made_by:
        raise InvariantError(made_by, what, found)
    if found:
        raise UserError(*(Problem(f"broken-{what}", fault.what, fault.where, stage="arguments") for fault in found))
