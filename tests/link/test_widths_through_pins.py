# amaranth: UnusedElaboratable=no
"""Integers of all widths through simulated pins, by UART and SPI, by driver and C header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from onnx_hw_tools import tools
from support.widths_through_pins import LINKS, Kind, wrong_integers

try:
    tools.find("verilator"), tools.find("c++")
except tools.ToolMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)


ALL = tuple((bits, signed) for bits in range(1, 17) for signed in (True, False))
SOME = ((1, True), (3, False), (5, True), (8, False), (9, True), (16, False))
"""Kinds enough for the other link: the bytes of the same words come by another way."""


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [("spi", ALL), ("uart", ((4, False),)), ("uart", SOME)],
    ids=["spi", "uart, by halves of a byte", "uart"],
)
def test_every_integer_comes_back(kind: str, kinds: Sequence[Kind], tmp_path: Path) -> None:
    """All widths in one chip, whose bytes come bit by bit; and widths of which several make a byte."""
    assert wrong_integers(LINKS[kind], kinds, tmp_path) == {"driver": 0, "c": 0}
