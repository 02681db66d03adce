"""Foldings: how wide the streams of a core are, hence how often its circuit is reused.

Every operator has a type of its own. A folding is a frozen dataclass of whole numbers, and of the kind of multiplier
where there are products: its fields are what stands in a folding file and in the report, and those with a default need
not be said. Which numbers are legal, which orders of beats follow from them and what they cost, the operator knows;
which of them are good is known only after the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from typing import Self

from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor


class MultiplierKind(Enum):
    """Kind of a product's circuit; the value is the word that a folding file uses."""

    HARDWARE = "hardware"
    LOGIC = "logic"
    """Look-up tables."""


@dataclass(frozen=True, repr=False)
class Folding:
    """Base of all foldings. A field called ``multiplier`` is a ``MultiplierKind``, the others are numbers.

    ``lanes``, ``pixels`` and ``tile`` belong to the orders on both sides, ``in_lanes`` or ``out_tile`` to that on one
    side; a side without a number of lanes has one.
    """

    @classmethod
    def narrowest(cls) -> Self:
        """Return the cheapest and slowest folding: 1 in every field without a default."""
        return cls(**dict.fromkeys(cls.required(), 1))

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Return the names of the fields without a default."""
        return tuple(field.name for field in fields(cls) if field.default is MISSING)

    def numbers(self) -> dict[str, int]:
        """Return all fields but the kind of multiplier."""
        return {name: getattr(self, name) for name in self.names() if name != "multiplier"}

    @property
    def in_logic(self) -> bool:
        """Whether its products are made of look-up tables."""
        return getattr(self, "multiplier", MultiplierKind.HARDWARE) is MultiplierKind.LOGIC

    def said(self) -> dict[str, int | MultiplierKind]:
        """Return the fields but those that have their default."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    @classmethod
    @cache
    def _fields_of(cls, side: str) -> tuple[tuple[str, str], ...]:
        """Return the arguments of the order of one side, and the fields that give them."""
        names = {argument: (f"{side}_{argument}", argument) for argument in ("lanes", "pixels", "tile")}
        return tuple((argument, name) for argument, both in names.items() for name in both if name in cls.names())

    def _order(self, tensor: Tensor, side: str) -> Order:
        numbers = {argument: getattr(self, name) for argument, name in self._fields_of(side)}
        return Order(tensor, **{"lanes": 1, **numbers})

    def input_order(self, tensor: Tensor) -> Order:
        """Return the order in which the core takes an operand."""
        return self._order(tensor, "in")

    def output_order(self, tensor: Tensor) -> Order:
        """Return the order in which the core gives a result."""
        return self._order(tensor, "out")

    def __repr__(self) -> str:
        return spelled(self.numbers()) + (", in logic" if self.in_logic else "")


def spelled(numbers: Mapping[str, int]) -> str:
    """Write a folding briefly: lanes in and out, ``4×7``, or of all streams, ``4``; then all else that is not 1."""
    parts = ["×".join(str(number) for name, number in numbers.items() if name.endswith("lanes"))]
    parts += [f"{numbers[name]} {name}" for name in ("pixels", "steps", "taps") if numbers.get(name, 1) > 1]
    parts += [words for name, words in (("blocks", "in block RAM"), ("quick", "of few stages")) if numbers.get(name)]
    in_pixels, out_pixels = (numbers.get(f"{side}_pixels", 1) for side in ("in", "out"))
    if (in_pixels, out_pixels) != (1, 1):
        parts.append(f"{in_pixels} to {out_pixels} pixels" if in_pixels != out_pixels else f"{in_pixels} pixels")
    tiles = (name for name in numbers if name.endswith("tile") and numbers[name] > 1)
    parts += [f"{name.replace('_', ' ')} {numbers[name]}" for name in tiles]
    return ", ".join(parts)


@dataclass(frozen=True, repr=False)
class EvenFolding(Folding):
    """Folding of a core whose streams are equally wide: ``lanes`` are the integers per beat of each."""

    lanes: int


@dataclass(frozen=True, repr=False)
class ElementFolding(EvenFolding):
    """Folding of a core that treats every element alike, wherever it comes.

    Attributes:
        lanes: channels per beat of every stream.
        pixels: pixels per beat.
        tile: pixels of a tile; 0 for those of a beat.
    """

    pixels: int = 1
    tile: int = 0

    @property
    def width(self) -> int:
        """Elements that are treated side by side."""
        return self.lanes * self.pixels


@dataclass(frozen=True, repr=False)
class SlidingFolding(Folding):
    """Folding of a core in which a window slides over an image.

    Attributes:
        in_lanes, out_lanes: channels per beat of the image, of the result.
        in_pixels, out_pixels: pixels per beat of the image, of the result: windows side by side.
    """

    in_lanes: int
    out_lanes: int
    in_pixels: int = 1
    out_pixels: int = 1
