# amaranth: UnusedElaboratable=no
"""A chip at an SPI bus that samples the controller's clock: the driver's frames come back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.links.spi import Spi
from onnx_hw_link.chip import Chip
from onnx_hw_link.link import Link, LinkPort
from onnx_hw_link.session import Faults
from onnx_hw_link.spi_transport import SpiTransport
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_sim.serial_line import WireFaults
from onnx_hw_sim.spi_bus import SpiChip, SpiPort
from onnx_hw_tools import tools
from support.link_bench import Sums, sums

try:
    tools.find("verilator")
except tools.ToolMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

LINK = Link(bytes(range(16)), (LinkPort("a", 40, 3, 4),), (LinkPort("b", 5, 1, 11),), 60 * 10**6)
FRAMES = [random.Random(k).randbytes(LINK.input_bytes) for k in range(30)]
SCK_HZ = 15 * 10**6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spi")


def simulated(folder: Path, cycles_per_bit: float = 4.0) -> SpiChip:
    shell = Spi(SCK_HZ).shell(Sums(LINK), LINK, 60.0)
    return SpiChip(to_rtlil(Shell(shell)), cycles_per_bit, folder)


@pytest.mark.parametrize(("cycles_per_bit", "share"), [(4.0, 0.0), (4.3, 0.0), (11.0, 0.003)])
def test_every_frame_comes_back(folder: Path, cycles_per_bit: float, share: float) -> None:
    with SpiPort(simulated(folder, cycles_per_bit), faults := WireFaults(share, seed=3)) as port:
        transport = SpiTransport(SCK_HZ)
        with Chip(port.path, baud=SCK_HZ, digest=LINK.digest, timeout=20, transport=transport) as chip:
            results = list(chip.stream(FRAMES))
            assert [result.beats for result in results] == [sums(LINK, frame) for frame in FRAMES]
            assert bool(faults.hit) == bool(share) == (chip.session.faults != Faults())
        assert port.error is None
