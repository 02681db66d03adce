"""How many frames a second the link of a board carries."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.board_link import BoardLink

FRAMING_BYTES = 12
"""That a frame takes beside its own bytes: its packets' headers, CRCs and their like, in either direction."""


def frames_a_second(bytes_in: int, bytes_out: int, link: BoardLink) -> float:
    """Of frames of so many bytes; both directions at once."""
    return link.bytes_per_second / (max(bytes_in, bytes_out) + FRAMING_BYTES)


def most_frames_a_second(network: Network, link: BoardLink) -> float:
    """Where beats have no unused places."""
    types = network.tensors
    bytes_in, bytes_out = (
        sum(frame_bytes(types[tensor]) for tensor in {boundary.tensor for boundary in side})
        for side in (network.inputs, network.outputs)
    )
    return frames_a_second(bytes_in, bytes_out, link)


def frame_bytes(tensor: Tensor) -> int:
    """Of a frame: an integer takes the fewest whole bytes; of single bits eight take one."""
    size, bits = tensor.size, tensor.dtype.bits
    return -(-size // 8) if bits == 1 else size * -(-bits // 8)
