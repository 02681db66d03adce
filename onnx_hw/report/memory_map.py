"""Section of the report about block RAMs: which memory of which core lies in which blocks, and how well it fills them.

The names of blocks are those in the chip's netlist, which yosys makes from the names of the memories; the sizes of the
memories are those of the circuit before it. A netlist has hundreds of megabytes, most of them connections, which are
passed over without being kept.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from onnx_hw.ir.design import Design
from onnx_hw.ops.rom_contents import RomImage
from onnx_hw_boards.families.family import Family

_BLOCK = re.compile(r"(?P<path>.+?)(?:\.block\d+_\d+|(?:\.\d+)+)")
"""Name of a block: its memory, then its place among the memory's blocks."""

_SIZES = re.compile(
    r"^module \\(?P<module>\S+)$|^  memory width (?P<width>\d+) size (?P<words>\d+) \\(?P<memory>\S+)$|"
    r"^  wire width (?P<data>\d+) (?:\w+ )*\\data$",
    re.MULTILINE,
)
"""Memories and data ports in RTLIL."""

_CONTENTS = {
    "ring": "rows of the frame",
    "vector": "operands",
    "outbox": "FIFO",
    "table": "addresses",
    "receiver": "bytes from the host",
    "sender": "bytes to the host",
}
"""Contents of memories that are no constants, by the beginning of their names."""


@dataclass(frozen=True)
class MemorySection:
    """Memory of the circuit that lies in block RAMs."""

    core: Annotated[str, "name of the core; empty for the shell around the circuit"]
    memory: Annotated[str, "its name in the core"]
    contents: Annotated[str, "what it holds: `weight`, `threshold`, `rows of the frame`, `FIFO` ..."]
    words: Annotated[int, "number of its words; 0 where that is unknown"]
    word_bits: Annotated[int, "bits of a word; 0 where that is unknown"]
    blocks: Annotated[tuple[str, ...], "names of its block RAMs in the core's part of the netlist"]
    bits_used: Annotated[int, "bits of its words"]
    bits_taken: Annotated[int, "bits of these block RAMs"]


class _Cell(msgspec.Struct, gc=False):
    """Cell of a netlist in yosys' JSON, without its connections, parameters and attributes."""

    type: str


class _Module(msgspec.Struct):
    """Module of a netlist in yosys' JSON: its cells by name."""

    cells: dict[str, _Cell] = {}  # msgspec copies it for every module


class _Netlist(msgspec.Struct):
    """Netlist in yosys' JSON: its modules by name."""

    modules: dict[str, _Module]


def describe_memories(design: Design, rtlil: str, netlist: Path, family: Family) -> tuple[MemorySection, ...]:
    """Return every memory in block RAMs, in the order of the data; the shell's are the last.

    Args:
        rtlil: the circuit before synthesis.
        netlist: yosys' JSON file.
        family: the chip's family.
    """
    from onnx_hw.assemble.elaborate import module_names

    names = {module: node for node, module in module_names(design).items()}
    constants = {node.name: node.operator.memories(design.folding(node)) for node in design.network.nodes}
    order = {node.name: number for number, node in enumerate(design.network.nodes)}
    sizes = _sizes(rtlil)
    blocks: dict[tuple[str, str], list[str]] = {}
    for module, cell, _ in _block_rams(netlist, family):
        match = _BLOCK.fullmatch(cell)
        blocks.setdefault((module, match["path"] if match else cell), []).append(cell)
    sections = []
    for (module, path), cells in blocks.items():
        core = names.get(module.rpartition(".")[2], "") if ".design." in module else ""
        image = _image(constants.get(core, {}), path)
        words, bits = sizes.get(f"{module}.{path}", (0, 0))
        if not words and image is not None:
            words = len(image.words)
        sections.append(
            MemorySection(
                core,
                path.removeprefix("core.").removeprefix("shell."),
                _contents(path) if image is None else image.what,
                words if bits else 0,
                bits,
                tuple(cells),
                words * bits,
                len(cells) * family.bram_bits,
            )
        )
    return tuple(sorted(sections, key=lambda memory: (order.get(memory.core, len(order)), memory.memory)))


def _block_rams(netlist: Path, family: Family) -> Iterator[tuple[str, str, str]]:
    """Yield module, cell and kind of every block RAM in a netlist."""
    kinds = {kind for kind, cells in family.cells.items() if cells.bram}
    if not netlist.stat().st_size:
        return
    with netlist.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        modules = msgspec.json.decode(text, type=_Netlist).modules
    for name, module in modules.items():
        for cell, described in module.cells.items():
            if described.type in kinds:
                yield name, cell, described.type


def _sizes(rtlil: str) -> dict[str, tuple[int, int]]:
    """Return (words, bits) of every memory by its path; a module of placed blocks has the width of its data alone."""
    sizes: dict[str, tuple[int, int]] = {}
    module = ""
    for match in _SIZES.finditer(rtlil):
        if match["module"]:
            module = match["module"]
        elif match["memory"]:
            sizes[f"{module}.{match['memory']}"] = int(match["words"]), int(match["width"])
        else:
            sizes[module] = 0, int(match["data"])
    return sizes


def _image(constants: Mapping[str, RomImage], path: str) -> RomImage | None:
    """Return the contents of a memory of constants; None for another one."""
    name = path.removeprefix("core.").removesuffix(".memory")
    return constants.get(name) or constants.get(name.rstrip("0123456789"))


def _contents(path: str) -> str:
    parts = path.split(".")
    return next((what for part in parts for start, what in _CONTENTS.items() if part.startswith(start)), "data")
