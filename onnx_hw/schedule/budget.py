"""Budgets of resources, and the resources' weights against each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any

from onnx_hw.exact.requantization import LUTS_PER_BLOCK_RAM
from onnx_hw.ops.operator import Resources


@dataclass(frozen=True)
class Budget:
    """Resources that a design may use; None for no bound.

    Attributes:
        mac_lanes: products per cycle.
        dsp: hardware multipliers.
        lut, bram: look-up tables; block RAMs.
        pins: of the chip, where the streams of the outside lie on them.
        ff: flip-flops.
        logic: logic cells, on chips where a look-up table and a flip-flop share one.
        in_logic: products may be made of look-up tables, where multipliers are too few.
        easy_logic: logic cells up to which a design is placed easily; see ``onnx_hw_boards.families.family.Fill``.
    """

    mac_lanes: int | None = None
    dsp: int | None = None
    lut: int | None = None
    bram: int | None = None
    pins: int | None = None
    ff: int | None = None
    logic: int | None = None
    in_logic: bool = False
    easy_logic: int | None = None

    def easily_placed(self) -> Budget:
        """Return the budget without the logic cells that a design takes only where it fits in no other way."""
        if self.logic is None or self.easy_logic is None:
            return self
        return replace(self, logic=min(self.logic, self.easy_logic))

    def excess(self, used: Resources) -> dict[str, tuple[int, int]]:
        """Return (used, allowed) of every resource of which there is too little."""
        return {RESOURCES[field]: pair for field, pair in self._exceeded(used).items()}

    def stretched(self, used: Resources, most: Budget) -> Budget:
        """Return the budget with all that ``most`` has of each resource that ``used`` takes too much of."""
        return replace(self, **{field: getattr(most, field) for field in self._exceeded(used)})

    def leaving_for_fifos(self, cores: Resources, used: Resources, most: Budget) -> Budget | None:
        """Return the budget with less block RAM and logic cells, for cores that leave the FIFOs of a design enough.

        What the design takes beyond ``most`` is taken off once or several times, until other cores must be chosen. None
        where it takes too much of something else, or nothing would be left.

        Args:
            cores, used: what the design takes without its FIFOs, and with them.
        """
        exceeded = most._exceeded(used)
        if not exceeded or exceeded.keys() - {"bram", "logic"}:
            return None
        left: dict[str, Any] = {}
        for field, (taken, allowed) in exceeded.items():
            bound = allowed if getattr(self, field) is None else getattr(self, field)
            beyond, enough = taken - allowed, bound - amount(cores, field) + 1
            left[field] = bound - max(1, -(-enough // beyond)) * beyond
        return replace(self, **left) if min(left.values()) > 0 else None

    def times(self, factor: Fraction) -> Budget:
        """Return the budget with every resource multiplied."""
        have = {field: getattr(self, field) for field in RESOURCES}
        more: dict[str, Any] = {field: None if n is None else floor(n * factor) for field, n in have.items()}
        return replace(self, **more)

    def _exceeded(self, used: Resources) -> dict[str, tuple[int, int]]:
        pairs = {field: (amount(used, field), getattr(self, field)) for field in RESOURCES}
        return {field: (have, most) for field, (have, most) in pairs.items() if most is not None and have > most}


RESOURCES = {
    "mac_lanes": "MAC lanes",
    "dsp": "multipliers",
    "lut": "LUTs",
    "bram": "block RAMs",
    "pins": "pins",
    "ff": "flip-flops",
    "logic": "logic cells",
}
"""The fields of a ``Budget``, as people call them."""


def amount(used: Resources, field: str) -> int:
    """Return the amount that is used of a resource that a ``Budget`` has a field for."""
    return int(getattr(used, field))


WEIGHTS = {"mac_lanes": 0, "dsp": 537, "lut": 1, "bram": LUTS_PER_BLOCK_RAM, "pins": 0, "ff": 0, "logic": 1}
"""Weights in LUTs. Flip-flops have no weight where a chip has one for each look-up table, and where both share cells,
these run out. A resource weighs as much as its share of an LFE5U-85F: 83,640 LUTs, 156 multipliers, 208 block RAMs.
"""


def weight(resources: Resources) -> float:
    """Return a cost to compare candidates by, in LUTs."""
    return sum(each * amount(resources, field) for field, each in WEIGHTS.items())
