"""Operators in which a window slides over an image: a line buffer, its writer, and a reader that visits each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import loaded_number
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand, LogicFunction

if TYPE_CHECKING:
    from onnx_hw_rtl.cores.window_geometry import WindowGeometry

S = TypeVar("S", bound=SlidingFolding)


class SlidingOperator(Operator[S]):
    """Base of the operators of one image; its fields are theirs.

    Attributes:
        operand: the image.
        kernel, strides, dilations: (rows, columns).
        pads: (top, left, bottom, right).
        pad_value: what lies outside the image.
        capacity: beats of the line buffer; None for those that full rate needs.
        loads_pad: whether another pad value may be loaded into the circuit at run time.
    """

    operand: Tensor
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    pad_value: int
    capacity: int | None
    loads_pad: bool
    LATENCY: ClassVar[int]
    declared = frozenset({"loads_pad"})

    if TYPE_CHECKING:  # a field of some operators, computed by others

        @property
        def kernel(self) -> tuple[int, int]: ...

    def __post_init__(self) -> None:
        self.sliding.check()
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"a line buffer must hold at least one beat, not {self.capacity}")
        dtype = self.operand.dtype
        if self.loads_pad and not dtype.min <= self.pad_value <= dtype.max:
            raise ValueError(f"a loaded pad value must be {dtype!r}, not {self.pad_value}")

    @property
    def sliding(self) -> Sliding:
        return Sliding(self.operand.shape, self.kernel, self.strides, self.pads, self.dilations)

    @property
    def geometry(self) -> WindowGeometry:
        """The same for the circuit (imports ``onnx_hw_rtl`` inside)."""
        from onnx_hw_rtl.cores.window_geometry import WindowGeometry

        return WindowGeometry(self.operand.shape, self.kernel, self.strides, self.pads, self.dilations)

    @property
    def padded_range(self) -> tuple[int, int]:
        """Least and greatest element under a window."""
        low, high = self.operand.range
        if self.loads_pad:
            return self.operand.dtype.min, self.operand.dtype.max
        return (min(low, self.pad_value), max(high, self.pad_value)) if any(self.pads) else (low, high)

    @property
    def has_zero_pads(self) -> bool:
        """Whether there are pads, of an integer that the type of the image holds."""
        dtype = self.operand.dtype
        return any(self.pads) and dtype.min <= self.pad_value <= dtype.max

    def with_pad(self, *, loads: bool) -> Self:
        """Return the operator with a pad value that is loaded, or not; without pads its circuit depends on none."""
        pad_value = self.pad_value if any(self.pads) else 0
        return replace(self, loads_pad=loads, pad_value=pad_value)  # type: ignore[type-var]

    def loadable_like(self, built: Any) -> Self:
        return cast(Self, super().loadable_like(built)).with_pad(loads=built.loads_pad)

    @property
    def loaded_numbers(self) -> Mapping[str, tuple[int, Int]]:
        return {"pad_value": (self.pad_value, self.operand.dtype)} if self.loads_pad else {}

    @property
    def loaded_fields(self) -> frozenset[str]:
        return frozenset({"pad_value"} if self.loads_pad or not any(self.pads) else ())

    def loaded_pad_demand(self, folding: S, elements: int) -> Demand:
        """Return the demand of a loaded pad value, which takes the place of elements side by side."""
        bits = self.operand.dtype.bits
        return loaded_number(bits) + elements * Demand.of(LogicFunction(3, bits)) if self.loads_pad else Demand()

    def steps(self, folding: S) -> int:
        """Return the cycles that the reader spends on each output beat: one for each tap."""
        return self.sliding.taps

    def latency(self, folding: S) -> int:
        """Return the latency of the reader."""
        return self.LATENCY

    def chunks(self, folding: S) -> int:
        """Return the beats of the output pixels that leave side by side."""
        return self.output_orders(folding)[0].groups

    def beats_per_pixel(self, folding: S) -> int:
        """Return the beats of the pixels that come side by side."""
        return self.input_orders(folding)[0].groups

    def grouped(self, folding: S) -> Sliding:
        """Return how the windows of a beat slide over the pixels of a beat."""
        return self.sliding.grouped(self.input_orders(folding)[0], self.output_orders(folding)[0])

    def illegal(self, folding: S) -> str:
        return super().illegal(folding) or self.sliding.illegal(folding.in_pixels, folding.out_pixels)

    def stored_beats(self, folding: S) -> int:
        """Return the capacity of the line buffer."""
        if self.capacity is not None:
            return self.capacity
        return self.grouped(folding).rate_capacity(self.beats_per_pixel(folding))

    def cycles(self, folding: S) -> int:
        return max(self.input_orders(folding)[0].beats, self.output_orders(folding)[0].beats * self.steps(folding))

    def schedule(self, folding: S) -> Schedule:
        rows, columns = self.grouped(folding).output
        chunks, steps = self.chunks(folding), self.steps(folding)
        beats, results = self.input_orders(folding)[0].beats, rows * columns * chunks
        pushes = AffineSequence.every(results, steps, steps - 1)
        return Schedule(
            (
                Engine("writer", beats, 0, pops={"i": AffineSequence.every(beats)}),
                Engine("reader", results * steps, self.latency(folding), pushes={"o": pushes}),
            ),
            (self.grouped(folding).buffer(chunks * steps, self.beats_per_pixel(folding), self.stored_beats(folding)),),
        )
