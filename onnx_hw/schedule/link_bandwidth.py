"""How many frames a second a serial link carries."""

from __future__ import annotations

from onnx_hw.ir.network import Network
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.linked_board import Uart

FRAMING_BYTES = 12
"""That a frame takes beside its own bytes: its packets' headers, CRCs and their like, in either direction."""

BITS_OF_A_BYTE = 10
"""On the line: a start bit and a stop bit around it."""


def frames_a_second(bytes_in: int, bytes_out: int, uart: Uart) -> float:
    """Of frames of so many bytes; both directions at once."""
    return uart.baud / BITS_OF_A_BYTE / (max(bytes_in, bytes_out) + FRAMING_BYTES)


def most_frames_a_second(network: Network, uart: Uart) -> float:
    """Where beats have no unused places."""
    types = network.tensors
    bytes_in, bytes_out = (
        sum(frame_bytes(types[tensor]) for tensor in {boundary.tensor for boundary in side})
        for side in (network.inputs, network.outputs)
    )
    return frames_a_second(bytes_in, bytes_out, uart)


def frame_bytes(tensor: Tensor) -> int:
    """Of a frame: an integer takes the fewest whole bytes; of single bits eight take one."""
    size, bits = tensor.size, tensor.dtype.bits
    return -(-size // 8) if bits == 1 else size * -(-bits // 8)
