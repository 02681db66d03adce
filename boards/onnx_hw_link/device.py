"""A model on its board: arrays in, arrays out.

with Device.open("auto", build="digits-icebreaker") as device:
    probabilities = device.run({"image": image})["probabilities"]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from onnx_hw_link.chip import Chip
from onnx_hw_link.host_model import HostModel
from onnx_hw_link.session import FrameResult
from onnx_hw_link.transport import TRANSPORTS

__all__ = ["Device"]


class Device:
    """A chip that holds the design of a model.

    Attributes:
        model: description of the model and its link.
        chip: chip that answered.
        results: results of the frames so far, with their cycles; the driver itself does not use them.
    """

    def __init__(self, model: HostModel, chip: Chip) -> None:
        self.model, self.chip = model, chip
        self.results: list[FrameResult] = []

    @classmethod
    def open(cls, port: str = "auto", *, build: str | Path = ".", timeout: float = 1.5) -> Device:
        """Open the board at a port.

        Args:
            port: port of the operating system, or ``auto``: the first one at which the design answers.
            build: folder of the build, or its ``model.json``.
            timeout: seconds without any news, after which a call fails.

        Raises:
            LinkError: there is no such build, no chip answers, or the chip holds another design.
        """
        return cls.of(HostModel.read(build), port, timeout=timeout)

    @classmethod
    def of(cls, model: HostModel, port: str = "auto", *, timeout: float = 1.5) -> Device:
        """Open the board of a model that has been read; see ``open``."""
        transport = TRANSPORTS[model.link_kind](model.baud)
        return cls(
            model,
            Chip(
                port,
                baud=model.baud,
                digest=model.link.digest,
                timeout=timeout,
                transport=transport,
                contents=model.contents,
            ),
        )

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the port back."""
        self.chip.close()

    def stream(self, samples: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
        """Yield the outputs of samples, in order, while later ones are sent; each by name, in the model's own shapes.

        Raises:
            LinkError: the chip makes no more progress; an array is not one of the model's.
        """
        waiting: deque[dict[str, np.ndarray]] = deque()

        def frames() -> Iterator[bytes]:
            for sample in samples:
                data, values = self.model.entering(sample)
                waiting.append(values)
                yield data

        for result in self.chip.stream(frames()):
            self.results.append(result)
            yield self.model.leaving(result.beats, waiting.popleft())

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs of one sample, or of several: stacked on a new first axis, as the outputs then are.

        Raises:
            LinkError: as ``stream``.
        """
        first = self.model.inputs[0]
        array = arrays.get(first.name)
        if array is None or array.ndim == len(first.shape):
            return next(iter(self.stream([arrays])))
        counts = {len(np.atleast_1d(array)) for array in arrays.values()}
        each = list(
            self.stream({name: array[k] for name, array in arrays.items()} for k in range(min(counts, default=0)))
        )
        return {name: np.stack([outputs[name] for outputs in each]) for name in self.model.outputs} if each else {}
