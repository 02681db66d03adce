"""Depthwise: ``result[pixel, c] = Σ weights[c] · image`` under the kernel, channel by channel, exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.blocks import counted, decoded, delayed, loaded_weights, weights
from onnx_hw.ops.demand.matmul import dot_demand
from onnx_hw.ops.demand.sliding import Fetch, sliding_demand
from onnx_hw.ops.demand.soft_multipliers import (
    HARD_LATENCY,
    known_products_demand,
    multiplier_for,
    product_demand,
    product_latency,
)
from onnx_hw.ops.folding import MultiplierKind, SlidingFolding
from onnx_hw.ops.operator import Component, lanes_beside, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_channels, only_channels
from onnx_hw.ops.rom_contents import (
    RomImage,
    check_loaded_type,
    loaded_type,
    loaded_weight_memories,
    weight_memories,
)
from onnx_hw.ops.sliding_operator import SlidingOperator
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors, of_windows
from onnx_hw_boards.demand import Demand


@dataclass(frozen=True, repr=False)
class DepthwiseFolding(SlidingFolding):
    """Folding of a depthwise core.

    Attributes:
        multiplier: what its products are made of.
        taps: elements of the kernel side by side.
    """

    multiplier: MultiplierKind = MultiplierKind.HARDWARE
    taps: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Depthwise(SlidingOperator[DepthwiseFolding]):
    """A convolution whose every result reads one channel: result c reads channel ``c // multiplier``.

    Attributes:
        weights: (outputs, rows, columns) int64; outputs are a multiple of the channels.
        loaded: type of the weights where others may be loaded into the circuit at run time; None for constants.
        others: as in ``SlidingOperator``; outside the image lies the zero point of the operand.
    """

    operand: Tensor
    weights: np.ndarray = field(repr=False)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    pad_value: int = 0
    capacity: int | None = None
    loads_pad: bool = False
    loaded: Int | None = None

    folding_type = DepthwiseFolding
    declared = SlidingOperator.declared | {"loaded"}
    LATENCY = 11

    def __post_init__(self) -> None:
        channels = self.operand.channels
        if self.weights.ndim != 3 or not len(self.weights) or len(self.weights) % channels:
            raise ValueError(
                f"weights must be (n · {channels}, rows, columns) for {self.operand!r}, not {self.weights.shape}"
            )
        check_loaded_type(self.weights, self.loaded)
        super().__post_init__()

    @property
    def kernel(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def row_by_row(self) -> bool:  # type: ignore[override]
        return self.kernel[0] == self.strides[0] == 1 and not (self.pads[0] or self.pads[2])

    @property
    def multiplier(self) -> int:
        """Results per channel."""
        return len(self.weights) // self.operand.channels

    @cached_property
    def weight_type(self) -> Int:
        if self.loaded is not None:
            return self.loaded
        return Int.holding(min(int(self.weights.min()), 0), max(int(self.weights.max()), 0))

    def reordered(self, port: str, order: Permutation) -> tuple[Depthwise, dict[str, Permutation]] | None:
        """Return the reordered operator: kernels change places; all of a channel stay side by side."""
        shape, beside = self._result.shape, np.arange(self.multiplier)
        whole = only_channels(order, self.operand.shape if port == "i" else shape)
        if whole is None:
            return None
        channels = whole if port == "i" else whole[:: self.multiplier] // self.multiplier
        kernels = (channels[:, None] * self.multiplier + beside).reshape(-1)
        if port == "o" and not np.array_equal(whole, kernels):
            return None
        orders = {"i": of_channels(self.operand.shape, channels), "o": of_channels(shape, kernels)}
        return replace(self, weights=self.weights[kernels]), orders

    def results(self) -> tuple[Tensor, ...]:
        return (self._result,)

    @cached_property
    def _result(self) -> Tensor:
        """The accumulator's type follows from the real weights, or from their type."""
        low, high = self.padded_range
        positive, negative = np.maximum(self.weights, 0).sum(axis=(1, 2)), np.minimum(self.weights, 0).sum(axis=(1, 2))
        least = int((positive * low + negative * high).min())
        most = int((positive * high + negative * low).max())
        if self.loaded is not None:
            products = [a * b for a in (low, high) for b in (self.loaded.min, self.loaded.max)]
            least, most = (self.sliding.taps * bound for bound in (min(products), max(products)))
        dtype = Int.holding(min(least, -1), max(most, 0))  # always signed: the adders are
        return Tensor((*self.sliding.output, len(self.weights)), dtype, least, most)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        windows = self.sliding.windows(arrays[0], self.pad_value)
        frames, height, width, rows, columns, channels = windows.shape
        total = np.zeros((frames, height, width, channels, self.multiplier), dtype=np.int64)
        weights = self.weights.reshape(channels, self.multiplier, rows, columns)
        for row, column in np.ndindex(rows, columns):
            total += windows[:, :, :, row, column, :, None] * weights[:, :, row, column]
        return (total.reshape(frames, height, width, len(self.weights)),)

    @property
    def macs(self) -> int:
        return self.results()[0].pixels * int(self.weights.size)

    def weight_words(self, folding: DepthwiseFolding) -> Order:
        """Return the order of the weights: for each chunk of results, for some kernel elements at a time, ``out_lanes``
        weights of each.
        """
        outputs, taps = len(self.weights), self.sliding.taps
        return Order(Tensor((1, taps, outputs), self.weight_type), folding.out_lanes, folding.taps, tile=taps)

    def steps(self, folding: DepthwiseFolding) -> int:
        return -(-self.sliding.taps // folding.taps)

    def latency(self, folding: DepthwiseFolding) -> int:
        """Return the latency: one stage more for each level of the adder tree."""
        product = product_latency(self.operand.dtype, self.weight_type, in_logic=folding.in_logic)
        return self.LATENCY - HARD_LATENCY + product + (folding.taps - 1).bit_length()

    def limits(self) -> dict[str, int]:
        return {**super().limits(), "taps": self.sliding.taps}

    def aligned(self, out_lanes: int) -> bool:
        """Return whether a beat takes whole channels, or a channel whole beats: one element serves its lanes."""
        return out_lanes % self.multiplier == 0 or self.multiplier % out_lanes == 0

    def illegal(self, folding: DepthwiseFolding) -> str:
        if not self.aligned(folding.out_lanes):
            return f"the lanes out must divide {self.multiplier}, the results per channel, or be a multiple of it"
        return super().illegal(folding)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[DepthwiseFolding]:
        time = interval // self.sliding.taps
        kind = multiplier_for(self.operand.dtype.bits, self.weight_type.bits)
        image = pixels_beside(self.operand, interval, given)
        for beside in self.sliding.side_by_side(image, pixels_beside(self._result, time, wanted)):
            least_in, least_out = map(fewest_lanes, (self.operand, self._result), (interval, time), beside)
            if least_in is not None and least_out is not None:
                entry = lanes_beside(least_in, given, self.operand.channels)
                keep_up = range(least_out, len(self.weights) + 1)
                narrowest = next(filter(self.aligned, keep_up), least_out)
                for lanes in sorted({narrowest, entry, wanted.lanes if wanted else entry}):
                    if lanes in keep_up and self.aligned(lanes):
                        yield DepthwiseFolding(entry, lanes, *beside, multiplier=kind)
                fewest = narrowest
                for taps in range(2, self.sliding.taps + 1):  # several, where that takes fewer products
                    least = fewest_lanes(self._result, interval // -(-self.sliding.taps // taps), beside[1])
                    lanes = next(filter(self.aligned, range(least or 1, len(self.weights) + 1)))
                    if least is not None and lanes * taps < fewest:
                        fewest = lanes * taps
                        yield DepthwiseFolding(entry, lanes, *beside, multiplier=kind, taps=taps)

    def lanes(self, folding: DepthwiseFolding) -> int:
        return self.output_orders(folding)[0].width * folding.taps

    def demand(self, folding: DepthwiseFolding) -> Demand:
        bits, weight = self.operand.dtype.bits, self.weight_type.bits
        steps, chunks, results = self.steps(folding), self.chunks(folding), self.output_orders(folding)[0].width
        latency = self.latency(folding)
        fetch = Fetch(
            self.sliding,
            folding,
            folding.taps * max(1, folding.out_lanes // self.multiplier),
            bits,
            self.stored_beats(folding),
            (chunks, steps),
            taps=folding.taps,
            turns=max(1, self.multiplier // folding.out_lanes),
            pushes=steps == 1,
        )
        demand = sliding_demand(fetch, self.grouped(folding), self.input_orders(folding)[0])
        demand += self.loaded_pad_demand(folding, fetch.fetched * folding.out_pixels)
        demand += delayed(1, latency + latency - 2) + delayed(2, 1).copied(results)
        demand += decoded((0, 1) if steps > 1 else (0,), counted(steps)) + delayed(1, latency - 2)
        stored = weights if self.loaded is None else loaded_weights
        demand += stored(weight, folding.out_lanes * folding.taps, chunks * steps, waits=2)
        if folding.in_logic and self.loaded is None and chunks * steps == 1:
            demand += folding.out_pixels * known_products_demand(bits, self.weights)
        else:
            demand += self._products(folding)
        types = self.operand.dtype, self.weight_type, self._result.dtype
        return demand + results * dot_demand(*types, folding.taps, in_logic=folding.in_logic)

    def demand_at_least(self, folding: DepthwiseFolding) -> Demand:
        return Demand() if folding.in_logic else self._products(folding)

    def _products(self, folding: DepthwiseFolding) -> Demand:
        one = product_demand(self.operand.dtype, self.weight_type, in_logic=folding.in_logic)
        return self.lanes(folding) * one

    def core(self, folding: DepthwiseFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.depthwise import Depthwise as Circuit

        weight = self.weight_type
        return Circuit(
            self.geometry,
            self.constant_words(folding)[0],
            multiplier=self.multiplier,
            beside=folding.taps,
            weight_bits=weight.bits,
            weight_signed=weight.signed,
            **self.stream_shapes(folding),
            capacity=self.stored_beats(folding),
            pad_value=self.pad_value,
            in_logic=folding.in_logic,
            depth=depths["o"],
        )

    def constant_words(self, folding: DepthwiseFolding) -> tuple[np.ndarray, Int]:
        return self.weight_words(folding).to_beats(np.moveaxis(self.weights, 0, -1)[None]), self.weight_type

    def memories(self, folding: DepthwiseFolding) -> Mapping[str, RomImage]:
        words, weight = self.constant_words(folding)
        if self.loaded is not None:
            return loaded_weight_memories(words, self.loaded)
        return weight_memories(words, weight, in_logic=folding.in_logic)

    @property
    def has_loaded_constants(self) -> bool:
        return self.loaded is not None

    def loadable(self) -> Depthwise:
        """Return the operator whose weights and pad value can be loaded at run time."""
        return replace(self.with_pad(loads=self.has_zero_pads), loaded=loaded_type(self.weights))

    def test_vectors(self, folding: DepthwiseFolding) -> TestVectors:
        height, width, _ = self.operand.shape
        pixels = np.arange(height * width).reshape(1, height, width, 1)
        places = self.sliding.windows(pixels, -1).reshape(-1, *self.kernel)
        return of_windows(self, self.weights, places, self.lanes(folding))

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"weights": int(self.weights.size)}

    def __repr__(self) -> str:
        times = f" ×{self.multiplier}" if self.multiplier > 1 else ""
        return f"Depthwise {self.kernel[0]}×{self.kernel[1]}{times}"
