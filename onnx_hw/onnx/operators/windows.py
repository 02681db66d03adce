"""Windows of a convolution or pooling: their positions, and views of a tensor through them.

Tensors are ``(batch, channels, *spatial)``. Every function works for any number of spatial axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.dtypes import Array


@dataclass(frozen=True)
class SpatialWindow:
    """Window that slides over the spatial axes.

    Attributes:
        kernel, strides, dilations: one entry per spatial axis.
        begin, end: elements of padding before and after each axis, as the model states them.
        output: number of window positions along each axis. The last one may reach beyond the padding (``ceil_mode``).
        omits_last: whether one more is left out, because it would begin in the padding behind the tensor
            (``ceil_mode``).
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    output: tuple[int, ...]
    omits_last: bool = False

    def padded(self, x: Array, value: Any) -> Array:
        """Pad ``x`` by ``value`` as far as the windows reach; return ``x`` itself where nothing is to be added."""
        spatial = x.shape[2:]
        reach = [
            (out - 1) * stride + (kernel - 1) * dilation + 1
            for out, stride, kernel, dilation in zip(
                self.output, self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        if not any(self.begin) and all(far <= length for far, length in zip(reach, spatial, strict=True)):
            return x
        shape = [max(far, begin + length) for far, begin, length in zip(reach, self.begin, spatial, strict=True)]
        hold((*x.shape[:2], *shape), x.dtype)
        result = np.full((*x.shape[:2], *shape), value, x.dtype)
        inner = tuple(slice(begin, begin + length) for begin, length in zip(self.begin, spatial, strict=True))
        result[(slice(None), slice(None), *inner)] = x
        return result

    def taps(self, padded: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield for each element of the kernel its index and what it sees: a view ``(batch, channels, *output)``."""
        for tap in product(*map(range, self.kernel)):
            view = tuple(
                slice(k * dilation, k * dilation + (out - 1) * stride + 1, stride)
                for k, dilation, out, stride in zip(tap, self.dilations, self.output, self.strides, strict=True)
            )
            yield tap, padded[(slice(None), slice(None), *view)]

    def views(self, padded: Array) -> Array:
        """Return what every window sees: a read-only view ``(batch, channels, *output, *kernel)``."""
        batch, channel, *spatial = padded.strides
        strides = [
            *(step * stride for step, stride in zip(spatial, self.strides, strict=True)),
            *(step * dilation for step, dilation in zip(spatial, self.dilations, strict=True)),
        ]
        shape = (*padded.shape[:2], *self.output, *self.kernel)
        return np.lib.stride_tricks.as_strided(padded, shape, (batch, channel, *strides), writeable=False)

    def counts(self, spatial: Sequence[int], *, include_pads: bool) -> Array:
        """Count the elements of the tensor, or of tensor and stated padding, in each window: ``(*output,)`` int64."""
        result = np.ones((), np.int64)
        for axis, length in enumerate(spatial):
            hold((self.output[axis], self.kernel[axis]))
            first = np.arange(self.output[axis])[:, None] * self.strides[axis] - self.begin[axis]
            positions = first + np.arange(self.kernel[axis]) * self.dilations[axis]
            low, high = (-self.begin[axis], length + self.end[axis]) if include_pads else (0, length)
            result = np.multiply.outer(result, ((positions >= low) & (positions < high)).sum(axis=1))
        return result


def sliding_window(
    spatial: Sequence[int],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> SpatialWindow:
    """Return the window of an operator with these attributes over axes of the lengths ``spatial``.

    Formulas: ONNX operator specification of Conv and MaxPool. With ``ceil_mode`` a window that would begin in the
    padding behind the tensor is left out.

    Raises:
        ValueError: an attribute has a wrong length or value, or no window fits.
    """
    rank = len(spatial)
    strides = _per_axis("strides", strides, rank, 1)
    dilations = _per_axis("dilations", dilations, rank, 1)
    if len(kernel) != rank:
        raise ValueError(f"kernel_shape must have one entry for each of {rank} spatial axes, not {list(kernel)}")
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise ValueError("kernel_shape, strides and dilations must be at least 1")
    span = [(k - 1) * dilation + 1 for k, dilation in zip(kernel, dilations, strict=True)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output = tuple(-(-length // stride) for length, stride in zip(spatial, strides, strict=True))
        begin, end = same_padding(spatial, output, span, strides, upper=auto_pad == "SAME_UPPER")
        return SpatialWindow(tuple(kernel), strides, dilations, begin, end, output)
    if auto_pad == "VALID":
        pads = None
    elif auto_pad not in ("NOTSET", ""):
        raise ValueError(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, not {auto_pad}")
    pads = _per_axis("pads", pads, 2 * rank, 0)
    begin, end = pads[:rank], pads[rank:]
    positions, omits_last = [], False
    for length, first, last, far, stride in zip(spatial, begin, end, span, strides, strict=True):
        room = length + first + last - far
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= length + first:
            count, omits_last = count - 1, True
        if count < 1:
            raise ValueError(f"a window of {far} must fit into {length} + {first} + {last} elements with padding")
        positions.append(count)
    return SpatialWindow(tuple(kernel), strides, dilations, begin, end, tuple(positions), omits_last)


def same_padding(
    spatial: Sequence[int], output: Sequence[int], span: Sequence[int], strides: Sequence[int], *, upper: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding of each axis for ``auto_pad`` SAME: an odd one goes behind when ``upper``, else before."""
    total = [
        max((out - 1) * stride + far - length, 0)
        for length, out, far, stride in zip(spatial, output, span, strides, strict=True)
    ]
    half = tuple(pad // 2 for pad in total)
    rest = tuple(pad - pad // 2 for pad in total)
    return (half, rest) if upper else (rest, half)


def _per_axis(name: str, values: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    if values is None or len(values) == 0:
        return (default,) * count
    if len(values) != count:
        raise ValueError(f"{name} must have {count} entries, not {len(values)}")
    return tuple(values)
