"""Invariants of every ``Network``, whatever pass made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from onnx_hw.ir.mac_counts import products_on_host
from onnx_hw.messages.invariants import Fault, refuse
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.verify_model import faults_of_model

if TYPE_CHECKING:
    from onnx_hw.ir.network import Boundary, Network, NetworkNode
    from onnx_hw.onnx.graph.model import Model, Value
    from onnx_hw.ops.tensor import Tensor


def verify_network(network: Network, made_by: str = "") -> Network:
    """Return the network itself, once everything in ``faults_of_network`` was checked.

    Args:
        made_by: the pass it comes from; empty where a caller of the library hands it in.

    Raises:
        Broken: a pass broke it.
        UserError: a caller did.
    """
    refuse("network", faults_of_network(network), made_by)
    return network


def faults_of_network(network: Network) -> Iterator[Fault]:
    """Yield everything that is wrong with a network; types, boundaries and host only where the graph is correct.

    Names are unique and not dangling, nodes stand in topological order but for feedback inputs, every tensor is read or
    leaves; a node's operator has one port for each of its tensors, and they have its types; what lies on a loop works
    row by row; a boundary's order is a permutation; the host makes exactly what is asked for, before and after.
    """
    typed = [
        Typed(node, node.operator.operands(), results)
        for node, results in zip(network.nodes, network.made, strict=True)
    ]
    faults = [*_names(typed), *_graph(network), *_ends(network)]
    if faults:
        yield from faults
        return
    yield from _types(network, typed)
    yield from _loops(network)
    for boundary in (*network.inputs, *network.outputs):
        yield from _boundary(boundary, network.tensors[boundary.tensor])
    yield from _grids(network)
    yield from _host(network)


class Typed(NamedTuple):
    """A node with the types that follow from its operator, which may take a while: asked for once."""

    node: NetworkNode
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]


def _names(nodes: Sequence[Typed]) -> Iterator[Fault]:
    if not nodes:
        yield Fault("a network must have a node")
    for name, count in Counter(node.name for node, _, _ in nodes).items():
        if count > 1:
            yield Fault(f"the name of a node must be its own, {count} nodes have it", name)
    for node, operands, results in nodes:
        for what, names, ports, types in (
            ("read", node.inputs, node.operator.inputs, operands),
            ("make", node.outputs, node.operator.outputs, results),
        ):
            if not len(names) == len(ports) == len(types):
                yield Fault(
                    f"{type(node.operator).__name__} must {what} {len(ports)} tensors "
                    f"({', '.join(ports)}) of {len(types)} types, not {len(names)}",
                    node.name,
                )


def _graph(network: Network) -> Iterator[Fault]:
    """Yield the faults of the graph: every tensor is made once, before it is read by any but a feedback input."""
    makers = {tensor: node.name for node in network.nodes for tensor in node.outputs}
    known: dict[str, str] = {}
    for boundary in network.inputs:
        if boundary.tensor in known:
            yield Fault("a tensor must enter once, not several times", tensor=boundary.tensor)
        known[boundary.tensor] = ""
    for node in network.nodes:
        for tensor, port in zip(node.inputs, node.operator.inputs, strict=False):
            maker = makers.get(tensor)
            if tensor in known or (maker is not None and port in node.operator.feedback):
                continue
            what = "nothing makes it" if maker is None else f"`{maker}`, which makes it, stands later"
            yield Fault(f"what a node reads must be there: {what}", node.name, tensor)
        for tensor in node.outputs:
            if tensor in known:
                first = f"`{known[tensor]}`" if known[tensor] else "the host"
                yield Fault(f"a tensor must be made once; {first} makes it, too", node.name, tensor)
            known.setdefault(tensor, node.name)
    for tensor in known:
        if not known[tensor] and tensor not in network.entries:
            yield Fault("what enters must have a type, it has none", tensor=tensor)
    for tensor in network.entries:
        if known.get(tensor, "?"):
            yield Fault("there is a type of a tensor that does not enter", tensor=tensor)


def _ends(network: Network) -> Iterator[Fault]:
    """Yield the faults of the ends: all tensors are read or leave; what leaves was made here, and has its own name."""
    read = {tensor for node in network.nodes for tensor in node.inputs}
    leaving = {boundary.tensor for boundary in network.outputs}
    for boundary in network.inputs:
        if boundary.tensor not in read:
            yield Fault("what enters must be read by a node", tensor=boundary.tensor)
    produced: set[str] = set()
    for node in network.nodes:
        produced.update(node.outputs)
        for tensor in node.outputs:
            if tensor not in read and tensor not in leaving:
                yield Fault("what is made must be read, or leave", node.name, tensor)
    for boundary in network.outputs:
        if boundary.tensor not in produced:
            yield Fault("what leaves must be made by a node", tensor=boundary.tensor)
    if not network.outputs:
        yield Fault("a tensor must leave the network")
    for name, count in Counter(boundary.onnx_name for boundary in network.outputs).items():
        if count > 1:
            tensors = [boundary.tensor for boundary in network.outputs if boundary.onnx_name == name]
            yield Fault(f"one tensor must carry `{name}`, not {count}", tensor=tensors[-1])


def _types(network: Network, nodes: Sequence[Typed]) -> Iterator[Fault]:
    """Yield the faults of the types: a node takes what enters, or what the node before makes."""
    for boundary in network.inputs:
        yield from _type(network.tensors[boundary.tensor], boundary.tensor)
    for node, operands, results in nodes:
        for name, operand in zip(node.inputs, operands, strict=True):
            declared = network.tensors[name]
            same = (declared.shape, declared.dtype) == (operand.shape, operand.dtype)
            if not same or not _within(declared, operand.range):
                yield Fault(f"the operator must take {_told(declared)}, it takes {_told(operand)}", node.name, name)
        for name, result in zip(node.outputs, results, strict=True):
            yield from _type(result, name, node.name)


def _loops(network: Network) -> Iterator[Fault]:
    """Yield the faults of the loops: each row of the tensors on them can be made before the next one."""
    for loop in network.one_frame.loops:
        made = {tensor for node in loop for tensor in node.outputs}
        steps = network.tensors[loop[0].outputs[0]].shape[0]
        for node in loop:
            if not node.operator.row_by_row:
                yield Fault(
                    f"what lies on a loop must give each row before it takes the next one; {node.operator!r} waits for "
                    f"later rows, so that it would wait for itself",
                    node.name,
                )
            for tensor in (*(name for name in node.inputs if name in made), *node.outputs):
                if (rows := network.tensors[tensor].shape[0]) != steps:
                    yield Fault(f"a tensor on a loop of {steps} steps must have as many rows, not {rows}",
                                node.name, tensor)  # fmt: skip


def _type(tensor: Tensor, name: str, node: str = "") -> Iterator[Fault]:
    if min(tensor.shape) < 1 or len(tensor.shape) != 3:
        yield Fault(f"a shape must be (height, width, channels), each at least 1, not {tensor.shape}", node, name)
    low, high = tensor.range
    if low > high or not _within(tensor, (tensor.dtype.min, tensor.dtype.max)):
        yield Fault(f"the range must be one within {tensor.dtype!r}, not {low}..{high}", node, name)


def _within(tensor: Tensor, bounds: tuple[int, int]) -> bool:
    low, high = tensor.range
    return bounds[0] <= low and high <= bounds[1]


def _told(tensor: Tensor) -> str:
    low, high = tensor.range
    return f"{tensor!r} in {low}..{high}"


def _boundary(boundary: Boundary, tensor: Tensor) -> Iterator[Fault]:
    order, shape = boundary.order, boundary.onnx_shape
    size = int(np.prod(shape, dtype=np.int64))
    if size != tensor.size:
        yield Fault(f"`{boundary.onnx_name}` must have the stream's {tensor.size} elements, not {size}",
                    tensor=boundary.tensor)  # fmt: skip
    elif order.shape != (size,) or order.dtype.kind != "i" or not _is_permutation(order):
        yield Fault(f"the order must be a permutation of 0..{size - 1}", tensor=boundary.tensor)
    if boundary.onnx_dtype.kind not in "biu" or not _holds(boundary.onnx_dtype, tensor):
        yield Fault(f"{boundary.onnx_dtype} must hold {_told(tensor)}", tensor=boundary.tensor)


def _is_permutation(order: np.ndarray) -> bool:
    if order.min() < 0 or order.max() >= order.size:
        return False
    covered = np.zeros(order.size, dtype=bool)
    covered[order] = True
    return bool(covered.all())


def _holds(dtype: np.dtype, tensor: Tensor) -> bool:
    if dtype.kind == "b":
        return _within(tensor, (0, 1))
    return _within(tensor, (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)))


def _grids(network: Network) -> Iterator[Fault]:
    for name, grid in network.grids.items():
        if name not in network.tensors:
            yield Fault("there is a scale of a tensor that nothing makes", tensor=name)
            continue
        channels = network.tensors[name].channels
        if grid.channels not in (1, channels):
            yield Fault(f"there must be 1 or {channels} scales, not {grid.channels}", tensor=name)


# ---- the host's side ------------------------------------------------------------------------------------------------


def _host(network: Network) -> Iterator[Fault]:
    """Yield the faults of the host: the head makes what enters, as it enters, and what is handed over; the tail makes
    the results of what leaves.
    """
    head, tail = network.head, network.tail
    for what, part in (("head", head), ("tail", tail)):
        if part is not None:
            yield from (Fault(f"the {what}: {fault.what}", fault.node, fault.tensor) for fault in faults_of_model(part))
    for product, count in products_on_host(network):
        times = "" if count is None else f" {count:,} times"
        yield Fault(f"the host must not multiply and accumulate; {product.op_type} does it{times}", product.label)
    arguments = {value.name for value in network.arguments}
    before = arguments | _made(head)
    behind = {boundary.onnx_name for boundary in network.outputs} | set(network.handed)
    if head is not None:
        for value in head.graph.inputs:
            if value.name not in arguments:
                yield Fault("what the head reads must be an input of the graph", tensor=value.name)
    if head is not None or arguments:
        for boundary in network.inputs:
            if boundary.onnx_name not in before:
                yield Fault(f"the head must make `{boundary.onnx_name}`, or it must be an input of the graph",
                            tensor=boundary.tensor)  # fmt: skip
    for boundary in network.inputs:
        yield from _enters_as_made(boundary, (*network.arguments, *(head.graph.outputs if head is not None else ())))
    for name in network.handed:
        if name not in before:
            yield Fault("the head must make what is handed over, or it must be an input of the graph", tensor=name)
    for value in tail.graph.inputs if tail is not None else ():
        if value.name not in behind:
            yield Fault("what the tail reads must leave the hardware, or be handed over", tensor=value.name)
    for name in network.approximate:
        on_tail = tail is not None and any(name in node.outputs for node in tail.graph.nodes)
        if not on_tail and all(name != boundary.onnx_name for boundary in network.held):
            yield Fault("what is known approximately must be made by the tail, or held by a tensor", tensor=name)
    for name in network.results:
        if name not in behind | _made(tail):
            yield Fault("an output of the graph must leave the hardware, be handed over or made by the tail",
                        tensor=name)  # fmt: skip


def _made(part: Model | None) -> set[str]:
    return {value.name for value in part.graph.outputs} if part is not None else set()


def _enters_as_made(boundary: Boundary, values: Iterable[Value]) -> Iterator[Fault]:
    for value in values:
        if value.name != boundary.onnx_name or value.shape is None:
            continue
        if tuple(value.shape) != boundary.onnx_shape or BY_NAME[value.element_type].dtype != boundary.onnx_dtype:
            yield Fault(
                f"what enters as {boundary.onnx_dtype}{list(boundary.onnx_shape)} must be made so, not as {value!r}",
                tensor=boundary.tensor,
            )
