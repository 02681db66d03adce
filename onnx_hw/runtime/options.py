"""Options of the commands, and the engines that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from math import isnan
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean, file_name
from onnx_hw.runtime.schedule_request import NUMBERS, ScheduleRequest
from onnx_hw.runtime.stage import Stage

DEFAULT_BOARD = "ecp5"


class Resize(StrEnum):
    """Way in which an image gets another size; bilinear, with averages where it shrinks."""

    STRETCH = "stretch"  # height and width each to the input's
    CROP = "crop"  # the shorter side to the input's, and the middle of the longer one


class SimulationEngine(StrEnum):
    """Simulators of a circuit."""

    COMPILED = "compiled"  # native code
    VERILATOR = "verilator"  # a process of its own, driven by cocotb
    ICARUS = "icarus"  # Icarus Verilog, driven by cocotb
    INTERPRETED = "interpreted"  # Amaranth's own simulator
    GATES = "gates"  # the netlist of the chip, cell by cell


class Evaluator(StrEnum):
    """Ways to compute the outputs of a model."""

    REFERENCE = "reference"  # the ONNX operators in numpy, float where the model is float
    GOLDEN = "golden"  # the integer network in numpy
    SIMULATION = "simulation"  # the circuit, by the fastest engine there is
    COMPILED = SimulationEngine.COMPILED.value
    VERILATOR = SimulationEngine.VERILATOR.value
    ICARUS = SimulationEngine.ICARUS.value
    INTERPRETED = SimulationEngine.INTERPRETED.value
    GATES = SimulationEngine.GATES.value
    BOARD = "board"  # the whole chip of a board with a link, simulated behind a port, by the driver


class Stalls(StrEnum):
    """Ways in which the outside stalls a circuit."""

    ALL = "all"  # each of the others in turn
    NONE = "none"  # never waiting
    RANDOM = "random"
    BURSTS = "bursts"
    STARVED = "starved"  # one input gives nothing for a frame, the others all they have
    FROZEN = "frozen"  # one output takes nothing for a frame, the others all there is


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of reading an ONNX file; see ``onnx_hw.onnx.load.read``.

    Attributes:
        dimensions: sizes for symbolic dimensions, by name.
        strict: refuse what the specification only advises against.
        lenient: accept what exporters are known to get wrong.
        newer: try also versions of ONNX that are newer than onnx-hw.
        cut_at: tensors that become the outputs: what they do not need is left out. Empty for the whole model.
        state: ``INPUT:OUTPUT`` of each state that is kept from frame to frame, with ``=NUMBER`` behind it where the
            input is not 0 in the first frame.
        streaming: the model of a whole sequence becomes that of a hop of it, with buffers as states.
    """

    dimensions: Mapping[str, int] = field(default_factory=dict)
    strict: bool = False
    lenient: bool = False
    newer: bool = False
    cut_at: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    streaming: bool = False


class OutputKind(StrEnum):
    """Outputs of the hardware for a float model, where no product follows that would need integers of few bits."""

    ACCUMULATORS = "accumulators"  # with all bits of the sums: nothing is lost
    INT8 = "int8"  # with the bits of other data


class WeightStorage(StrEnum):
    """Storage of weights and of the constants that depend on them."""

    FIXED = "fixed"  # in the bitstream
    LOADABLE = "loadable"  # in memories that `onnx-hw update` fills anew


class MemoryChoice(StrEnum):
    """Memory outside the chip for weights."""

    NONE = "none"
    FLASH = "flash"  # those of all layers that use each weight once a frame
    SDRAM = "sdram"  # the same
    AUTO = "auto"  # those of as few such layers as must be, of none where all weights fit on the chip


MOST_DB = 90.0
"""Largest signal-to-noise ratio in dB that integers of 16 bits may reach; float32 itself has about 140."""


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """Options of quantization, for a model that has floats; None for the usual choice.

    Attributes:
        output: kind of outputs.
        weights, data: bits of all weights, and of all other values.
        precision: TOML file with the bits of single weights and values.
        sqnr: signal-to-noise ratio of the outputs, dB, that the cheapest bits are to reach.
        accuracy_loss: points of accuracy that the cheapest bits may lose, instead.
    """

    output: OutputKind | None = None
    weights: int | None = None
    data: int | None = None
    precision: Path | None = None
    sqnr: float | None = None
    accuracy_loss: float | None = None

    def __post_init__(self) -> None:
        """Raise ``UserError`` for an unknown output, a value that is not a path or a number, and two that set bits."""
        for option, goal in (("--sqnr", self.sqnr), ("--accuracy-loss", self.accuracy_loss)):
            if goal is not None and isnan(goal):
                message = "the goal of a search must be a number, not nan"
                raise UserError(Problem("argument", message, option, stage="arguments"))
        given = {"--bits": self.weights or self.data, "--sqnr": self.sqnr, "--accuracy-loss": self.accuracy_loss}
        named = [option for option, value in given.items() if value is not None]
        if len(named) > 1:
            message = f"each of {' and '.join(named)} sets the bits: give only one of them"
            hint = "--precision sets the bits of single layers and values"
            raise UserError(Problem("argument", message, named[1], hint, stage="arguments"))
        if self.output is not None or self.precision is not None:
            _take_texts(self, ("precision",), {} if self.output is None else {"output": OutputKind})


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of every command that makes a network or a circuit of a model. Paths may be given as texts.

    Attributes:
        model: the ONNX file.
        board: name of a file in ``onnx_hw_boards``, or a file of the user's that ends in ``.py``.
        inputs: npz with the frames to prove with (and ``labels``); None for random ones.
        calibration: npz, or a folder, with frames that show the ranges of a float model's tensors.
        resize: how images among the samples get the input's size; None for what ``samples.toml`` says.
        folding: TOML file with the lanes of every node, instead of a search.
        scheduling: clock, lanes and rate of the design. To miss a clock that is asked for is an error; to miss the
            board's own is a warning. Foldings come from the file ``folding``.
        reading: how the ONNX file is read.
        quantizing: how integers are chosen for a float model.
    """

    model: Path
    board: str = DEFAULT_BOARD
    inputs: Path | None = None
    calibration: Path | None = None
    resize: Resize | None = None
    folding: Path | None = None
    scheduling: ScheduleRequest = field(default_factory=ScheduleRequest)
    reading: ReadOptions = ReadOptions()
    quantizing: QuantizeOptions = QuantizeOptions()


@dataclass(frozen=True, kw_only=True)
class BuildOptions(ModelOptions):
    """Options of ``onnx-hw build``. Paths, and the stage, may be given as texts.

    Attributes:
        out: folder for everything written; None for ``<model>-<board>`` in the current folder.
        stop_after: last stage to run.
        witness: whether onnxruntime runs the model, too, where it is installed.
        gate_level: whether the netlist of the chip is simulated, too.
        bitstream_check: whether the bitstream is unpacked again, and compared.
        seed: of the placer; another one gives another place to every cell, and another clock.
        store: folder for results that other builds may use, too; None for the user's.
        waves: whether the circuit's first cycles are written as a waveform.
        random_calibration: whether a float model without samples is built with scales from random numbers.
        weights: whether the weights of a retrained model can be loaded into the circuit.
        memory: whether weights come from a memory outside the chip.
    """

    out: Path | None = None
    stop_after: Stage = Stage.UNPACK
    witness: bool = True
    gate_level: bool = True
    bitstream_check: bool = True
    seed: int = 1
    store: Path | None = None
    waves: bool = False
    random_calibration: bool = False
    weights: WeightStorage = WeightStorage.FIXED
    memory: MemoryChoice = MemoryChoice.NONE

    def __post_init__(self) -> None:
        """Raise ``UserError`` for a seed out of range, an unknown stage, and options that do not go together."""
        _take_texts(
            self,
            ("model", "out", "inputs", "calibration", "folding", "store"),
            {"stop_after": Stage, "weights": WeightStorage, "memory": MemoryChoice},
        )
        object.__setattr__(self, "resize", resize_of(self.resize))
        if not SEEDS[0] <= self.seed <= SEEDS[1]:
            message = f"the seed must be within {SEEDS[0]} .. {SEEDS[1]:,}, not {self.seed}"
            raise UserError(Problem("argument", message, "--seed", stage="arguments"))
        if self.waves and Stage.SIMULATE not in self.stages:
            message = f"there are no waveforms before the circuit is simulated, and {self.stop_after} is the last stage"
            hint = "leave out --waves, or stop after simulate or later"
            raise UserError(Problem("argument", message, "--waves", hint, stage="arguments"))
        if self.memory is not MemoryChoice.NONE and self.weights is WeightStorage.LOADABLE:
            message = "weights must be loadable or come from a memory outside the chip, not both"
            raise UserError(Problem("argument", message, "--memory", "leave out --weights", stage="arguments"))
        if self.random_calibration and (self.calibration is not None or self.inputs is not None):
            message = "random numbers take the place of samples, and there are samples"
            hint = "leave out --random-calibration"
            raise UserError(Problem("argument", message, "--random-calibration", hint, stage="arguments"))

    @property
    def folder(self) -> Path:
        """Folder in which the build is written."""
        board = Path(self.board).stem if self.board.endswith(".py") else self.board
        return self.out if self.out is not None else Path(f"{file_name(self.model.stem)}-{file_name(board)}")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages to run, in their order."""
        wanted = {Stage.GATES: self.gate_level, Stage.UNPACK: self.bitstream_check}
        return tuple(stage for stage in Stage.until(self.stop_after) if wanted.get(stage, True))

    def but(self, **choices: Any) -> BuildOptions:
        """Return the same options but for some fields; numbers of ``scheduling`` may be given too: ``multipliers=32``.

        Raises:
            UserError: as the constructors.
        """
        numbers = {name: choices.pop(name) for name in NUMBERS if name in choices}
        if numbers:
            choices["scheduling"] = replace(choices.get("scheduling", self.scheduling), **numbers)
        return replace(self, **choices)


@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions):
    """Options of ``onnx-hw run``: samples, and who computes the outputs."""

    inputs: Path = field()
    engine: Evaluator = Evaluator.GOLDEN

    def __post_init__(self) -> None:
        """Raise ``UserError`` for an engine that does not exist."""
        _take_texts(self, ("model", "inputs", "calibration", "folding"), {"engine": Evaluator})
        object.__setattr__(self, "resize", resize_of(self.resize))

    def build(self) -> BuildOptions:
        """Return the build whose network or circuit computes the outputs."""
        return BuildOptions(**{field.name: getattr(self, field.name) for field in fields(ModelOptions)})


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """Options of ``onnx-hw verify``. Paths and choices may be given as texts.

    Attributes:
        folder: folder of the build.
        inputs: npz with the frames (and ``labels``); None for those of the build, random ones where it had none.
        resize: how images among the samples get the input's size; None for what the build, or ``samples.toml``, says.
        frames: number of frames; samples are repeated where there are fewer. None for all samples.
        engine: simulator; None for the fastest one that is installed.
        stalls: how inputs and outputs are stalled.
        jobs: shards of frames at once; None for one per processor.
        scheduler: address of a dask scheduler, whose workers do it; None for this machine.
    """

    folder: Path
    inputs: Path | None = None
    resize: Resize | None = None
    frames: int | None = None
    engine: SimulationEngine | None = None
    stalls: Stalls = Stalls.ALL
    jobs: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        """Raise ``UserError`` for a number below 1, and for unknown choices."""
        engine: dict[str, type[StrEnum]] = {} if self.engine is None else {"engine": SimulationEngine}
        _take_texts(self, ("folder", "inputs"), {"stalls": Stalls, **engine})
        object.__setattr__(self, "resize", resize_of(self.resize))
        for what, number in (("frame", self.frames), ("job", self.jobs)):
            if number is not None and number < 1:
                message = f"there must be at least one {what}, not {number}"
                raise UserError(Problem("argument", message, f"--{what}s", stage="arguments"))


def resize_of(given: Resize | str | None) -> Resize | None:
    """Return the way to resize images that a caller may give as a text.

    Raises:
        UserError: there is no such way.
    """
    if given is None or given in tuple(Resize):
        return None if given is None else Resize(given)
    message = f"`resize` must be one of {', '.join(Resize)}, not {given!r}"
    hint = did_you_mean(str(given), Resize)
    raise UserError(Problem("argument", message, "resize", hint, stage="arguments"))


PORT_ENGINES = (SimulationEngine.COMPILED, SimulationEngine.GATES)
"""Simulators of a whole chip behind a port."""


def port_engine_of(given: SimulationEngine | str | None) -> SimulationEngine | None:
    """Return the simulator of a chip behind a port, which a caller may give as a text.

    Raises:
        UserError: there is no such simulator.
    """
    if given is None or given in PORT_ENGINES:
        return None if given is None else SimulationEngine(given)
    message = f"`engine` must be one of {', '.join(PORT_ENGINES)}, not {given!r}"
    raise UserError(Problem("argument", message, "engine", did_you_mean(str(given), PORT_ENGINES), stage="arguments"))


def _take_texts(
    options: BuildOptions | RunOptions | QuantizeOptions | VerifyOptions,
    paths: Iterable[str],
    choices: Mapping[str, type[StrEnum]],
) -> None:
    """Convert the fields that a caller may give as texts; raise ``UserError`` for anything else."""
    problems = []
    needed = {field.name for field in fields(options) if field.default is MISSING}
    for name in paths:
        value = getattr(options, name)
        if isinstance(value, Path) or (value is None and name not in needed):
            continue
        try:
            object.__setattr__(options, name, Path(value))
        except TypeError:
            problems.append(Problem("argument", f"`{name}` must be a path, not {value!r}", name, stage="arguments"))
    for name, kind in choices.items():
        value = getattr(options, name)
        try:
            object.__setattr__(options, name, kind(value))
        except ValueError:
            message = f"`{name}` must be one of {', '.join(kind)}, not {value!r}"
            problems.append(Problem("argument", message, name, did_you_mean(str(value), kind), stage="arguments"))
    if problems:
        raise UserError(*problems)


SEEDS = (1, 2**31 - 1)
"""Least and largest seed of the placer."""
