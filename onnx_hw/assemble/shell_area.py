"""Area of the shell around a network on a board with a link, clock and reset included."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import onnx_hw_boards
from onnx_hw.assemble.netlist import shell_of
from onnx_hw.assemble.netlist_demand import demand_of_netlist
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.ops.demand.tape import check_demand, deal_demand, reader_demand
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Demand
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.link import LOAD_UNIT, LOADED_DIGEST, MOST_PAYLOAD, Link, LinkPort, LoadArea
from onnx_hw_tools.user_cache import user_cache


def shell_cells(network: Network, board: Board, clock_mhz: float) -> Cells:
    """Return an estimate of the shell's cells without a design, for the narrowest streams; none on a bare chip.

    What brings weights from outside the chip is part of it.

    Raises:
        UserError: the clock is too slow for the link, or no whole number of its cycles is near a bit.
    """
    if not isinstance(board, LinkedBoard):
        return Cells()
    inputs, outputs = _ports("i", network, network.inputs), _ports("o", network, network.outputs)
    link = Link(bytes(16), inputs, outputs, round(clock_mhz * 1e6), load=_load_area(network))
    cells = cells_of_shell(link, board, clock_mhz) + board.family.cost(_tape_demand(network, board, clock_mhz))
    if link.load is None or not cells.logic:
        return cells
    return replace(cells, logic=cells.logic + round(ROOM_FOR_LOADS * board.cells.logic))


@lru_cache(maxsize=64)
def cells_of_shell(link: Link, board: LinkedBoard, clock_mhz: float) -> Cells:
    """Return an estimate of the shell's cells from the circuit itself, elaborated around an empty network.

    Elaboration takes long, for two dozen boards most of ``onnx-hw boards``. The result stays in the user's cache for
    as long as no source changes that the circuit or its cost depends on; of boards of the project, whose sources are
    known.
    """
    file = _kept_in(link, board, clock_mhz)
    if file is not None:
        with suppress(OSError, ValueError, TypeError):  # the file is not there yet, or damaged
            return Cells(**json.loads(file.read_text(encoding="utf-8")))
    cells = board.family.cost(demand_of_netlist(shell_of(link, board, clock_mhz).rtlil))
    if file is not None:
        with suppress(OSError):
            _keep(file, cells)
    return cells


def _kept_in(link: Link, board: LinkedBoard, clock_mhz: float) -> Path | None:
    """Return the file for the cells of a shell; None for a board of the user's own."""
    if board.name not in onnx_hw_boards.names() or onnx_hw_boards.board(board.name) is not board:
        return None
    asked = f"{_sources()} {link!r} {board.name} {clock_mhz!r}"
    return user_cache() / "shells" / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"


def _keep(file: Path, cells: Cells) -> None:
    """Write the file at once, for there may be other processes that read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as written:
        json.dump(asdict(cells), written)
    os.replace(written.name, file)


@cache
def _sources() -> str:
    """Return a digest of the sources that make shells and say what they cost, and the versions of Amaranth's."""
    specs = (find_spec(package) for package in ("onnx_hw_boards", "onnx_hw_link", "onnx_hw_rtl"))  # circuits load late
    folders = [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    folders.append(Path(__file__).parent)
    digest = hashlib.sha256(" ".join(map(version, ("amaranth", "amaranth-boards"))).encode())
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


RUNS_PER_CORE = 8
"""Runs of a tape for each core that it feeds, as a guess before there is a schedule."""


def _tape_demand(network: Network, board: Board, clock_mhz: float) -> Demand:
    """Return an estimate of what brings weights from outside the chip, for the narrowest words; nothing without any."""
    taped = [node.operator for node in network.nodes if node.operator.taped_bits]
    if not taped or board.memory is None:
        return Demand()
    words = [order for each in taped if (order := each.taped_words(each.narrowest)) is not None]
    bits = [order.width * order.tensor.dtype.bits for order, _ in words]
    group_words, groups = max(group for _, group in words), max(order.beats // group for order, group in words)
    size = sum(-(-each.taped_bits // 8) for each in taped)
    deal = deal_demand(bits, group_words, groups, RUNS_PER_CORE * len(taped))
    return reader_demand(size, board.memory.timing(clock_mhz)) + deal + check_demand()


ROOM_FOR_LOADS = 0.05
"""Share of a chip's logic cells that stay free where constants are loaded: more flip-flops then stand alone, and an
UltraPlus chip that is 83 % full of such cells is not placed, while one of 79 % is placed at once."""

LOADED_WORD_BYTES = 8
"""Bytes of the longest word that is loaded, as a guess: that of a requantizer's constants."""


def _load_area(network: Network) -> LoadArea | None:
    """Return an estimate of what can be loaded into the circuit of a network, before its foldings are chosen."""
    loaded = [node.operator for node in network.nodes if node.operator.has_loaded_constants]
    if not loaded:
        return None
    size = sum(operator.results()[0].channels * LOADED_WORD_BYTES for operator in loaded)
    size += sum(operator.parameters.get("weights", 0) for operator in loaded)
    whole = 1 << max(LOAD_UNIT - 1, size).bit_length()
    return LoadArea(whole, (whole + LOADED_DIGEST + MOST_PAYLOAD).bit_length(), LOADED_WORD_BYTES)


def _ports(name: str, network: Network, side: tuple[Boundary, ...]) -> tuple[LinkPort, ...]:
    """Return a port for each stream."""
    types = {tensor: network.tensors[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in side)}
    return tuple(
        LinkPort(f"{name}{k}", kind.size, 1, kind.dtype.bits, kind.dtype.signed)
        for k, kind in enumerate(types.values())
    )
