"""Networks of an exploration, one for each setting of how floats become integers, and their quality on samples."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnx_hw.commands.build_stages import BuildState
from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.stage_messages import ScaleOrigin, samples_missing
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.model import Model
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.options import BuildOptions, QuantizeOptions
from onnx_hw.runtime.progress import Progress
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.frames import by_reference
from onnx_hw.samples.outputs import share_right
from onnx_hw.samples.samples import frame_count
from onnx_hw.samples.sqnr import NoiseStatistics

MAX_LABELLED = 1000
"""Greatest number of samples that an accuracy is measured on, the first ones."""

MAX_COMPARED = 64
"""Greatest number of samples whose outputs are compared with the float model's, the first ones."""

FRAMES_AT_ONCE = 32


@dataclass(frozen=True)
class Quality:
    """Quality of a network on samples; None where it is not known.

    Attributes:
        sqnr_db: signal-to-noise ratio of the worst output against the float model, dB.
        accuracy: share of labelled samples that it gets right, 0..1.
    """

    sqnr_db: float | None = None
    accuracy: float | None = None


class Networks:
    """Networks of the choices, each made once."""

    def __init__(self, like: BuildOptions, progress: Progress) -> None:
        self.like, self.progress, self.name = like, progress, like.model.stem
        self._made: dict[QuantizeOptions, tuple[Network, Quality]] = {}
        self._without_samples: Model | None = None
        self._float_outputs: Mapping[str, np.ndarray] | None = None

    def __call__(self, choice: Choice) -> Network:
        """Return the network of a choice."""
        return self._of(choice)[0]

    def quality(self, choice: Choice) -> Quality:
        """Return the quality of a choice's network."""
        return self._of(choice)[1]

    def require_samples_for(self, stage: Stage) -> None:
        """Raise UserError where a stage behind ``schedule`` needs scales, and they are only assumed."""
        if stage is not Stage.SCHEDULE and self._without_samples is not None:
            raise samples_missing(self._without_samples)

    def _of(self, choice: Choice) -> tuple[Network, Quality]:
        if choice.integers not in self._made:
            work = BuildState(choice.options(self.like), self.progress)
            with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
                for stage in (Stage.READ, Stage.QUANTIZE):
                    work.take(stage)
            if work.origin is ScaleOrigin.ASSUMED:
                self._without_samples = work.model
            self._made[choice.integers] = work.network, self._measured(work)
        return self._made[choice.integers]

    def _measured(self, work: BuildState) -> Quality:
        """Measure a network: its accuracy where there are labels, its noise where the model is one of floats."""
        given = work.given
        frames, labels = given.frames, given.labels
        if frames is None or (labels is None and given.calibration_labels is not None):
            frames, labels = given.calibration, given.calibration_labels
        if frames is None:
            return Quality()
        section = work.recorder.report.reference
        is_float = section is not None and section.float_model is not None
        count = MAX_LABELLED if labels is not None else MAX_COMPARED if is_float else 0
        if not count:
            return Quality()
        outputs = _outputs(work.network, {name: array[:count] for name, array in frames.items()})
        accuracy = None if labels is None else share_right(outputs, labels[:count])
        noise: list[float] = []
        if is_float:
            few = {name: array[:MAX_COMPARED] for name, array in frames.items()}
            if self._float_outputs is None:
                self._float_outputs = by_reference(work.model, few)
            for name, wanted in self._float_outputs.items():
                if wanted.dtype.kind in "fiub":
                    of_output = NoiseStatistics().with_values(outputs[name][: len(wanted)], wanted).sqnr_db
                    noise += [] if of_output is None else [of_output]
        return Quality(min(noise, default=None), accuracy)


def _outputs(network: Network, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return golden's outputs, (frames, *shape), a few frames at a time: all tensors of those are in memory."""
    parts = [
        golden.run(network, {name: array[k : k + FRAMES_AT_ONCE] for name, array in frames.items()})
        for k in range(0, frame_count(frames), FRAMES_AT_ONCE)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
