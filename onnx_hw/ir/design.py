"""The design: a network with every choice made (foldings, FIFO depths, clock), and nothing about tools or files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.target import DesignTarget, default_target
from onnx_hw.messages.html import render_value
from onnx_hw.messages.invariants import Fault, refuse
from onnx_hw.messages.text import printable
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Resources
from onnx_hw.ops.outbox import CREDIT_RETURN, DEEPEST_IN_LUTRAM, outbox_resources, visible_after
from onnx_hw.ops.schedule import Schedule, faults_of_schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tape import (
    DEAL,
    TAPE,
    WEIGHTS_PORT,
    ReaderTiming,
    Tape,
    TapePort,
    dealing_port,
    reader_name,
    tape_order,
    weights_edge,
)
from onnx_hw.ops.tensor import Tensor
from onnx_hw_link.flash_tape import FlashTiming, whole_rows
from onnx_hw_link.sdram_tape import SdramTiming


@dataclass(frozen=True)
class Delays:
    """How far apart the ends of a stream are, in cycles: a link between two chips, say.

    Attributes:
        visible_after: V of the firing law: from a token's arrival at the near end until its consumer sees it; no less
            than any FIFO takes.
        credit_return: from a pop until the producer may reserve its place again.
    """

    visible_after: int
    credit_return: int


@dataclass(frozen=True)
class Edge:
    """A stream between two cores, or between the outside and a core (``producer`` or ``consumer`` is None).

    Attributes:
        tensor: the tensor it carries; also the edge's name.
        order: what travels in which beat.
        producer, consumer: (node name, port name).
        delays: None where the two are neighbours.
        deepest_at_once: tokens of the deepest FIFO that is not in block RAM.
    """

    tensor: str
    order: Order
    producer: tuple[str, str] | None
    consumer: tuple[str, str] | None
    delays: Delays | None = None
    deepest_at_once: int = DEEPEST_IN_LUTRAM

    def visible_after(self, depth: int) -> int:
        """Return V of the firing law, with a FIFO of ``depth`` tokens."""
        return self.delays.visible_after if self.delays else visible_after(depth, self.deepest_at_once)

    @property
    def credit_return(self) -> int:
        """Cycles from a pop until its place may be reserved again."""
        return self.delays.credit_return if self.delays else CREDIT_RETURN

    @property
    def type(self) -> Tensor:
        return self.order.tensor

    @property
    def width(self) -> int:
        """Integers per beat."""
        return self.order.width

    @property
    def bits(self) -> int:
        """Bits of a payload."""
        return self.width * self.type.dtype.bits

    @property
    def beats(self) -> int:
        """Tokens per frame."""
        return self.order.beats


def pins_of(order: Order) -> int:
    """Return the pins of a stream that leaves the chip: payload, valid and ready."""
    return order.width * order.tensor.dtype.bits + 2


@dataclass(frozen=True)
class FifoSize:
    """Depths of the FIFO of one edge by the timing, in tokens.

    Attributes:
        depth: what the circuit gets.
        live_depth: the least depth at which the network does not deadlock, other FIFOs being ample.
        rate_depth: the least depth at which the interval does not grow, other FIFOs being ample.
    """

    depth: int
    live_depth: int
    rate_depth: int


@dataclass(frozen=True)
class LoopPace:
    """Pace of a loop by the timing, other FIFOs being ample.

    Attributes:
        nodes: names of the nodes on it.
        steps: of a frame.
        step_cycles: cycles from one step to the next: the latency of the way round.
        frame_cycles: cycles from one frame to the next; all steps, and what lies between two frames.
    """

    nodes: tuple[str, ...]
    steps: int
    step_cycles: int
    frame_cycles: int

    def __str__(self) -> str:
        if self.steps == 1:
            return f"the loop of {self.step_cycles:,} cycles a frame"
        return f"the loop of {self.step_cycles:,} cycles a step × {self.steps:,} steps"


@dataclass(frozen=True)
class Design:
    """A network with its foldings and FIFO depths. The network contains the gearboxes that the foldings need.

    Attributes:
        target: board and clock. Everything that depends on the chip asks here, also what FIFOs and cores cost.
        delays: delays of the streams whose ends are not neighbours, by tensor.
        loops: pace of every loop of the network, once FIFOs are sized.
        flash: timing of the reader of weights in a flash; None where they come from another memory, or from outside as
            the values of an input do.
        sdram: the same of an SDRAM.
        tape: order of those weights; None where there are none, or not yet: then each core has a source of its own.
    """

    network: Network
    foldings: Mapping[str, Folding]
    fifos: Mapping[str, FifoSize] = field(default_factory=dict)
    target: DesignTarget = field(default_factory=default_target)
    delays: Mapping[str, Delays] = field(default_factory=dict)
    loops: tuple[LoopPace, ...] = ()
    flash: FlashTiming | None = None
    tape: Tape | None = None
    sdram: SdramTiming | None = None

    @property
    def clock_mhz(self) -> float:
        """Clock of the target, MHz."""
        return self.target.clock_mhz

    @property
    def reader(self) -> ReaderTiming | None:
        """Timing of the reader of weights outside the chip; None where no memory holds them."""
        return self.sdram or self.flash

    @property
    def frames_per_second(self) -> float:
        """Rate at the clock, where no FIFO is too small."""
        return self.target.frames_per_second(self.interval)

    def folding(self, node: NetworkNode) -> Folding:
        return self.foldings[node.name]

    def edges(self) -> tuple[Edge, ...]:
        """Return every stream, in the order sources, then nodes' outputs. Each tensor has exactly one consumer."""
        network, edges = self.network, []
        for boundary in network.inputs:
            ((node, k),) = network.consumers(boundary.tensor)
            edges.append(
                Edge(
                    boundary.tensor,
                    node.operator.input_orders(self.folding(node))[k],
                    None,
                    (node.name, node.operator.inputs[k]),
                )
            )
        for node in network.nodes:
            orders = node.operator.output_orders(self.folding(node))
            for tensor, port, order in zip(node.outputs, node.operator.outputs, orders, strict=True):
                readers = network.consumers(tensor)
                consumer = None
                if readers:
                    ((reader, k),) = readers
                    consumer = (reader.name, reader.operator.inputs[k])
                delays = self.delays.get(tensor)
                edges.append(Edge(tensor, order, (node.name, port), consumer, delays, self.target.deepest_at_once))
        return (*edges, *self._taped_edges())

    def taped_ports(self) -> tuple[TapePort, ...]:
        """Return the cores that take weights from a tape, in the order of the network."""
        ports, token_bytes = [], self.reader.token_bytes if self.reader else 1
        for node in self.network.nodes:
            taped = node.operator.taped_words(self.folding(node))
            if taped is not None:
                order, group = taped
                bits = order.width * order.tensor.dtype.bits
                ports.append(TapePort(node.name, bits, group, order.beats // group, token_bytes))
        return tuple(ports)

    def _taped_edges(self) -> list[Edge]:
        """Return the streams of weights, and that of the tape's bytes."""
        edges = []
        dealt = {port.node: dealing_port(k) for k, port in enumerate(self.tape.ports)} if self.tape else {}
        for node in self.network.nodes:
            taped = node.operator.taped_words(self.folding(node))
            if taped is not None:
                producer = (DEAL, dealt[node.name]) if self.tape else None
                edges.append(Edge(weights_edge(node.name), taped[0], producer, (node.name, WEIGHTS_PORT)))
        if self.tape:
            producer = (reader_name(self.reader), "o") if self.reader else None
            order = tape_order(self.tape.size, self.tape.token_bytes)
            edges.append(Edge(TAPE, order, producer, (DEAL, "tape")))
        return edges

    def taped_beats(self) -> dict[str, np.ndarray]:
        """Return the tokens of a frame on each stream of weights, and on that of the tape, by tensor."""
        words = {
            node.name: taped[0].to_beats(node.operator.taped_constants()[None])
            for node in self.network.nodes
            if (taped := node.operator.taped_words(self.folding(node))) is not None
        }
        beats = {weights_edge(name): array for name, array in words.items()}
        if self.tape:
            contents = np.frombuffer(self.tape.contents(words), dtype=np.uint8)
            beats[TAPE] = contents.astype(np.int64).reshape(-1, self.tape.token_bytes)
        return beats

    def schedules(self) -> dict[str, Schedule]:
        """Return what each node's engines do, verified; raise ``Broken`` for an impossible schedule."""
        schedules = {}
        for node in self.network.nodes:
            folding = self.folding(node)
            schedules[node.name] = schedule = node.operator.schedule(folding)
            takes, gives = (
                {port: order.beats for port, order in zip(ports, orders, strict=True)}
                for ports, orders in (
                    (node.operator.inputs, node.operator.input_orders(folding)),
                    (node.operator.outputs, node.operator.output_orders(folding)),
                )
            )
            taped = node.operator.taped_words(folding)
            takes |= {WEIGHTS_PORT: taped[0].beats} if taped else {}
            faults = (Fault(what, node.name) for what in faults_of_schedule(schedule, takes, gives))
            refuse("schedule", faults, type(node.operator).__name__)
        if self.tape:
            schedules[DEAL] = self.tape.deal_schedule
            if self.reader:
                schedules[reader_name(self.reader)] = self.tape.reader_schedule(self.reader)
        return schedules

    def resources(self) -> Resources:
        """Sum of the nodes' estimates, and the pins of the streams of the outside."""
        ends = (edge for edge in self.edges() if edge.producer is None or edge.consumer is None)
        total = Resources(pins=sum(pins_of(edge.order) for edge in ends))
        for node in self.network.nodes:
            total += self.resources_of(node)
        return total

    def resources_of(self, node: NetworkNode) -> Resources:
        """Estimate of a node."""
        return node.operator.resources(self.folding(node), self.target.price)

    def fifo_costs(self) -> dict[str, Resources]:
        """Return the cost of each edge's FIFO, of those whose depth is known."""
        target = self.target
        return {
            edge.tensor: outbox_resources(
                edge.bits, self.fifos[edge.tensor].depth, target.price, target.deepest_at_once
            )
            for edge in self.edges()
            if edge.tensor in self.fifos
        }

    def with_fifos(self) -> Resources:
        """Estimate of the whole circuit."""
        return sum(self.fifo_costs().values(), self.resources())

    @property
    def macs(self) -> int:
        return sum(node.operator.macs for node in self.network.nodes)

    @property
    def interval(self) -> int:
        """Cycles of the busiest node, the slowest loop or the tape: from frame to frame, where no FIFO is too small."""
        busiest = max(node.operator.cycles(self.folding(node)) for node in self.network.nodes)
        return max([busiest, self.tape_cycles, *(loop.frame_cycles for loop in self.loops)])

    @property
    def tape_bytes(self) -> int:
        """Bytes of weights that come from outside in a frame; 0 where none do."""
        return sum(port.size for port in self.taped_ports())

    @property
    def tape_cycles(self) -> int:
        """Cycles that it takes to read them, or, where no reader is known, to deal them."""
        used = self.tape_bytes
        if not used:
            return 0
        return self.reader.pass_cycles(self.reader.whole(used)) if self.reader else whole_rows(used)

    @property
    def slowest_loop(self) -> LoopPace | None:
        """The loop that sets the interval; None where a node does."""
        return next((loop for loop in self.loops if loop.frame_cycles == self.interval), None)

    def __repr__(self) -> str:
        lines = [f"Design {printable(self.network.name)}, {self.clock_mhz:g} MHz"]
        for node in self.network.nodes:
            fold = self.folding(node)
            lines.append(f"  {node!r}  fold={fold!r} cycles={node.operator.cycles(fold)}")
        for tensor, delays in self.delays.items():
            note = f"{delays.visible_after} cycles to its consumer, credits {delays.credit_return} back"
            lines.append(f"  {printable(tensor)}: {note}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for node in self.network.nodes:
            folding = self.folding(node)
            cost, cycles = node.operator.resources(folding), node.operator.cycles(folding)
            rows.append((node.name, repr(node.operator), repr(folding), cycles, cost.mac_lanes, cost.lut, cost.bram))
        facts = {"a frame": f"{self.interval:,} cycles", "clock": f"{self.clock_mhz:g} MHz", "cores": len(rows)}
        columns = ("core", "operator", "folding", "cycles", "lanes", "LUT4", "block RAMs")
        return render_value(f"Design {self.network.name}", facts, "Cores; costs are estimates", columns, rows)
