"""Lookup of chips: which families there are, and the chip on a board."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from onnx_hw_boards.device import PackagedChip


@cache
def recipes() -> tuple[ModuleType, ...]:
    """Return the module ``recipes`` of every family, sorted by the names of their folders.

    Each has ``CHIPS``, chips by their names in platform classes, and ``packaged_chip``, as the function here, which
    returns None for a chip of another family. To import one adds the family's programs to those of ``onnx_hw_tools``.
    """
    folders = sorted(file.parent.name for file in (Path(__file__).parent / "families").glob("*/recipes.py"))
    return tuple(import_module(f"onnx_hw_boards.families.{folder}.recipes") for folder in folders)


def packaged_chip(platform: Any) -> PackagedChip:
    """Return the chip on a board, by the board's Amaranth platform class.

    Raises:
        ValueError: no family has this chip; the message lists those that there are.
    """
    for family in recipes():
        chip: PackagedChip | None = family.packaged_chip(platform)
        if chip is not None:
            return chip
    known = ", ".join(name for family in recipes() for name in family.CHIPS)
    raise ValueError(f"the chip must be one of {known}, not that of {platform.__name__}")
