"""Agreement of the host around the circuit, as ``model.json`` describes it, with the model's own operators.

The driver has operators of its own, in numpy, and the file tells it which bit of a frame holds which element. Frames of
a user seldom lie at a tie of a quantizer or beyond its range. So numbers are drawn that do, and integers of the whole
range come back. Bits are put in their places here once more, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.assemble.host_model_file import write_host_model
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.commands.reference_host import HostByReference
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.samples.samples import one_frame
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import FILE, HostModel
from onnx_hw_link.link import Link, LinkPort

FRAMES, ELEMENTS = (2, 16), 200_000
"""Least and most frames that are drawn, and the elements of all of them, where more than the least fit."""

MOST_CHOICES = 32
"""Number of arrays of which numpy can choose."""

STEPS_BEYOND = 1.25
"""Half the width of what is drawn for a quantizer, as a multiple of its integers' number."""

LARGEST, WIDEST = 1e30, 1000
"""Magnitudes of the largest numbers, and of the largest integers; where the host computes more than the driver can,
integers are 0, which is an index of anything."""


@dataclass(frozen=True)
class HostCheck:
    """Comparison of the host's part of a build with the model's own operators.

    Attributes:
        frames: frames that were drawn.
        values: bytes to the chip, and elements of outputs, that were compared.
        wrong: number of those that differ.
        difference: first difference as a sentence, or empty.
    """

    frames: int
    values: int
    wrong: int
    difference: str


def check_host(file: Path, design: Design, link: Link) -> HostCheck:
    """Let the driver make frames and read results of numbers that are drawn, and compare them.

    Args:
        file: ``model.json``.
        link: that of the chip.
    """
    network, generator = design.network, np.random.default_rng(1)
    model = HostModel.read(file)
    if model.elsewhere:
        model = HostByReference.with_(model, network)
    sizes = [prod(_shape(value)) for value in network.arguments]
    least, most = FRAMES
    frames = max(least, min(most, ELEMENTS // max(1, sum(sizes))))
    widest = 0 if model.elsewhere else WIDEST
    arguments = {value.name: _drawn(value, network, frames, widest, generator) for value in network.arguments}
    edges = {edge.tensor: edge for edge in design.edges()}
    into, out = (
        list(dict.fromkeys(boundary.tensor for boundary in side)) for side in (network.inputs, network.outputs)
    )
    with np.errstate(all="ignore"):
        entering = golden.integers_of(network, arguments)
        leaving = {name: _integers(network.tensors[name], frames, generator) for name in out}
        wanted = golden.outputs_of(network, leaving, arguments)
    values, wrong, first = 0, 0, ""
    for k in range(frames):
        beats = [edges[name].order.to_beats(entering[name][k : k + 1]) for name in into]
        sent = _bytes_of(link.inputs, link.input_turns, beats)
        results = []
        for name in out:
            order = edges[name].order
            kept = order.used(edges[name].beats)
            junk = generator.integers(-128, 128, kept.shape)
            results.append(np.where(kept, order.to_beats(leaving[name][k : k + 1]), junk))
        came = _bytes_of(link.outputs, link.output_turns, results)
        try:
            with np.errstate(all="ignore"):
                frame, known = model.entering(one_frame(arguments, k))
                outputs = model.leaving(came, known)
        except LinkError as error:
            return HostCheck(k, values, wrong + 1, first or f"the host cannot compute drawn frame {k}: {error}")
        compared = [("the frame to the chip", np.frombuffer(frame, np.uint8), np.frombuffer(sent, np.uint8))]
        compared += [(f"the output `{name}`", outputs[name], wanted[name][k]) for name in network.results]
        for what, made, right in compared:
            values += right.size
            differ = _differences(made, right)
            wrong += len(differ)
            if len(differ) and not first:
                first = f"{what} of drawn frame {k}, {_said(made, right, int(differ[0]))}"
    return HostCheck(frames, values, wrong, first)


def write_checked_host(
    folder: BuildFolder, note_file: Callable[[str, str], None], design: Design, netlist: Netlist, batch: int
) -> None:
    """Write ``model.json`` where the chip has a link, and compare what the driver makes of it.

    Args:
        batch: number of frames in a sample of the model as written.

    Raises:
        UserError: the driver computes something else than the model.
    """
    write_host_model(folder, note_file, design, netlist, batch)
    require_same_host(folder.path, design, netlist.link)


def require_same_host(folder: Path, design: Design, link: Link | None) -> None:
    """Raise ``UserError``, exit code 4, unless the host of a build computes what the model does.

    Args:
        link: that of the chip; None without one.
    """
    if link is None or not design.network.arguments:
        return
    check = check_host(folder / FILE, design, link)
    if check.wrong:
        raise host_error(check, folder / FILE)


def host_error(check: HostCheck, file: Path) -> UserError:
    """Return the error of a host that computes something else than the model."""
    return user_error(
        "host-differs",
        f"the host must compute what the model says around the circuit; {check.difference}; {check.wrong:,} differ",
        where=str(file),
        hint="this is a bug of onnx-hw: please report it with the model",
        stage="assemble",
        exit_code=ExitCode.MISMATCH,
    )


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else 1 for n in value.shape or ())


def _drawn(value: Value, network: Network, frames: int, widest: int, generator: np.random.Generator) -> np.ndarray:
    """Return (frames, *shape) numbers for an argument: at ties of quantizers and beyond their ranges, and others.

    Args:
        widest: magnitude of the largest integers, where these do not enter the circuit themselves.
    """
    shape = (frames, *_shape(value))
    kind = np.dtype(BY_NAME[value.element_type].dtype)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    spans = [network.tensors[each.tensor].range for each in network.inputs if each.onnx_name == value.name]
    if kind.kind in "iu":
        low, high = spans[0] if spans else (max(np.iinfo(kind).min, -widest), min(np.iinfo(kind).max, widest))
        return generator.integers(low, high, shape, endpoint=True).astype(kind)
    if kind.kind != "f":
        return np.zeros(shape, kind)
    most = min(LARGEST, float(np.finfo(kind).max) / 4)
    choices = []
    for scale, levels in _quantizers(network):
        halves = generator.integers(-int(2 * STEPS_BEYOND * levels), int(2 * STEPS_BEYOND * levels), shape) / 2
        ties = (halves.astype(np.float32) * np.float32(scale)).astype(kind)
        beside = np.nextafter(ties, generator.choice(np.array([-most, most], kind), shape))
        choices += [ties, beside, (generator.uniform(-STEPS_BEYOND, STEPS_BEYOND, shape) * levels * scale).astype(kind)]
    choices.append((generator.normal(0, 1, shape) * 10.0 ** generator.integers(-2, 3, shape)).astype(kind))
    drawn = np.choose(generator.integers(0, len(choices), shape), choices[:MOST_CHOICES], mode="wrap").astype(kind)
    drawn[generator.random(shape) < 0.01] = most
    drawn[generator.random(shape) < 0.01] = -most
    return drawn


def _quantizers(network: Network) -> Iterator[tuple[float, int]]:
    """Yield scale, and number of integers, of the quantizers that the host computes before the circuit."""
    if network.head is None:
        return
    graph = network.head.graph
    for node in graph.nodes:
        effect = facts_of(node).effect
        if effect not in (Effect.QUANTIZES, Effect.SNAPS) or {*node.inputs[1:2]}.isdisjoint(graph.constants):
            continue
        scales = np.asarray(graph.constants[node.inputs[1]], np.float64).reshape(-1)
        value, bits = graph.values.get(node.outputs[0]), 8
        if effect is Effect.QUANTIZES and value is not None and value.element_type is not None:
            bits = BY_NAME[value.element_type].bits
        elif effect is Effect.SNAPS and not {*node.inputs[3:4]}.isdisjoint(graph.constants):
            bits = int(np.asarray(graph.constants[node.inputs[3]]).reshape(-1)[0])
        yield float(scales[len(scales) // 2]), 1 << bits


def _integers(tensor: Any, frames: int, generator: np.random.Generator) -> np.ndarray:
    """Return (frames, *shape) int64 of the range of a tensor, of which many are at an end."""
    low, high = tensor.range
    values = generator.integers(low, high, (frames, *tensor.shape), endpoint=True)
    values = np.where(generator.random(values.shape) < 0.2, generator.choice([low, high], values.shape), values)
    values[0] = low
    return values


def _bytes_of(ports: Sequence[LinkPort], turns: Sequence[tuple[int, int]], beats: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of a frame: each integer's bits behind those of the one before, the lowest one first."""
    at, bits = [0] * len(ports), []
    for k, count in turns:
        numbers = beats[k][at[k] : at[k] + count].reshape(-1)
        at[k] += count
        bits.append((numbers[:, None] >> np.arange(ports[k].bits)) & 1)
    flat = np.concatenate([each.reshape(-1) for each in bits])
    flat = np.concatenate([flat, np.zeros(-len(flat) % 8, flat.dtype)])
    weights = 1 << np.arange(8)
    return (flat.reshape(-1, 8) @ weights).astype(np.uint8).tobytes()


def _differences(made: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the flat places at which two arrays differ: 0 where shape or type do. NaN is equal to NaN."""
    if made.shape != right.shape or made.dtype != right.dtype:
        return np.zeros(1, np.int64)
    same = made == right
    if made.dtype.kind == "f":
        same |= np.isnan(made) & np.isnan(right)
    return np.flatnonzero(~same)


def _said(made: np.ndarray, right: np.ndarray, place: int) -> str:
    if made.shape != right.shape or made.dtype != right.dtype:
        return f"is {made.dtype}{list(made.shape)}, and must be {right.dtype}{list(right.shape)}"
    return f"place {place:,}, is {made.reshape(-1)[place]} and must be {right.reshape(-1)[place]}"
