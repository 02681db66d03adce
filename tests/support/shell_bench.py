"""A small network with two inputs, for shells that are not behind a link: its frames as beats, golden beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.assemble.elaborate import assemble, edge_names
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.tensor import Tensor
from onnx_hw_link.frames import from_transfers, to_transfers
from onnx_hw_link.link import LinkPort
from onnx_hw_rtl.streams.assembly import Assembly
from support.hand_built_designs import Sketch

A, B = Tensor((2, 3, 5), Int(6)), Tensor((2, 3, 5), Int(11))


@dataclass(frozen=True)
class Small:
    """``a + b`` of 30 elements, 12 bits; places of beats are left over on every stream."""

    design: Design
    inputs: tuple[LinkPort, ...]
    outputs: tuple[LinkPort, ...]

    def assembly(self) -> Assembly:
        return assemble(self.design)[0]

    def beats(self, tensor: str, frames: np.ndarray) -> list[bytes]:
        """Those of (frames, *shape) integers, as they travel; unused places are -1."""
        port = next(port for port in self.inputs if port.name == edge_names(self.design)[tensor])
        order = next(edge.order for edge in self.design.edges() if edge.tensor == tensor)
        beats = order.to_beats(frames)
        beats[~order.used(len(beats))] = -1
        every = (to_transfers(port, part) for part in beats.reshape(len(frames), port.beats, port.width))
        return [
            data[at : at + port.transfer_bytes] for data in every for at in range(0, len(data), port.transfer_bytes)
        ]

    def sums(self, frames: Mapping[str, np.ndarray]) -> np.ndarray:
        """Golden."""
        return golden.trace(self.design.network, frames)["sum.o"]

    def sums_of(self, data: bytes) -> np.ndarray:
        """(frames, *shape) integers of the bytes of an output's beats."""
        (port,), edge = self.outputs, next(e for e in self.design.edges() if e.tensor == "sum.o")
        size = port.beats * port.transfer_bytes
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        return edge.order.from_beats(np.concatenate([from_transfers(port, part) for part in parts]))


def drawn(count: int, seed: int) -> dict[str, np.ndarray]:
    """(count, *shape) integers for each input, the ends of the ranges often."""
    generator = np.random.default_rng(seed)
    ends = {name: np.array(tensor.range) for name, tensor in (("a", A), ("b", B))}
    return {
        name: np.where(
            generator.random((count, *A.shape)) < 0.3,
            generator.choice(end, (count, *A.shape)),
            generator.integers(end[0], end[1] + 1, (count, *A.shape)),
        )
        for name, end in ends.items()
    }


def small() -> Small:
    sketch = Sketch()
    a = sketch.input("a", A)
    (wide,) = sketch.add("widen", Gearbox(A), [a], (3, 2), 4)
    sketch.add("sum", Add(A, B), [wide, sketch.input("b", B)], (2,), 4)
    design = sketch.design()
    names = edge_names(design)
    ports = {
        e.tensor: LinkPort(names[e.tensor], e.beats, e.width, e.type.dtype.bits, e.type.dtype.signed)
        for e in design.edges()
    }
    return Small(design, (ports["a"], ports["b"]), (ports["sum.o"],))
