"""Rearrangements by name and drawn at random, made by numpy's own functions from the positions in a frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.rearrange import Rearrange, RearrangeFolding
from onnx_hw.ops.tensor import Tensor
from support.random_cases import MOST_OPERATIONS
from support.random_operators import cuts, lane_counts, types

IMAGE = (4, 3, 4)
BYTES = Int(8)


def positions(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape)


def rearranged(shape: tuple[int, int, int], result: np.ndarray, fill: int = 0, dtype: Int = BYTES) -> Rearrange:
    """From numpy's own rearrangement of the positions in a frame; -1 stands for the fill."""
    height, width, channels = result.shape
    return Rearrange(Tensor(shape, dtype), (height, width, channels), result.reshape(-1).astype(np.int64), fill)


def upsampled(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return x.repeat(rows, axis=0).repeat(columns, axis=1)


def resized(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Nearest, any ratio."""
    return x[np.arange(height) * x.shape[0] // height][:, np.arange(width) * x.shape[1] // width]


def depth_to_space(x: np.ndarray, block: int, mode: str) -> np.ndarray:
    height, width, channels = x.shape
    if mode == "DCR":
        blocks = x.reshape(height, width, block, block, channels // block**2).transpose(0, 2, 1, 3, 4)
    else:
        blocks = x.reshape(height, width, channels // block**2, block, block).transpose(0, 3, 1, 4, 2)
    return blocks.reshape(height * block, width * block, channels // block**2)


def space_to_depth(x: np.ndarray, block: int) -> np.ndarray:
    height, width, channels = x.shape
    blocks = x.reshape(height // block, block, width // block, block, channels).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(height // block, width // block, -1)


def shuffled(x: np.ndarray, groups: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], groups, -1).swapaxes(2, 3).reshape(x.shape)


def padded(x: np.ndarray, widths: tuple[tuple[int, int], ...], mode: str) -> np.ndarray:
    how: dict[str, Any] = {"constant_values": -1} if mode == "constant" else {"mode": mode}
    return np.pad(x, widths, **how)


X = positions(IMAGE)
DEEP = positions((2, 3, 8))
MAPS: dict[str, tuple[tuple[int, int, int], np.ndarray]] = {
    "identity": (IMAGE, X),
    **{f"transpose {axes}": (IMAGE, X.transpose(axes)) for axes in ((1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0))},
    "flatten as NCHW": (IMAGE, X.transpose(2, 0, 1).reshape(1, 1, -1)),
    "flatten": (IMAGE, X.reshape(1, 1, -1)),
    "reshape": (IMAGE, X.reshape(2, 4, 6)),
    **{f"pad {mode}": (IMAGE, padded(X, ((1, 2), (2, 1), (0, 0)), mode)) for mode in ("constant", "edge", "reflect")},
    "pad channels": (IMAGE, padded(X, ((0, 0), (0, 0), (1, 2)), "constant")),
    "pad everything": (IMAGE, padded(X, ((1, 0), (0, 1), (2, 1)), "constant")),
    "pad more than there is": (IMAGE, padded(X, ((5, 5), (0, 0), (0, 0)), "constant")),
    "upsample 2": (IMAGE, upsampled(X, 2, 2)),
    "upsample 3 × 1": (IMAGE, upsampled(X, 3, 1)),
    "resize to 7 × 5": (IMAGE, resized(X, 7, 5)),
    "resize to 3 × 2": (IMAGE, resized(X, 3, 2)),
    "resize to 29 irregular rows": ((12, 1, 2), resized(positions((12, 1, 2)), 29, 2)),
    "depth to space DCR": ((2, 3, 8), depth_to_space(DEEP, 2, "DCR")),
    "depth to space CRD": ((2, 3, 8), depth_to_space(DEEP, 2, "CRD")),
    "space to depth": ((4, 4, 3), space_to_depth(positions((4, 4, 3)), 2)),
    "slice with steps": ((6, 5, 4), positions((6, 5, 4))[1::2, ::2, 1:3]),
    "slice backwards": (IMAGE, X[::-1, ::-2, ::-1]),
    "first half of the channels": (IMAGE, X[:, :, :2]),
    "second half of the channels": (IMAGE, X[:, :, 2:]),
    "one pixel": (IMAGE, X[2:3, 1:2]),
    "expand a vector": ((1, 1, 4), positions((1, 1, 4)).repeat(3, axis=0).repeat(2, axis=1)),
    "expand a channel": ((3, 2, 1), positions((3, 2, 1)).repeat(5, axis=2)),
    "expand a value": ((1, 1, 1), np.zeros((2, 3, 4), dtype=int)),
    "channel shuffle": ((2, 2, 6), shuffled(positions((2, 2, 6)), 2)),
    "permutation": (IMAGE, np.random.default_rng(0).permutation(48).reshape(4, 3, 4)),
    "gather with holes": (IMAGE, np.random.default_rng(1).integers(-1, 48, (3, 2, 5))),
    "a signal, padded": ((1, 12, 2), padded(positions((1, 12, 2)), ((0, 0), (3, 2), (0, 0)), "constant")),
    "crop and pad": (IMAGE, padded(X[:2], ((2, 0), (0, 0), (0, 0)), "constant")),
    "column": ((9, 1, 2), positions((9, 1, 2))),
    "zeros between": (IMAGE, np.where(np.indices((8, 6, 4))[:2].sum(axis=0) % 2, -1, upsampled(X, 2, 2))),
}


@st.composite
def maps(draw: st.DrawFn) -> tuple[tuple[int, int, int], np.ndarray]:
    """Up to three rearrangements after each other, or a random one."""
    side = st.integers(1, 4)
    shape = draw(st.tuples(side, side, st.integers(1, 6)))
    x = positions(shape)
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    if draw(st.integers(0, 5)) == 0:
        return shape, generator.integers(-1, x.size, draw(st.tuples(side, side, side)))
    for _ in range(draw(st.integers(1, 3))):
        step = draw(st.sampled_from(["transpose", "pad", "slice", "resize", "reshape", "shuffle", "expand"]))
        if step == "transpose":
            x = x.transpose(draw(st.permutations(range(3))))
        elif step == "pad":
            widths = draw(st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 3))
            x = padded(x, widths, draw(st.sampled_from(["constant", "edge", "symmetric", "wrap"])))
        elif step == "slice":
            at = tuple(draw(st.integers(0, size - 1)) for size in x.shape)
            steps = draw(st.tuples(*[st.sampled_from([1, 2, -1, -2])] * 3))
            x = x[tuple(slice(start, None, by) for start, by in zip(at, steps, strict=True))]
        elif step == "resize":
            x = resized(x, draw(st.integers(1, 6)), draw(st.integers(1, 6)))
        elif step == "reshape":
            divisors = [d for d in range(1, x.size + 1) if x.size % d == 0]
            height = draw(st.sampled_from(divisors))
            width = draw(st.sampled_from([d for d in divisors if x.size // height % d == 0]))
            x = x.reshape(height, width, -1)
        elif step == "shuffle":
            x = shuffled(x, draw(st.sampled_from([d for d in (1, 2, 3) if x.shape[2] % d == 0])))
        else:
            x = x[:, :, :1].repeat(draw(st.integers(1, 5)), axis=2)
    return shape, x


@st.composite
def rearrange_foldings(draw: st.DrawFn, operator: Rearrange) -> RearrangeFolding:
    """Half of them in the usual order, the others in any."""
    (made,) = operator.results()
    usual = st.builds(RearrangeFolding, lane_counts(operator.operand.channels), lane_counts(made.channels))
    given_cut, made_cut = draw(cuts(operator.operand)), draw(cuts(made))
    sides = (number for pair in zip(given_cut, made_cut, strict=True) for number in pair)
    return draw(st.one_of(usual, st.just(RearrangeFolding(*sides))))


@st.composite
def rearrangements(draw: st.DrawFn) -> tuple[Rearrange, RearrangeFolding]:
    shape, x = draw(maps().filter(lambda drawn: drawn[1].max() >= 0 and drawn[1].size <= MOST_OPERATIONS))
    dtype = draw(types)
    operator = rearranged(shape, x, draw(st.integers(dtype.min, dtype.max)), dtype)
    folding = draw(rearrange_foldings(operator))
    live, ample = operator.live_capacity(folding), 2 * operator.stored_beats(folding)
    capacity = draw(st.one_of(st.none(), st.just(live), st.integers(live, max(live, ample))))
    return replace(operator, capacity=capacity), folding
