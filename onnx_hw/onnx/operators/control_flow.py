"""Operators that run subgraphs: If, Loop, Scan."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Graph
from onnx_hw.onnx.operators.allowance import STEPS_PER_CALL, hold, require_steps, spend
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_name
from onnx_hw.onnx.operators.registry import Call, Ints, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, TypeCall, normal_axis

#: Number of iterations within which a Loop without trip count must end by its condition.
LOOP_LIMIT = 1 << 20


def if_type(
    condition: TensorType, *, else_branch: Graph, then_branch: Graph, call: TypeCall
) -> tuple[TensorType | None, ...]:
    """Return the type of the branch that will be taken; while that is not known, what both agree on."""
    if condition.value is not None:
        taken = then_branch if bool(condition.value.reshape(())) else else_branch
        return tuple(call.graph_types(taken, []))
    both = zip(call.graph_types(then_branch, []), call.graph_types(else_branch, []), strict=True)
    return tuple(TensorType(a.dtype, a.shape) if a is not None and a == b else None for a, b in both)


@operator(since=(1, 11, 13, 16, 19, 21, 23, 24, 25), types=if_type)
def If(condition: Array, *, else_branch: Graph, then_branch: Graph, call: Call) -> tuple[Any, ...]:
    branch = then_branch if bool(condition.reshape(())) else else_branch
    return tuple(call.run_graph(branch, []))


#: Condition inside a loop: its body runs only while it holds.
_TRUE = TensorType(np.dtype(np.bool_), (), np.array(True))


def loop_type(
    trips: TensorType | None = None,
    condition: TensorType | None = None,
    *carried: TensorType | None,
    body: Graph,
    call: TypeCall,
) -> tuple[TensorType | None, ...]:
    """Infer types: carried values keep one that no iteration changes; scan outputs have an entry per iteration."""
    before = [
        None if tensor_type is None else TensorType(tensor_type.dtype, tensor_type.shape) for tensor_type in carried
    ]
    while True:  # a type that changes is not known any more, which may unsettle others
        inputs = [TensorType(np.dtype(np.int64), ()), _TRUE, *before]
        going, *after = call.graph_types(body, inputs)
        stable = [tensor_type if tensor_type == after[k] else None for k, tensor_type in enumerate(before)]
        if stable == before:
            break
        before = stable
    sure = condition is None or (condition.value is not None and bool(condition.value.reshape(())))
    sure &= going is not None and going.value is not None and bool(going.value.reshape(()))
    count = None if trips is None or trips.value is None or not sure else int(trips.value.reshape(()))
    scans = [
        None if tensor_type is None or count is None else tensor_type.with_shape((max(count, 0), *tensor_type.shape))
        for tensor_type in after[len(before) :]
    ]
    return (*before, *scans)


@operator(since=(1, 11, 13, 16, 19, 21, 23, 24, 25), types=loop_type)
def Loop(
    trips: Array | None = None, condition: Array | None = None, *carried: Any, body: Graph, call: Call
) -> tuple[Any, ...]:
    """Run the body: iteration, condition, carried values → condition, carried values, scan outputs."""
    most = LOOP_LIMIT if trips is None else int(trips.reshape(()))
    going = True if condition is None else bool(condition.reshape(()))
    values = list(carried)
    scans: list[list[Array]] = [[] for _ in range(len(body.outputs) - 1 - len(values))]
    if trips is not None and going and _passes_condition_on(body):
        require_steps(max(most, 0) * (1 + len(body.nodes)) * STEPS_PER_CALL)
    iteration = room = 0
    while going and iteration < most:
        spend(STEPS_PER_CALL)
        outputs = call.run_graph(body, [np.array(iteration, np.int64), np.array(True), *values])
        going = bool(outputs[0].reshape(()))
        values = outputs[1 : 1 + len(values)]
        for scan, output in zip(scans, outputs[1 + len(values) :], strict=True):
            scan.append(output)
            room += output.nbytes
        hold((room,), np.int8)
        iteration += 1
    if trips is None and going and iteration == most:
        raise ValueError(f"a loop without trip count must end within {LOOP_LIMIT} iterations")
    stacked = [_stack(scan, body, 1 + len(values) + k) for k, scan in enumerate(scans)]
    return (*values, *stacked)


def _passes_condition_on(body: Graph) -> bool:
    """Tell whether a body hands on the condition under which it runs, which is true."""
    name = body.outputs[0].name
    copied = {node.outputs[0]: node.inputs[0] for node in body.nodes if node.op_type == "Identity" and not node.domain}
    while name in copied:
        name = copied[name]
    return name == body.inputs[1].name or bool(np.all(body.constants.get(name, False)))


def scan_type(
    *inputs: TensorType,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Ints | None = None,
    scan_output_axes: Ints | None = None,
    call: TypeCall,
    **_: Ints,
) -> tuple[TensorType | None, ...]:
    """Infer types: states keep theirs; scan outputs are as long as the scanned inputs."""
    states, scanned = inputs[: len(inputs) - num_scan_inputs], inputs[len(inputs) - num_scan_inputs :]
    lengths, slices = set(), []
    for x, axis in zip(scanned, scan_input_axes or (0,) * num_scan_inputs, strict=True):
        along = normal_axis(axis, x.ndim)
        lengths.add(x.shape[along])
        slices.append(x.with_shape(x.shape[:along] + x.shape[along + 1 :]))
    if len(lengths) != 1:
        raise ValueError(f"scanned inputs must have one length, not {sorted(lengths)}")
    (length,) = lengths
    plain = [TensorType(tensor_type.dtype, tensor_type.shape) for tensor_type in states]
    outputs = call.graph_types(body, [*plain, *slices])
    results: list[TensorType | None] = [a if a == b else None for a, b in zip(plain, outputs, strict=False)]
    for number, tensor_type in enumerate(outputs[len(states) :]):
        if tensor_type is None:
            results.append(None)
            continue
        along = normal_axis(scan_output_axes[number], tensor_type.ndim + 1) if scan_output_axes else 0
        results.append(tensor_type.with_shape((*tensor_type.shape[:along], length, *tensor_type.shape[along:])))
    return tuple(results)


@operator(since=(9, 11, 16, 19, 21, 23, 24, 25), types=scan_type)
def Scan(
    *inputs: Array,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None,
    scan_output_axes: Ints | None = None,
    scan_output_directions: Ints | None = None,
    call: Call,
) -> tuple[Array, ...]:
    """Run the body once for each slice of the scanned inputs; states come first, scanned ones last."""
    states, scanned = list(inputs[: len(inputs) - num_scan_inputs]), inputs[len(inputs) - num_scan_inputs :]
    axes = scan_input_axes or (0,) * num_scan_inputs
    backward = scan_input_directions or (0,) * num_scan_inputs
    slices = []
    for x, axis, reverse in zip(scanned, axes, backward, strict=True):
        front = np.moveaxis(x, normal_axis(axis, x.ndim), 0)
        slices.append(front[::-1] if reverse else front)
    lengths = {x.shape[0] for x in slices}
    if len(lengths) != 1:
        raise ValueError(f"scanned inputs must have one length, not {sorted(lengths)}")
    count = len(body.outputs) - len(states)
    scans: list[list[Array]] = [[] for _ in range(count)]
    (length,), room = lengths, 0
    for k in range(length):
        spend(STEPS_PER_CALL)
        outputs = call.run_graph(body, [*states, *(x[k] for x in slices)])
        states = outputs[: len(states)]
        for scan, output in zip(scans, outputs[len(states) :], strict=True):
            scan.append(output)
            room += output.nbytes
        hold((room,), np.int8)
    results = []
    for k, scan in enumerate(scans):
        y = _stack(scan, body, len(states) + k)
        y = y[::-1] if scan_output_directions and scan_output_directions[k] else y
        axis = scan_output_axes[k] if scan_output_axes else 0
        results.append(np.moveaxis(y, 0, normal_axis(axis, y.ndim)))
    return (*states, *results)


@operator(since=8, dynamic=True)
def Scan_8(
    lengths: Array | None = None,
    *inputs: Array,
    body: Graph,
    directions: Ints | None = None,
    num_scan_inputs: int,
    call: Call,
) -> tuple[Array, ...]:
    """Scan each sample of a batch (axis 0) by itself, along axis 1, for its ``lengths``; zeros follow it."""
    samples = []
    longest = inputs[-1].shape[1]
    states = len(inputs) - num_scan_inputs
    for k in range(inputs[-1].shape[0]):
        count = longest if lengths is None else int(lengths[k])
        own = [x[k] if number < states else x[k][:count] for number, x in enumerate(inputs)]
        results = Scan(*own, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions, call=call)
        padded = [
            y if number < states else np.concatenate([y, np.zeros((longest - count, *y.shape[1:]), y.dtype)])
            for number, y in enumerate(results)
        ]
        samples.append(padded)
    return tuple(np.stack(values) for values in zip(*samples, strict=True))


def _stack(values: list[Array], body: Graph, position: int) -> Array:
    """Stack the values of all iterations on a new first axis; of none, an empty tensor of the declared type."""
    if values:
        return np.stack(values)
    declared = body.outputs[position]
    if not declared.element_type or declared.shape is None:
        raise ValueError(f"output `{declared.name}` of a body that never ran must have a declared type")
    return np.zeros(
        (0, *(n if isinstance(n, int) else 0 for n in declared.shape)), dtype_of_name(declared.element_type)
    )
