# amaranth: UnusedElaboratable=no
"""A few widths through simulated pins, by driver and C header; ``benchmarks/link_widths.py`` takes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_hw_tools import tools
from support.widths_through_pins import wrong_integers

try:
    tools.find("verilator"), tools.find("c++")
except tools.ToolMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)


@pytest.mark.parametrize(("kind", "bits", "signed"), [("uart", 4, False), ("spi", 11, True)])
def test_every_integer_comes_back(kind: str, bits: int, signed: bool, tmp_path: Path) -> None:
    assert wrong_integers(kind, bits, signed, tmp_path) == {"driver": 0, "c": 0}
