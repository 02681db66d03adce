"""Target of an elaboration: simulation, or a chip family with its cells.

Amaranth hands ``platform`` to every ``elaborate``: ``None`` in simulation, a ``Target`` in synthesis. A block that a
family has a cell for asks ``primitives_of(platform)`` for it and otherwise elaborates its behavioural twin, which has
the same latency and the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Elaboratable, Module, Value

Gated = tuple[Value, Value]
"""An integer, and a bit by which it is multiplied."""


@dataclass(frozen=True)
class PllSetting:
    """Settings of a PLL.

    Attributes:
        input_mhz: clock at its input.
        dividers: dividers by the primitive's own names.
        at_pad: whether that clock arrives at the PLL's own pad, and not at some other one.
    """

    input_mhz: float
    dividers: Mapping[str, int]
    at_pad: bool = False


@dataclass(frozen=True)
class Primitives:
    """Cells of a family that are placed by hand; None where synthesis finds them in the behavioural twin.

    Attributes:
        multiplier: (a, b, p): ``p`` is ``a · b`` three cycles later, see ``Multiplier``.
        rom: (m, words, addr, data): into ``m``, ``data`` is ``words[addr]`` two cycles later, see ``Rom``.
        flip_flop: (d, q): one bit, in a flip-flop that synthesis does not merge with an equal one.
        distributed_memory: whether there is memory in look-up tables, which synthesis finds.
        gated_sum: (m, name, (k, g), (a, h), bits, negative): into ``m``, ``k·g + a·h``, or ``k·g − a·h``, of two
            integers with a bit each; in one carry chain, whose look-up tables do the ands.
        pll: (m, pad, setting): into ``m``, the clock that a PLL makes of the one at a platform's pad, and whether it
            has locked.
        configuration_clock: (clock): a cell that drives the pin of the configuration flash's clock, which no pad
            reaches.
    """

    multiplier: Callable[[Value, Value, Value], Elaboratable] | None = None
    rom: Callable[[Module, Sequence[int], Value, Value], None] | None = None
    flip_flop: Callable[[Value, Value], Elaboratable] | None = None
    distributed_memory: bool = True
    gated_sum: Callable[[Module, str, Gated, Gated, int, bool], Value] | None = None
    pll: Callable[[Module, Any, PllSetting], tuple[Value, Value]] | None = None
    configuration_clock: Callable[[Value], Elaboratable] | None = None


@dataclass(frozen=True)
class Target:
    """The ``platform`` of a synthesis, with the cells of the chip's family that are placed by hand."""

    primitives: Primitives


def primitives_of(platform: object) -> Primitives:
    """Return the cells that a block may place by hand; none in simulation."""
    return platform.primitives if isinstance(platform, Target) else Primitives()
