"""Kernel, strides, pads and dilations as ONNX states them, for images and for 1-D signals (images of height 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.tensor import Tensor


@dataclass(frozen=True)
class Kernel:
    """Kernel that slides over (height, width): all pairs are (rows, columns), pads (top, left, bottom, right)."""

    size: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    def padded(self, more: tuple[int, int, int, int]) -> Kernel:
        """Return the kernel with further pads around the image."""
        top, left, bottom, right = (a + b for a, b in zip(self.pads, more, strict=True))
        return replace(self, pads=(top, left, bottom, right))

    def touches(self, image: Tensor) -> bool:
        """Return whether some window holds a pixel; if none does, the operator has no input to wait for."""
        try:
            Sliding(image.shape, self.size, self.strides, self.pads, self.dilations).check()
        except ValueError:
            return False
        return True

    def always_touches(self, height: int, width: int) -> bool:
        """Return whether every window holds a pixel of such an image; one in rows or columns of pads alone does not."""
        for axis, size in enumerate((height, width)):
            before, behind = self.pads[axis], self.pads[axis + 2]
            taps = np.arange(self.size[axis]) * self.dilations[axis] - before
            begins = np.arange(0, size + before + behind - taps[-1] + taps[0], self.strides[axis])
            positions = begins[:, None] + taps
            if not ((positions >= 0) & (positions < size)).any(axis=1).all():
                return False
        return True

    def check_touches(self, image: Tensor) -> None:
        """Raise Obstacle where every window lies in the pads."""
        if not self.touches(image):
            raise Obstacle(
                "window-outside", f"some window {list(self.size)} must touch the image, not only its pads {self.pads}"
            )


def pool_of(tensor: Tensor, kind: str, kernel: Kernel, pad_value: int) -> Operator:
    """Return the operator of a pool; a single window over the whole image is a reduction and needs no line buffer.

    Args:
        kind: ``max``, ``min`` or ``sum``.
    """
    if kernel.size == tensor.shape[:2] and not any(kernel.pads):
        return Reduce(tensor, kind)
    return Pool(tensor, kind, kernel.size, kernel.strides, kernel.pads, pad_value, kernel.dilations)


def kernel_of(node: Node, size: tuple[int, ...], image: tuple[int, int], output: tuple[int, ...]) -> Kernel:
    """Return the kernel of a Conv or pool.

    Args:
        size: ``kernel_shape``, one or two numbers.
        image: (height, width) of the data.
        output: spatial shape of the node's result; pads that are not stated (auto_pad, ceil_mode) follow from it.
    """
    rank = len(size)
    if rank not in (1, 2):
        raise Obstacle("kernel-rank", f"a kernel must have one or two axes, not {rank}")
    strides = _numbers(node, "strides", rank, 1)
    dilations = _numbers(node, "dilations", rank, 1)
    mode = node.attributes.get("auto_pad", "NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    pads = _numbers(node, "pads", 2 * rank, 0)
    space = image[2 - rank :]
    begins, ends = [], []
    for k in range(rank):
        extent = (size[k] - 1) * dilations[k] + 1
        total = max(0, (output[k] - 1) * strides[k] + extent - space[k])
        if mode == "NOTSET":
            begin = pads[k]
        elif mode == "VALID":
            begin = 0
        elif mode in ("SAME_UPPER", "SAME_LOWER"):
            begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
        else:
            raise Obstacle("auto-pad", f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {mode}")
        begins.append(begin)
        # the last window decides: with ceil_mode it needs more pads than are stated, with floor perhaps fewer
        end = pads[rank + k] if mode == "NOTSET" else 0
        ends.append(max(end, total - begin))
    stated = pads if mode == "NOTSET" else (*begins, *ends)
    if any(pad < 0 for pad in (*stated, *ends)):
        raise Obstacle("negative-pads", f"pads must not be negative, not {list(stated)}")
    if rank == 1:
        return Kernel((1, size[0]), (1, strides[0]), (0, begins[0], 0, ends[0]), (1, dilations[0]))
    return Kernel(
        (size[0], size[1]),
        (strides[0], strides[1]),
        (begins[0], begins[1], ends[0], ends[1]),
        (dilations[0], dilations[1]),
    )


def _numbers(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    numbers = tuple(int(value) for value in node.attributes.get(name, ())) or (default,) * count
    if len(numbers) != count:
        raise Obstacle("attribute", f"`{name}` must have {count} numbers, not {len(numbers)}")
    return numbers
