"""A design as a circuit: one core per node, one wire per edge."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from onnx_hw.assemble.load_map import load_map
from onnx_hw.ir.design import Design, Edge
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ops.tape import DEAL, FLASH, SDRAM, TAPE, dealing_port, reader_name, weights_edge
from onnx_hw.runtime.gc_pause import garbage_collection_paused
from onnx_hw_boards.board_link import BoardLink
from onnx_hw_boards.verilog_board import ShellKind
from onnx_hw_link.flash_parts import PARTS

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from onnx_hw_link.link import Link
    from onnx_hw_rtl.streams.assembly import Assembly
    from onnx_hw_rtl.streams.core import Core
    from onnx_hw_sim.circuit import Circuit


@dataclass(frozen=True)
class CircuitNames:
    """Names in the circuit: plain identifiers, since tensors and nodes may be called anything.

    Attributes:
        edges: tensor -> wire.
        engines: (node, engine) -> name in ``Assembly.engines``.
    """

    edges: dict[str, str]
    engines: dict[tuple[str, str], str]


def identifier(prefix: str, number: int, name: str) -> str:
    """Return a unique identifier that still reads like the name."""
    readable = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")[-24:].strip("_")
    return f"{prefix}{number}_{readable}".rstrip("_").lower()


def edge_names(design: Design) -> dict[str, str]:
    """Return the wire of each tensor; the pins of a stream begin with its name."""
    return {edge.tensor: identifier("e", k, edge.tensor) for k, edge in enumerate(design.edges())}


def module_names(design: Design) -> dict[str, str]:
    """Return the module of each node."""
    names = {node.name: identifier("n", k, node.name) for k, node in enumerate(design.network.nodes)}
    return names | ({DEAL: "deal", FLASH: "flash", SDRAM: "sdram"} if design.tape else {})


def assemble(design: Design, *, probes: bool = False) -> tuple[Assembly, CircuitNames]:
    """Return the circuit of a design, and the names of its parts."""
    from onnx_hw_rtl.parts.constant_memory import LoadPlace
    from onnx_hw_rtl.streams.assembly import Assembly, Wire

    verify_design(design)
    depths = {edge.tensor: design.fifos[edge.tensor].depth for edge in design.edges() if edge.producer}
    modules = module_names(design)
    cores, engines = {}, {}
    for node in design.network.nodes:
        ports = dict(zip(node.operator.outputs, node.outputs, strict=True))
        core = node.operator.core(design.folding(node), {port: depths[tensor] for port, tensor in ports.items()})
        core.store(deepest_at_once=design.target.deepest_at_once)
        for port, tensor in ports.items():
            if tensor in design.delays:
                core.lengthen(port, **asdict(design.delays[tensor]))
        cores[modules[node.name]] = core
        for engine in core.engines:
            engines[node.name, engine] = f"{modules[node.name]}.{engine}"
    for name, core in _tape_cores(design, depths).items():
        cores[modules[name]] = core
        engines |= {(name, engine): f"{modules[name]}.{engine}" for engine in core.engines}
    loads = load_map(design, modules)
    edges = edge_names(design)
    wires = [
        Wire(edges[edge.tensor], *((end and (modules[end[0]], end[1])) for end in (edge.producer, edge.consumer)))
        for edge in design.edges()
    ]
    places = {
        core: {region.memory: LoadPlace(region.base, region.stride) for region in regions}
        for core, regions in loads.by_core().items()
    }
    bits = (loads.area.address_bits, 8 * loads.area.word_bytes) if loads.regions else (0, 0)
    pins = {modules[name]: ports for name, ports in memory_pins(design).items() if modules[name] in cores}
    assembly = Assembly(cores, wires, probes=probes, loads=places, load_bits=bits, pins=pins)
    return assembly, CircuitNames(edges, engines)


def _tape_cores(design: Design, depths: Mapping[str, int]) -> dict[str, Core]:
    """Return the deal of a tape and its reader, where there are any, by their names."""
    if design.tape is None:
        return {}
    tape = design.tape
    ports = {dealing_port(k): depths[weights_edge(port.node)] for k, port in enumerate(tape.ports)}
    cores = {DEAL: tape.deal(ports)}
    if design.reader is not None:
        reader = tape.reader(design.reader, tape_address(design), tape_contents(design))
        cores[reader_name(design.reader)] = reader
    return cores


def tape_contents(design: Design) -> bytes:
    """Return the bytes of a design's tape."""
    assert design.tape is not None
    return design.taped_beats()[TAPE].astype(np.uint8).tobytes()


def tape_address(design: Design) -> int:
    """Return the address of a design's tape in the memory of its board; 0 for a chip without one."""
    memory = design.target.board.memory
    return memory.offset if memory else 0


def memory_pins(design: Design) -> dict[str, tuple[str, ...]]:
    """Return the ports of the reader of a memory, and those of its alarm, by its name."""
    if design.tape is None or design.reader is None:
        return {}
    from onnx_hw_rtl.memory.qspi_flash import ALARMS, FLASH_PORTS
    from onnx_hw_rtl.memory.sdr_sdram import sdram_ports

    if design.sdram is None:
        return {FLASH: (*FLASH_PORTS, *ALARMS)}
    return {SDRAM: (*sdram_ports(design.sdram), *(f"flash_{name}" for name in FLASH_PORTS), *ALARMS)}


def to_rtlil(top: Component, platform: object = None) -> str:
    """Return the netlist in yosys' own text format, tidied; module name ``top``."""
    from amaranth.back import rtlil

    from onnx_hw_rtl.parts.memory_words import write_memories_as_words

    write_memories_as_words()
    with garbage_collection_paused():
        text = rtlil.convert(top, name="top", platform=platform, emit_src=False)
    return tidy(text)


def tidy(rtlil: str) -> str:
    """Return a netlist of Amaranth's in the form that yosys needs.

    Amaranth promises the old word where a synchronous read meets a write of the same address, and synthesis would build
    bypasses to keep that promise. No core reads a word it has not finished writing (rule 4 of the firing law, and the
    counters of the FIFOs), so here such a read is declared to give anything; the simulated circuit is built from this
    text too, and would differ from golden if one of them mattered.

    Amaranth calls the third element of ``payload`` ``payload[2]``. Reading a netlist back from ABC, yosys takes it for
    bit 2 of ``payload``, and then two flip-flops drive one wire. Here elements are called ``payload.2``.
    """
    text = without_signed_wires(_COLLISION.sub(r"\g<1>1\g<2>", rtlil))
    return _ELEMENT.sub(lambda name: re.sub(r"\[(\d+)\]", r".\1", name[0]), text)


def without_signed_wires(rtlil: str) -> str:
    """Return the same netlist without signed wires; each cell states whether its operands have a sign.

    Yosys would declare such wires as signed in Verilog, where that changes the meaning: the 20 bits of one that a cell
    reads as an unsigned number, shifted into 21, would get a sign.
    """
    return _SIGNED.sub(r"\1", rtlil)


SIMULATED_FLASH = "W25Q128JV"
SIMULATED_SDRAM = "MT48LC16M16"
"""Parts whose models are simulated beside a circuit; the SDRAM has the geometry of the board's."""

SDRAM_PADS_NS = (3.0, 5.0)
"""Least and greatest time that the pads of a chip and of its SDRAM take in the simulation, there and back."""

_ELABORATION = threading.Lock()
"""Amaranth numbers its values one after the other, over all circuits: only one thread at a time may make some."""

_COLLISION = re.compile(r"(parameter \\COLLISION_X_MASK 1')0((?:\n    parameter .*)*?\n    parameter \\CLK_ENABLE 1\n)")
"""In the cell of a synchronous read port, of a memory with one write port."""

_SIGNED = re.compile(r"^( *wire (?:width \d+ )?(?:(?:input|output|inout) \d+ +)?)signed ", re.MULTILINE)

_ELEMENT = re.compile(r"\\\S+\[\d+\]\S*")
"""A name with a number in brackets; a bit of a wire is set apart by a space."""


def to_linked_chip(
    design: Design, link: Link, board_link: BoardLink, clock_mhz: float, *, tape: bytes | None = None
) -> str:
    """Return the netlist of a whole chip behind a link, as it is simulated: without what differs between boards.

    A memory that the weights come from is in it, too.

    Args:
        tape: what the flash holds; None for the design's own tape.
    """
    from onnx_hw_rtl.shells.shell import Shell

    network = _beside_memories(design, assemble(design)[0], tape)
    return to_rtlil(Shell(board_link.shell(network, link, clock_mhz)))


def in_shell(design: Design, shell: ShellKind, link: Link, names: Mapping[str, str]) -> Component:
    """Return the circuit of a design in one of the shells that are written as Verilog; its ports are plain signals.

    Args:
        names: name of each stream for the user, by its wire.
    """
    from onnx_hw_rtl.shells.axi_stream_shell import AxiStreamShell
    from onnx_hw_rtl.shells.spi_shell import SpiShell
    from onnx_hw_rtl.shells.wishbone_shell import WishboneShell

    network = assemble(design)[0]
    if shell is ShellKind.AXI_STREAM:
        return AxiStreamShell(network, link.inputs, link.outputs, names=names)
    if shell is ShellKind.WISHBONE:
        return WishboneShell(network, link)
    return SpiShell(network, link) if shell is ShellKind.SPI else network


NamedCircuit: TypeAlias = "tuple[Circuit, CircuitNames]"
"""Circuit that the proof bench compiles, with its names."""


def bench_circuit(design: Design) -> NamedCircuit:
    """Return the circuit that the proof bench compiles, without its assembly: values that can go to another process."""
    circuit, names, _ = to_circuit(design)
    return circuit, names


def to_circuit(design: Design, *, netlist: bool = True) -> tuple[Circuit, CircuitNames, Component]:
    """Return the circuit that the proof bench simulates: the design with every edge and every firing visible.

    ``netlist=False`` leaves the RTLIL out: Amaranth's simulator takes the assembly itself.
    """
    from onnx_hw_sim.circuit import Circuit, Stream

    with _ELABORATION:
        assembly, names = assemble(design, probes=True)
        component = _beside_memories(design, assembly)
        text = to_rtlil(component) if netlist else ""

    def stream(edge: Edge) -> Stream:
        return Stream(names.edges[edge.tensor], edge.width, edge.type.dtype.bits, edge.type.dtype.signed)

    edges = design.edges()
    circuit = Circuit(
        text,
        sources=tuple(stream(edge) for edge in edges if edge.producer is None),
        sinks=tuple(stream(edge) for edge in edges if edge.consumer is None),
        probes=tuple(stream(edge) for edge in edges if edge.producer and edge.consumer),
        engines=assembly.engines,
        reset_delay=assembly.RESET_DELAY,
    )
    return circuit, names, component


def _beside_memories(design: Design, assembly: Assembly, tape: bytes | None = None) -> Component:
    """Return the circuit with models of the memories that its weights come from, if they do."""
    if design.tape is None or design.reader is None:
        return assembly
    from onnx_hw_rtl.memory.flash_model import BesideFlash, FlashModel

    image = [*(design.tape.image(tape_contents(design)) if tape is None else tape)]
    model = FlashModel(PARTS[SIMULATED_FLASH], design.clock_mhz, base=tape_address(design), contents=image)
    if design.sdram is None:
        return BesideFlash(assembly, model, "flash")
    return BesideFlash(_beside_sdram(design, assembly), model, "sdram_flash")


def _beside_sdram(design: Design, assembly: Assembly) -> Component:
    """Return the circuit with a model of its SDRAM, which has the rows of the tape and one more."""
    from onnx_hw_rtl.memory.sdram_model import PARTS, BesideSdram, SdramModel, with_geometry

    timing, tape = design.sdram, design.tape
    assert timing is not None and tape is not None
    part = with_geometry(PARTS[SIMULATED_SDRAM], timing)
    words = (timing.tape_rows(tape.size) + 1) * timing.columns
    model = SdramModel(part, design.clock_mhz, words=words, pads_ns=SDRAM_PADS_NS)
    return BesideSdram(assembly, model, "sdram", falling=timing.falling)
