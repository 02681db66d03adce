"""Grid of choices: every combination of a few settings."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.runtime.options import DEFAULT_BOARD, SEEDS, BuildOptions, QuantizeOptions
from onnx_hw.runtime.schedule_request import ScheduleRequest, SpeedGoal

MOST_CHOICES = 100_000


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One combination; a field that is None is as in a build without that option.

    Attributes:
        board, scheduling, folding, seed: as in ``BuildOptions``.
        integers: bits of a float model, or a goal that they are to reach.
    """

    board: str = DEFAULT_BOARD
    scheduling: ScheduleRequest = field(default_factory=ScheduleRequest)
    folding: Path | None = None
    integers: QuantizeOptions = field(default_factory=QuantizeOptions)
    seed: int = 1

    @property
    def design(self) -> Choice:
        """The same choice for all seeds."""
        return replace(self, seed=1)

    def options(self, like: BuildOptions) -> BuildOptions:
        """Return the build of this choice, in all else like another one."""
        same = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "integers"}
        quantizing = like.quantizing
        if self.integers != QuantizeOptions():
            quantizing = replace(self.integers, output=quantizing.output, precision=quantizing.precision)
        return replace(like, **same, quantizing=quantizing)

    def __str__(self) -> str:
        return " ".join(self.arguments())

    def arguments(self) -> list[str]:
        """Return the arguments of ``onnx-hw build`` for this choice."""
        words = ["--board", self.board, *self.scheduling.arguments()]
        if self.folding is not None:
            words += ["--folding", str(self.folding)]
        bits = {name: n for name in ("weights", "data") if (n := getattr(self.integers, name)) is not None}
        if bits:
            words += ["--bits", ",".join(f"{name}={n}" for name, n in bits.items())]
        for option, goal in (("--sqnr", self.integers.sqnr), ("--accuracy-loss", self.integers.accuracy_loss)):
            words += [] if goal is None else [option, f"{goal:g}"]
        return [*words, "--seed", str(self.seed)] if self.seed != 1 else words


@dataclass(frozen=True, kw_only=True)
class ChoiceGrid:
    """Values to combine, each field's with all of the others'; of bits and goals, each is a choice of its own.

    Raises:
        UserError: a field is empty, a number without a meaning, or there are more than ``MOST_CHOICES`` combinations.
    """

    boards: tuple[str, ...] = (DEFAULT_BOARD,)
    multipliers: tuple[int | None, ...] = (None,)
    fps: tuple[float | None, ...] = (None,)
    latencies_us: tuple[float | None, ...] = (None,)
    fastest: tuple[SpeedGoal, ...] = (SpeedGoal.RATE,)
    clocks_mhz: tuple[float | None, ...] = (None,)
    foldings: tuple[Path | None, ...] = (None,)
    integers: tuple[QuantizeOptions, ...] = (QuantizeOptions(),)
    seeds: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        problems = []
        for each in fields(self):
            values = tuple(dict.fromkeys(getattr(self, each.name)))
            object.__setattr__(self, each.name, values)
            if not values:
                problems.append(Problem("argument", f"there must be something to try as `{each.name}`"))
        if problems:
            raise UserError(*problems)
        for multipliers, fps, latency_us, clock_mhz in itertools.zip_longest(
            self.multipliers, self.fps, self.latencies_us, self.clocks_mhz
        ):  # refuses numbers without a meaning
            ScheduleRequest(multipliers=multipliers, fps=fps, clock_mhz=clock_mhz)
            ScheduleRequest(latency_us=latency_us)
        wrong = [seed for seed in self.seeds if not SEEDS[0] <= seed <= SEEDS[1]]
        if wrong:
            message = f"seeds must be within {SEEDS[0]} .. {SEEDS[1]:,}, not {wrong[0]}"
            raise UserError(Problem("argument", message, "--seeds", stage="arguments"))
        if len(self) > MOST_CHOICES:
            message = f"there must be at most {MOST_CHOICES:,} combinations, not {len(self):,}"
            raise UserError(Problem("argument", message, hint="try fewer values at once", stage="arguments"))

    def __len__(self) -> int:
        count = 1
        for each in fields(self):
            count *= len(getattr(self, each.name))
        return count

    def choices(self) -> list[Choice]:
        """Return all combinations, the seeds of a design one after another."""
        requests = [
            ScheduleRequest(
                multipliers=multipliers, fps=fps, latency_us=latency_us, fastest=fastest, clock_mhz=clock_mhz
            )
            for multipliers, fps, latency_us, fastest, clock_mhz in itertools.product(
                self.multipliers, self.fps, self.latencies_us, self.fastest, self.clocks_mhz
            )
        ]
        return [
            Choice(board=board, scheduling=request, folding=folding, integers=integers, seed=seed)
            for board, request, folding, integers, seed in itertools.product(
                self.boards, requests, self.foldings, self.integers, self.seeds
            )
        ]


def command(model: Path, asked: BuildOptions, choice: Choice) -> str:
    """Return the command line that builds a choice."""
    words = ["onnx-hw", "build", str(model), *choice.arguments()]
    for option, path in (("--calibration", asked.calibration), ("--inputs", asked.inputs)):
        if path is not None:
            words += [option, str(path)]
    if asked.resize is not None:
        words += ["--resize", asked.resize.value]
    quantizing, reading = asked.quantizing, asked.reading
    if quantizing.output is not None:
        words += ["--output-kind", quantizing.output.value]
    if quantizing.precision is not None:
        words += ["--precision", str(quantizing.precision)]
    flags = {
        "--random-calibration": asked.random_calibration,
        "--streaming": reading.streaming,
        "--strict": reading.strict,
        "--lenient": reading.lenient,
        "--newer": reading.newer,
    }
    words += [flag for flag, is_set in flags.items() if is_set]
    for name, size in reading.dimensions.items():
        words += ["--dim", f"{name}={size}"]
    for names in reading.cut_at:
        words += ["--cut-at", names]
    for pair in reading.state:
        words += ["--state", pair]
    return shlex.join(words)
