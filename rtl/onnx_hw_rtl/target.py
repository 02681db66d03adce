"""What a circuit is elaborated for.

Amaranth hands ``platform`` to every ``elaborate``: ``None`` in simulation, a ``Target`` in synthesis. A block with a
hand-placed primitive chooses it by ``family_of(platform)`` and otherwise elaborates its behavioural twin, which has
the same latency and the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Target", "family_of"]


@dataclass(frozen=True)
class Target:
    """The ``platform`` of a synthesis.

    Attributes:
        family: name of the FPGA family, such as ``ecp5``.
    """

    family: str


def family_of(platform: object) -> str | None:
    """The FPGA family to build for, or None for simulation."""
    return getattr(platform, "family", None)
