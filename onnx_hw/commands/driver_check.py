"""Properties of the driver that no frame shows, tried on a simulated chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw_link.chip import Chip
from onnx_hw_link.device import Device
from onnx_hw_link.errors import AnotherDesign
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.transport import TRANSPORTS

STACKED = 2
"""Frames that are sent in one array each."""

PLAIN = {
    "bytesize": 8,
    "parity": "N",
    "stopbits": 1,
    "xonxoff": False,
    "rtscts": False,
    "dsrdtr": False,
}
"""Settings of a serial port, by pyserial's names: 8 data bits, no parity, one stop bit, no handshake."""


def require_working_driver(
    model: HostModel,
    port: str,
    timeout: float,
    frames: Sequence[Mapping[str, np.ndarray]],
    outputs: Mapping[str, np.ndarray],
) -> None:
    """Raise ``UserError``, exit code 4, unless the driver does what no frame shows.

    Args:
        port: name of the port of the simulated chip.
        frames, outputs: samples by graph input, and the outputs that the driver gave for them.
    """
    differences = [*_settings(model, port, timeout), *_refusal(model, port, timeout)]
    differences += _stacked(model, port, timeout, frames[:STACKED], outputs)
    if differences:
        raise driver_error(differences[0])


def driver_error(difference: str) -> UserError:
    """Return the error of a driver that does not do what it should."""
    return user_error(
        "driver-differs",
        f"the driver must do what docs/link.md says; {difference}",
        hint="this is a bug of onnx-hw: please report it with the model",
        stage="link",
        exit_code=ExitCode.MISMATCH,
    )


def _settings(model: HostModel, port: str, timeout: float) -> Iterator[str]:
    """Yield what is wrong with the settings of a serial port."""
    wire: Any = TRANSPORTS[model.link_kind](model.baud).open(port, timeout)
    try:
        wanted = {**PLAIN, "baudrate": model.baud} if model.link_kind == "uart" else {}
        for name, value in wanted.items():
            if getattr(wire, name) != value:
                yield f"it opens the port with {name} = {getattr(wire, name)}, and must with {value}"
    finally:
        wire.close()


def _refusal(model: HostModel, port: str, timeout: float) -> Iterator[str]:
    """Yield a sentence where a chip that holds another design is taken."""
    other = bytes([model.link.digest[0] ^ 1, *model.link.digest[1:]])
    transport = TRANSPORTS[model.link_kind](model.baud)
    try:
        with Chip(port, baud=model.baud, digest=other, timeout=timeout, transport=transport):
            yield f"it takes the chip with the design {model.link.digest.hex()} for one with {other.hex()}"
    except AnotherDesign:
        return


def _stacked(
    model: HostModel,
    port: str,
    timeout: float,
    frames: Sequence[Mapping[str, np.ndarray]],
    outputs: Mapping[str, np.ndarray],
) -> Iterator[str]:
    """Yield the outputs that differ where frames are sent stacked, in a session of their own."""
    stacked = {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}
    with Device.of(model, port, timeout=timeout) as device:
        made = device.run(stacked)
    for name, array in made.items():
        wanted = outputs[name][: len(frames)]
        if array.shape != wanted.shape or not np.array_equal(array, wanted, equal_nan=array.dtype.kind == "f"):
            yield f"of {len(frames)} frames in one array, `{name}` differs from what they give one by one"
