"""Sections of the report that are made from a ``Network`` or a ``Design`` alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations

import numpy as np

from onnx_hw.assemble.elaborate import edge_names, module_names
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.ir.design import Design, Edge, FifoSize
from onnx_hw.ir.mac_counts import macs_in_hardware
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.folding import MultiplierKind
from onnx_hw.ops.operator import Resources
from onnx_hw.report import model as report
from onnx_hw.report.value_statistics import sqnr_of, value_statistics
from onnx_hw.runtime.schedule_request import ScheduleRequest


def describe_ports(design: Design) -> tuple[report.PortSection, ...]:
    """Return the streams into the circuit, then those out of it."""
    network = design.network
    edges, names = {edge.tensor: edge for edge in design.edges()}, edge_names(design)
    ports = []
    for direction, boundaries in (("input", network.inputs), ("output", network.outputs)):
        for boundary in boundaries:
            edge = edges[boundary.tensor]
            scale, zero_point = _scaling(network, boundary.tensor)
            ports.append(
                report.PortSection(
                    name=boundary.onnx_name,
                    direction=direction,
                    shape=boundary.onnx_shape,
                    dtype=repr(edge.type.dtype),
                    layout=layout(boundary),
                    loops=tuple(report.LoopSection(*loop) for loop in boundary.host_order.loops),
                    channels=edge.type.channels,
                    scale=scale,
                    zero_point=zero_point,
                    stream=names[boundary.tensor],
                    lanes=edge.width,
                    beats_per_frame=edge.beats,
                    tensor=boundary.tensor,
                )
            )
    return tuple(ports)


def irregular_orders(design: Design) -> str:
    """Return JSON, by stream and value, of every element's index in the flat value; empty if all are loop nests."""
    names = edge_names(design)
    orders: dict[str, dict[str, list[int]]] = {}
    for boundary in (*design.network.inputs, *design.network.outputs):
        if not boundary.host_order.loops:
            orders.setdefault(names[boundary.tensor], {})[boundary.onnx_name] = boundary.order.tolist()
    return f"{json.dumps(orders)}\n" if orders else ""


def describe_quantization(
    network: Network, frames: Mapping[str, np.ndarray] | None = None, sqnr: Mapping[str, float | None] | None = None
) -> report.Quantization:
    """Return every tensor with its integer type and, where it has one, its scale.

    Statistics are of samples by graph input; ``sqnr`` are ratios of the float model's values, dB, by name.
    """
    statistics, noise = value_statistics(network, frames), sqnr_of(network, sqnr or {})
    return report.Quantization(
        tuple(
            report.QuantizedTensor(
                name,
                tensor.dtype.bits,
                tensor.dtype.signed,
                *_scaling(network, name),
                statistics.get(name),
                noise.get(name),
            )
            for name, tensor in network.tensors.items()
        )
    )


def describe_design(
    design: Design,
    *,
    interval_cycles: int,
    latency_cycles: int,
    request: ScheduleRequest,
    max_fill: Mapping[str, int] | None = None,
) -> report.DesignSection:
    """Return the section about the plan.

    Args:
        interval_cycles, latency_cycles: predicted clock cycles.
        request: request to the scheduler.
        max_fill: greatest number of beats that a FIFO held in the simulation, by edge; None before it.
    """
    network, fills = design.network, max_fill or {}
    edges = {edge.tensor: edge for edge in design.edges()}
    costs = design.resources()
    work = costs.mac_lanes * interval_cycles
    modules = module_names(design)
    cores = tuple(_core(design, node, modules[node.name]) for node in network.nodes)
    dsp = sum(core.dsp for core in cores if core.lanes)  # without those that only scale
    return report.DesignSection(
        clock_mhz=design.clock_mhz,
        macs=design.macs,
        lanes=costs.mac_lanes,
        multipliers=report.Multipliers(dsp, max(0, costs.mac_lanes - dsp)),
        mac_efficiency=design.macs / work if work else 0.0,
        interval_cycles=interval_cycles,
        latency_cycles=latency_cycles,
        frames_per_second=design.target.frames_per_second(interval_cycles),
        frames_per_second_asked=request.fps,
        nodes=cores,
        fifos=tuple(
            _fifo(edges[name], design.fifos[name], cost, fills.get(name)) for name, cost in design.fifo_costs().items()
        ),
        loops=tuple(
            report.StateLoopSection(loop.nodes, loop.steps, loop.step_cycles, loop.frame_cycles)
            for loop in design.loops
        ),
        host=report.Host(_onnx_nodes(network.head), _onnx_nodes(network.tail), macs_in_hardware(network)),
        estimate=_chip_estimate(design),
        memory_cycles=design.tape_cycles,
    )


def _chip_estimate(design: Design) -> report.ChipEstimate:
    circuit = design.with_fifos()
    shell = shell_cells(design.network, design.target.board, design.clock_mhz)
    return report.ChipEstimate(
        circuit.lut + shell.lut,
        circuit.ff + shell.ff,
        circuit.dsp + shell.dsp,
        circuit.bram + shell.bram,
        circuit.logic + shell.logic,
    )


def layout(boundary: Boundary) -> str:
    """Return the order of the ONNX value's axes on the stream, slowest first; else ``permuted``."""
    indices = np.arange(boundary.order.size).reshape(boundary.onnx_shape)
    for axes in permutations(range(indices.ndim)):
        if np.array_equal(indices.transpose(axes).reshape(-1), boundary.order):
            return ",".join(map(str, axes))
    return "permuted"


def _core(design: Design, node: NetworkNode, module: str) -> report.CoreSection:
    folding, operator = design.folding(node), node.operator
    costs = design.resources_of(node)
    return report.CoreSection(
        name=node.name,
        operator=type(operator).__name__.lower(),
        folding=folding.numbers(),
        lanes=costs.mac_lanes,
        cycles=operator.cycles(folding),
        dsp=costs.dsp,
        lut=costs.lut,
        bram=costs.bram,
        ff=costs.ff,
        multiplier=MultiplierKind.LOGIC.value if folding.in_logic else None,
        inputs=node.inputs,
        outputs=node.outputs,
        origin=node.origin,
        module=module,
        memory_bytes=-(-operator.taped_bits // 8),
    )


def _fifo(edge: Edge, size: FifoSize, cost: Resources, fill: int | None) -> report.Fifo:
    return report.Fifo(
        edge=edge.tensor,
        depth=size.depth,
        live_depth=size.live_depth,
        rate_depth=size.rate_depth,
        lut=cost.lut,
        bram=cost.bram,
        ff=cost.ff,
        max_fill=fill,
        lanes=edge.width,
        dtype=repr(edge.type.dtype),
        beats_per_frame=edge.beats,
    )


def _onnx_nodes(model: Model | None) -> tuple[str, ...]:
    return () if model is None else tuple(f"{node.op_type} {node.label}" for node in model.graph.nodes)


def _scaling(network: Network, tensor: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return scales and zero points; the latter are integers where they can be."""
    grid = network.grids.get(tensor)
    if grid is None:
        return (), ()
    zeros = (int(zero) if zero.denominator == 1 else float(zero) for zero in grid.zero_point)
    return tuple(map(float, grid.step)), tuple(zeros)
