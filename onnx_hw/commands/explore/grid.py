"""What is tried: every combination of a few settings."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.runtime.options import DEFAULT_BOARD, SEEDS, BuildOptions, check_numbers

MOST_CHOICES = 100_000


@dataclass(frozen=True)
class Choice:
    """One combination; what is None is as in a build of which nothing is asked.

    Attributes:
        board: name of a board.
        multipliers, fps, clock_mhz, folding, seed: as in ``BuildOptions``.
        weights, data: bits, of a float model.
    """

    board: str = DEFAULT_BOARD
    multipliers: int | None = None
    fps: float | None = None
    clock_mhz: float | None = None
    folding: Path | None = None
    weights: int | None = None
    data: int | None = None
    seed: int = 1

    @property
    def design(self) -> Choice:
        """The same for all seeds."""
        return replace(self, seed=1)

    def options(self, like: BuildOptions) -> BuildOptions:
        """The build of this choice, in all else ``like`` another one."""
        quantizing = like.quantizing
        if self.weights is not None or self.data is not None:
            quantizing = replace(quantizing, weights=self.weights, data=self.data)
        return replace(
            like,
            board=self.board,
            multipliers=self.multipliers,
            fps=self.fps,
            clock_mhz=self.clock_mhz,
            folding=self.folding,
            seed=self.seed,
            quantizing=quantizing,
        )

    def __str__(self) -> str:
        return " ".join(self.arguments())

    def arguments(self) -> list[str]:
        """Of ``onnx-hw build``, for what this choice says."""
        words = ["--board", self.board]
        for option, value in (("--multipliers", self.multipliers), ("--fps", self.fps), ("--clock", self.clock_mhz)):
            if value is not None:
                words += [option, f"{value:.12g}"]
        if self.folding is not None:
            words += ["--folding", str(self.folding)]
        bits = ",".join(f"{name}={n}" for name, n in (("weights", self.weights), ("data", self.data)) if n is not None)
        if bits:
            words += ["--bits", bits]
        return [*words, "--seed", str(self.seed)] if self.seed != 1 else words


@dataclass(frozen=True)
class ChoiceGrid:
    """Values to combine, each field's with all of the others'.

    Raises:
        UserError: a field is empty, a number without a meaning, or there are more than ``MOST_CHOICES`` combinations.
    """

    boards: tuple[str, ...] = (DEFAULT_BOARD,)
    multipliers: tuple[int | None, ...] = (None,)
    fps: tuple[float | None, ...] = (None,)
    clocks_mhz: tuple[float | None, ...] = (None,)
    foldings: tuple[Path | None, ...] = (None,)
    bits: tuple[tuple[int | None, int | None], ...] = ((None, None),)
    seeds: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        problems = []
        for field in fields(self):
            values = tuple(dict.fromkeys(getattr(self, field.name)))
            object.__setattr__(self, field.name, values)
            if not values:
                problems.append(Problem("argument", f"there must be something to try as `{field.name}`"))
        if problems:
            raise UserError(*problems)
        for multipliers, fps, clock in itertools.zip_longest(self.multipliers, self.fps, self.clocks_mhz):
            check_numbers(multipliers, clock, fps)
        wrong = [seed for seed in self.seeds if not SEEDS[0] <= seed <= SEEDS[1]]
        if wrong:
            message = f"seeds must be within {SEEDS[0]} .. {SEEDS[1]:,}, not {wrong[0]}"
            raise UserError(Problem("argument", message, "--seeds", stage="arguments"))
        if len(self) > MOST_CHOICES:
            message = f"there must be at most {MOST_CHOICES:,} combinations, not {len(self):,}"
            raise UserError(Problem("argument", message, hint="try fewer values at once", stage="arguments"))

    def __len__(self) -> int:
        count = 1
        for field in fields(self):
            count *= len(getattr(self, field.name))
        return count

    def choices(self) -> list[Choice]:
        """All combinations, the seeds of a design one after another."""
        return [
            Choice(board, multipliers, fps, clock, folding, *bits, seed)
            for board, multipliers, fps, clock, folding, bits, seed in itertools.product(
                self.boards, self.multipliers, self.fps, self.clocks_mhz, self.foldings, self.bits, self.seeds
            )
        ]


def command(model: Path, asked: BuildOptions, choice: Choice) -> str:
    """The line that builds a choice."""
    words = ["onnx-hw", "build", str(model), *choice.arguments()]
    for option, path in (("--calibration", asked.calibration), ("--inputs", asked.inputs)):
        if path is not None:
            words += [option, str(path)]
    quantizing, reading = asked.quantizing, asked.reading
    if quantizing.output is not None:
        words += ["--output", quantizing.output.value]
    if quantizing.precision is not None:
        words += ["--precision", str(quantizing.precision)]
    words += _flags({"--strict": reading.strict, "--lenient": reading.lenient, "--newer": reading.newer})
    for name, size in reading.dimensions.items():
        words += ["--dim", f"{name}={size}"]
    return shlex.join(words)


def _flags(given: Mapping[str, bool]) -> list[str]:
    return [name for name, there in given.items() if there]
