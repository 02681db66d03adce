"""Test vectors of a bench: every stream of the circuit, its golden beats, and the cycles in which outputs leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from onnx_hw.assemble.elaborate import edge_names
from onnx_hw.ir.design import Design, Edge
from onnx_hw.prove.circuit.prove import LARGE_FRAME_CYCLES, beats_of_sequence
from onnx_hw.prove.circuit.stalls import full_rate
from onnx_hw.timing.event_windows import token_cycles

FORMAT = 1

FRAMES = 3
"""Greatest number of frames in the vectors; three show whether state is left over from one frame to the next."""

LARGE_FRAMES = 2
"""The same, of frames that take more than ``LARGE_FRAME_CYCLES``."""

RESET_DELAY = 1
"""Number of cycles from the end of a reset to cycle 0, as in ``Assembly.RESET_DELAY``."""


@dataclass(frozen=True)
class VectorStream:
    """Stream of the circuit.

    Attributes:
        name: prefix of its signals ``{name}_payload``, ``_valid`` and ``_ready``, ports or wires of the top module.
        tensor: name of the tensor that it carries.
        direction: ``in``, ``out``, or ``inner``.
        lanes, bits, signed: number of integers in a beat, their width and whether they have a sign; lane 0 is in the
            lowest bits.
        beats: number of beats in a frame.
    """

    name: str
    tensor: str
    direction: str
    lanes: int
    bits: int
    signed: bool
    beats: int


def streams(design: Design) -> list[VectorStream]:
    """Return every stream: those from outside first, then the others in the order of the network."""
    names = edge_names(design)

    def direction(edge: Edge) -> str:
        return "in" if edge.producer is None else "out" if edge.consumer is None else "inner"

    return [
        VectorStream(
            names[edge.tensor],
            edge.tensor,
            direction(edge),
            edge.width,
            edge.type.dtype.bits,
            edge.type.dtype.signed,
            edge.beats,
        )
        for edge in design.edges()
    ]


def ports(design: Design) -> list[str]:
    """Return the names of the ports of the top module: clock, reset, and the streams that enter or leave."""
    outer = [stream.name for stream in streams(design) if stream.direction != "inner"]
    return ["clk", "rst", *(f"{name}_{signal}" for name in outer for signal in ("payload", "valid", "ready"))]


@dataclass(frozen=True)
class Vectors:
    """Contents of ``streams.json`` and ``vectors.npz``.

    Attributes:
        facts: text of ``streams.json``.
        arrays: golden beats by stream; which lanes are used, where not all are; and, for a stream that leaves, the
            cycle of every beat at full rate.
    """

    facts: str
    arrays: Mapping[str, np.ndarray]

    def write(self, folder: Path) -> None:
        np.savez_compressed(folder / "vectors.npz", **self.arrays)  # type: ignore[arg-type]  # the stub has a keyword
        (folder / "streams.json").write_text(self.facts, encoding="utf-8")

    @property
    def digest(self) -> str:
        state = hashlib.sha256(self.facts.encode())
        for name, array in self.arrays.items():
            state.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return state.hexdigest()


def vectors(design: Design, module: str, integers: Mapping[str, np.ndarray]) -> Vectors:
    """Return the beats that a bench streams, and those that must come out.

    Args:
        integers: frames by input tensor, (frames, height, width, channels), of which the first few are taken.
    """
    most = LARGE_FRAMES if design.interval > LARGE_FRAME_CYCLES else FRAMES
    first = {tensor: array[:most] for tensor, array in integers.items()}
    frames, names = len(next(iter(first.values()))), edge_names(design)
    every, at_once = beats_of_sequence(design, first), full_rate(design, frames)
    leaving = token_cycles(design, frames + 1, at_once.offers, at_once.ready)
    arrays: dict[str, np.ndarray] = {}
    for edge in design.edges():
        name = names[edge.tensor]
        arrays[name] = _narrowed(every.pop(edge.tensor))
        used = edge.order.used(edge.beats)
        if not used.all():
            arrays[f"{name}_used"] = used
        if edge.consumer is None:
            arrays[f"{name}_cycles"] = leaving[edge.tensor]
    facts = {
        "format": FORMAT,
        "module": module,
        "frames": frames,
        "interval_cycles": design.interval,
        "reset_delay": RESET_DELAY,
        "streams": [asdict(stream) for stream in streams(design)],
    }
    return Vectors(json.dumps(facts, indent=1) + "\n", arrays)


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return the integers in the smallest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return values.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))
