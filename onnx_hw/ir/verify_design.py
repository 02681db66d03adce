"""Invariants of every ``Design``, whatever pass made it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_hw.ir.verify_network import faults_of_network
from onnx_hw.messages.invariants import Fault, refuse
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM, visible_after
from onnx_hw.ops.tape import DEAL, FLASH, SDRAM

if TYPE_CHECKING:
    from onnx_hw.ir.design import Design
    from onnx_hw.ir.network import Network, NetworkNode
    from onnx_hw.ops.folding import Folding
    from onnx_hw.ops.operator import Operator
    from onnx_hw.ops.stream_order import Order


def verify_design(design: Design, made_by: str = "", *, sized: bool = True) -> Design:
    """Return the design itself, once everything in ``faults_of_design`` was checked.

    Args:
        made_by: the pass it comes from; empty where a caller of the library hands it in.
        sized: its FIFOs must be there.

    Raises:
        Broken: a pass broke it.
        UserError: a caller did.
    """
    refuse("design", faults_of_design(design, sized=sized), made_by)
    return design


def faults_of_design(design: Design, *, sized: bool) -> Iterator[Fault]:
    """Yield everything that is wrong with a design; streams and FIFOs only where its network and foldings are whole.

    Every tensor has one consumer, every node one legal folding, both ends of a stream the same order, every stream
    with a producer one FIFO of one token or more, and where it has delays, possible ones.

    Args:
        sized: the FIFOs must be there; without, there may be none of them yet.
    """
    if not (math.isfinite(design.clock_mhz) and design.clock_mhz > 0):
        yield Fault(f"the clock must be a positive number of MHz, not {design.clock_mhz:g}")
    faults = [*faults_of_network(design.network), *faults_of_foldings(design.network, design.foldings)]
    yield from faults
    if not faults:
        yield from _consumers(design)
        yield from _orders(design)
        if sized or design.fifos:
            yield from _fifos(design)
        yield from _delays(design)
        yield from _tape(design)


def faults_of_foldings(network: Network, foldings: Mapping[str, Folding]) -> Iterator[Fault]:
    """Yield the nodes without a folding that can be built, and the foldings without a node."""
    nodes = {node.name: node for node in network.nodes}
    on_loops = {tensor for loop in network.one_frame.loops for node in loop for tensor in node.outputs}
    for name in foldings:
        if name not in nodes:
            yield Fault("a folding must be that of a node, there is no such node", name)
    for name, node in nodes.items():
        folding = foldings.get(name)
        if folding is None:
            yield Fault("a node must have a folding, it has none", name)
        elif not isinstance(folding, node.operator.folding_type):
            expected = node.operator.folding_type.__name__
            yield Fault(f"the folding of {node.operator!r} must be a {expected}, not {type(folding).__name__}", name)
        elif why := _illegal(node.operator, folding):
            yield Fault(f"{why}, not {folding!r}", name)
        elif tiled := _tile_of_rows(node, folding, on_loops):
            yield Fault(f"on a loop a tile must lie within a row, a step; {tiled!r} would wait for itself", name)


def faults_of_repetition(network: Network, foldings: Mapping[str, Folding]) -> Iterator[Fault]:
    """Yield the nodes with a folding that make a tensor more than once a frame, which only the host can do."""
    for node in network.nodes:
        orders = node.operator.input_orders(foldings[node.name]) if node.name in foldings else ()
        for tensor, order in zip(node.inputs, orders, strict=False):
            if order.times > 1 and network.producer(tensor) is not None:
                yield Fault(
                    f"a tensor that a node makes must be taken once a frame, not {order.times} times: its buffer must "
                    f"hold all of it under {foldings[node.name]!r}",
                    node.name,
                    tensor,
                )


def _illegal(operator: Operator, folding: Folding) -> str:
    """Return why a folding cannot be built. More lanes than channels are allowed: they are only waste."""
    why = operator.illegal(folding)
    if not why:
        return ""
    limits = operator.limits()
    lanes = {name: min(number, limits[name]) for name, number in folding.numbers().items() if name.endswith("lanes")}
    return operator.illegal(replace(folding, **lanes))


def _tile_of_rows(node: NetworkNode, folding: Folding, tensors: set[str]) -> Order | None:
    """Return an order in which one of some tensors comes or goes in tiles of several rows, or None."""
    orders = (*node.operator.input_orders(folding), *node.operator.output_orders(folding))
    for tensor, order in zip((*node.inputs, *node.outputs), orders, strict=True):
        if tensor in tensors and order.tile > order.tensor.shape[1]:
            return order
    return None


def _consumers(design: Design) -> Iterator[Fault]:
    """Yield the streams that are not consumed exactly once, by a node or by the host."""
    readers: dict[str, list[str]] = {}
    for node in design.network.nodes:
        for tensor in node.inputs:
            readers.setdefault(tensor, []).append(f"`{node.name}`")
    for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.outputs):
        readers.setdefault(tensor, []).append("the host")
    for tensor, names in readers.items():
        if len(names) > 1:
            yield Fault(f"a stream must have one consumer, not {len(names)}: {', '.join(names)}", tensor=tensor)


def _orders(design: Design) -> Iterator[Fault]:
    """Yield the streams whose two ends do not mean the same beats."""
    sent: dict[str, Order] = {}
    for node in design.network.nodes:
        sent.update(zip(node.outputs, node.operator.output_orders(design.folding(node)), strict=True))
    for node in design.network.nodes:
        folding = design.folding(node)
        for tensor, taken in zip(node.inputs, node.operator.input_orders(folding), strict=True):
            sent_order = sent.get(tensor, taken)
            if not sent_order.alike(taken):
                yield Fault(f"both ends must have the same order; {sent_order!r} comes, {taken!r} is taken",
                            node.name, tensor)  # fmt: skip


def _fifos(design: Design) -> Iterator[Fault]:
    makers = {tensor: node.name for node in design.network.nodes for tensor in node.outputs}
    makers |= {edge.tensor: edge.producer[0] for edge in design.edges() if edge.producer and edge.tensor not in makers}
    for tensor in design.fifos:
        if tensor not in makers:
            yield Fault("a FIFO must belong to a stream that a node makes, there is no such stream", tensor=tensor)
    for tensor, node in makers.items():
        size = design.fifos.get(tensor)
        if size is None:
            yield Fault("the stream must have a FIFO, it has none", node, tensor)
        elif min(size.depth, size.live_depth, size.rate_depth) < 1:
            depths = f"{size.depth}, {size.live_depth} live, {size.rate_depth} at full rate"
            yield Fault(f"a FIFO must hold 1 token or more, not {depths}", node, tensor)


def _tape(design: Design) -> Iterator[Fault]:
    """Yield what is wrong with the order of the weights outside the chip."""
    if design.tape is None:
        return
    ports = design.taped_ports()
    if {port.node: port for port in design.tape.ports} != {port.node: port for port in ports}:
        yield Fault(f"the tape must have the words of {list(ports)}, not of {list(design.tape.ports)}")
    yield from (Fault(what) for what in design.tape.faults())
    names = {node.name for node in design.network.nodes} & {DEAL, FLASH, SDRAM}
    yield from (Fault("a node must not be called as the reader of a tape or the deal is", name) for name in names)


def _delays(design: Design) -> Iterator[Fault]:
    makers = {tensor: node.name for node in design.network.nodes for tensor in node.outputs}
    slowest = visible_after(DEEPEST_IN_LUTRAM + 1)
    for tensor, delays in design.delays.items():
        if tensor not in makers:
            yield Fault("delays must be those of a stream that a node makes, there is no such stream", tensor=tensor)
        elif delays.visible_after < slowest or delays.credit_return < 1:
            yield Fault(
                f"a token must take {slowest} cycles or more, as deep FIFOs do, its credit 1 or more, not "
                f"{delays.visible_after} and {delays.credit_return}",
                makers[tensor],
                tensor,
            )
