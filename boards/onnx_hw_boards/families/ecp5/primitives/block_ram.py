"""DP16KD as a read-only memory: 18 kbit of block RAM, read through its own output register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from amaranth.hdl import ClockSignal, Const, Instance, Module, Value

from onnx_hw_boards.families.ecp5.primitives.rom_blocks import add_rom

LATENCY = 2  # the memory and its output register
_ADDRESS_PINS = 14
_PARAMETERS = 64  # INITVAL_00 .. INITVAL_3F
_WORDS_PER_PARAMETER = 16  # words of 18 bits, each padded to 20
_PADDED = 20


@dataclass(frozen=True)
class BlockRamGeometry:
    """A way to use one block.

    Attributes:
        width: bits per word.
        depth: words.
        port_width: bits per port; half of ``width`` when both ports serve one word.
    """

    width: int
    depth: int
    port_width: int

    @property
    def both_ports(self) -> bool:
        return self.width > self.port_width


# The widest one reads the lower half of a word through port A and the upper half through port B.
GEOMETRIES = (
    BlockRamGeometry(36, 512, 18),
    BlockRamGeometry(18, 1024, 18),
    BlockRamGeometry(9, 2048, 9),
    BlockRamGeometry(4, 4096, 4),
    BlockRamGeometry(2, 8192, 2),
    BlockRamGeometry(1, 16384, 1),
)


def best_geometry(width: int, depth: int) -> tuple[BlockRamGeometry, int, int]:
    """Choose the geometry for ``depth`` words of ``width`` bits: in the fewest blocks, then in the fewest banks.

    Returns:
        geometry, number of blocks side by side, number of banks one after the other.
    """
    choices = [(g, -(-width // g.width), -(-depth // g.depth)) for g in GEOMETRIES]
    return min(choices, key=lambda choice: (choice[1] * choice[2], choice[2]))


def initial_values(geometry: BlockRamGeometry, words: Sequence[int]) -> list[int]:
    """Return the 64 ``INITVAL`` parameters, 320 bits each, that make a block hold ``words``.

    A block is 1024 words of 18 bits, or 2048 bytes of 9. Ports of 4, 2 and 1 bit see only the lower 8 bits of a byte.
    """
    if geometry.both_ports:
        half = (1 << geometry.port_width) - 1
        cells = [word & half for word in words] + [0] * (geometry.depth - len(words))
        cells += [word >> geometry.port_width for word in words]
    else:
        cells = list(words)
    width = geometry.port_width
    memory = [0] * (_PARAMETERS * _WORDS_PER_PARAMETER)
    for index, cell in enumerate(cells):
        if width == 18:
            memory[index] = cell
        elif width == 9:
            memory[index // 2] |= cell << 9 * (index % 2)
        else:
            byte, bit = divmod(index * width, 8)
            memory[byte // 2] |= cell << (9 * (byte % 2) + bit)
    return [
        sum(word << _PADDED * k for k, word in enumerate(memory[start : start + _WORDS_PER_PARAMETER]))
        for start in range(0, len(memory), _WORDS_PER_PARAMETER)
    ]


def block_rom(geometry: BlockRamGeometry, words: Sequence[int], address: Value, data: Value) -> Instance:
    """Return a block: ``data`` becomes ``words[address]`` after ``LATENCY`` cycles of the domain ``sync``.

    ``data`` has at most ``geometry.width`` bits, ``address`` no more than ``geometry.depth`` needs.
    """
    connections: dict[str, object] = {}
    for index, value in enumerate(initial_values(geometry, words)):
        connections[f"p_INITVAL_{index:02X}"] = Const(value, _PADDED * _WORDS_PER_PARAMETER)
    for port in "AB":
        read = port == "A" or geometry.both_ports
        connections |= {
            f"p_DATA_WIDTH_{port}": geometry.port_width,
            f"p_REGMODE_{port}": "OUTREG",
            f"i_CLK{port}": ClockSignal("sync"),
            f"i_CE{port}": int(read),
            f"i_OCE{port}": 1,  # without it the output register keeps its first value
            f"i_WE{port}": 0,
            f"i_RST{port}": 0,
            **{f"i_CS{port}{k}": 0 for k in range(3)},
        }
        if read:
            upper = port == "B"
            connections |= {
                f"i_AD{port}{pin}": bit for pin, bit in enumerate(_address_pins(geometry, address, upper=upper))
            }
            lanes = data[geometry.port_width :] if upper else data[: geometry.port_width]
            connections |= {f"o_DO{port}{k}": lanes[k] for k in range(len(lanes))}
    return Instance("DP16KD", p_RESETMODE="SYNC", p_GSR="DISABLED", **connections)


def _address_pins(geometry: BlockRamGeometry, address: Value, *, upper: bool) -> list[Value | int]:
    """Return the address pins. Narrower words are addressed further down: the lowest pin is log2(16 / port width)."""
    lowest = {18: 4, 9: 3, 4: 2, 2: 1, 1: 0}[geometry.port_width]
    pins: list[Value | int] = [0] * _ADDRESS_PINS
    for k in range(len(address)):
        pins[lowest + k] = address[k]
    if upper:
        pins[_ADDRESS_PINS - 1] = 1
    return pins


def rom(m: Module, words: Sequence[int], address: Value, data: Value) -> None:
    """Add the fewest blocks to ``m`` that make ``data`` equal ``words[address]`` after ``LATENCY`` cycles."""
    geometry, _, _ = best_geometry(len(data), len(words))
    block = partial(block_rom, geometry)
    add_rom(m, words, address, data, depth=geometry.depth, width=geometry.width, block=block)
