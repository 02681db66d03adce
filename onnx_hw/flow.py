"""The whole pipeline: what happens between ``onnx-hw build model.onnx`` and the bitstream. Start here.

    model.onnx ─ read ─▶ Model ─ quantize ─▶ Network ─ schedule ─▶ Design ─ assemble ─▶ netlist
        ─ simulate (golden and timing agree with the circuit) ─ synthesize ─ route ─ pack ─▶ bitstream

Every stage is a method of ``Work`` that turns one value into the next; ``build`` runs them in order.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw import golden, samples
from onnx_hw import simulate as simulation
from onnx_hw.assemble import assemble, to_rtlil
from onnx_hw.board import check_fit, find_board, fuller_than_comfortable, pin_constraints, schedule_on
from onnx_hw.build_folder import BuildFolder, digest, opened
from onnx_hw.design import Design
from onnx_hw.errors import ExitCode, UserError, user_error
from onnx_hw.folding_file import read_foldings, to_text
from onnx_hw.frames import by_reference, classes_of, read_frames, streamed_in
from onnx_hw.network import Network
from onnx_hw.onnx.capability import require_capability
from onnx_hw.onnx.infer_shapes import infer
from onnx_hw.onnx.model import Model, Value
from onnx_hw.onnx.read import read as read_onnx
from onnx_hw.ops.folding import Folding
from onnx_hw.options import BuildOptions, Engine, Reading, RunOptions, Stage
from onnx_hw.outputs import Outputs
from onnx_hw.passes.insert_forks import insert_forks
from onnx_hw.progress import Progress, Running, Silent
from onnx_hw.proof.compare import compare
from onnx_hw.quantize.assumed_ranges import assumed_ranges
from onnx_hw.quantize.batch_as_frames import batch_as_frames, batches_of, frames_of
from onnx_hw.quantize.complete_quantization import import_completed
from onnx_hw.quantize.insert_quantization import is_quantized
from onnx_hw.quantize.quantize_float_model import quantize_without_data
from onnx_hw.quantize.synthetic_frames import synthetic_frames
from onnx_hw.quantize.to_integers import to_integers
from onnx_hw.report import fill, report
from onnx_hw.route import BITSTREAM, RouteResult, pack, route
from onnx_hw.simulate import Proof
from onnx_hw.spelling import file_name, printable, short
from onnx_hw.synthesize import SynthesisResult, synthesize
from onnx_hw_boards.board import Board
from onnx_hw_sim import tools


@dataclass(frozen=True)
class Build:
    """The files of a build and what was found out on the way.

    Attributes:
        folder: where everything is.
        report: as in ``report.json``.
        exit_code: OK, or DOES_NOT_FIT where a clock or a rate that was asked for is missed.
    """

    folder: Path
    report: report.Report
    exit_code: ExitCode = ExitCode.OK

    def __repr__(self) -> str:
        return printable(f"Build {self.report.model.name} for {self.report.board.name} in {self.folder}")


def build(options: BuildOptions | str | Path, progress: Progress | None = None, **choices: Any) -> Build:
    """Run the stages up to ``options.stop_after`` and write ``report.json``, also when a stage fails.

    Args:
        options: what to build; or the model's path, with ``choices`` for further fields of ``BuildOptions``.

    Raises:
        UserError: anything the user can mend.
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    options = options if isinstance(options, BuildOptions) else BuildOptions(Path(options), **choices)
    progress = progress or Silent()
    board = find_board(options.board)
    if not os.path.isfile(options.model):  # false also where the path is too long, or a loop of links
        read_onnx(options.model)  # says what is wrong
    for name in fill.tools_of(options.stages):
        if name not in simulation.REPLACEABLE:
            tools.find(name)  # what is missing is missed at once, not after all the stages before
    work = Work(options, board, progress)
    work.take(Stage.READ)  # what is refused leaves no folder
    with opened(options.folder) as work.folder:
        try:
            for stage in options.stages[1:]:
                work.take(stage)
        except BaseException:
            with suppress(UserError):  # what went wrong first is worth more than a report of it
                work.finish()
            raise
        return work.finish()


class Work:
    """A build under way: the values so far."""

    folder: BuildFolder
    inputs: tuple[Value, ...]  # of the model as it was read
    model: Model  # of one frame
    batch: int  # frames of a sample
    frames: Mapping[str, np.ndarray] | None = None
    labels: np.ndarray | None = None
    network: Network
    design: Design
    chosen: Mapping[str, Folding]
    rtlil: str
    pads: str
    proof: Proof
    synthesis: SynthesisResult
    routed: RouteResult

    def __init__(self, options: BuildOptions, board: Board, progress: Progress) -> None:
        self.options, self.board, self.progress = options, board, progress
        self.clock_mhz = options.clock_mhz or board.default_clock_mhz
        self.facts = report.Report(fill.empty_model(options.model), fill.describe_board(board))

    def take(self, stage: Stage) -> None:
        """The next stage; all but the first write into ``folder``."""
        with self.progress.stage(stage) as running:
            getattr(self, stage.value)(running)
        self.ended(running)

    # ---- the stages, in order -----------------------------------------------------------------------------------

    def read(self, running: Running) -> None:
        model = read(self.options.model, self.options.reading)
        self.inputs = model.graph.inputs
        self.model, self.batch = batch_as_frames(model)
        if self.options.inputs is not None:
            classes = classes_of(self.model.graph.outputs)
            self.frames, self.labels = read_frames(self.options.inputs, self.inputs, self.batch, classes)
        running.fact = f"{len(self.model.graph.nodes):,} nodes, {fill.parameters(self.model):,} weights"

    def quantize(self, running: Running) -> None:
        require_capability(self.model)
        lacking = not is_quantized(self.model)
        data = self._calibration_frames(lacking)
        made = to_integers(self.model, data)
        if made.chosen and not lacking:
            missed = f"hardware needs integers for {', '.join(map(short, made.chosen))}"
            self._warn(missed, "their scales come from the samples")
        elif self.options.calibration is not None and not lacking:
            self._warn("the model brings its scales: --calibration has no effect", "leave it out")
        self.network = replace(made.network, name=self.model.name)
        widths = sorted({tensor.dtype.bits for tensor in self.network.tensors.values() if tensor.dtype.bits <= 16})
        running.fact = f"int{widths[0]} data, {len(self.network.nodes)} operators"
        if lacking:
            running.fact += f"; calibrated with {samples.frame_count(data or {})} samples"
        self.folder.write("network.txt", f"{self.network!r}\n")
        self.facts = replace(self.facts, model=fill.describe_model(self.model, self.network))
        compared = compare(made.model, self.network, self.frames or data, made.floats)
        if not compared.agreement.frames:
            self._warn("golden was not compared with the model: no frame could be drawn", "give samples with --inputs")
        self.facts = replace(self.facts, reference=fill.describe_reference(compared))
        running.fact += f"; {compared.agreement}"

    def schedule(self, running: Running) -> None:
        asked, foldings, depths = self.options, None, None
        if asked.folding is not None:
            foldings, depths = read_foldings(asked.folding, insert_forks(self.network))
        self.design, self.chosen = schedule_on(
            self.board,
            self.network,
            clock_mhz=self.clock_mhz,
            multipliers=asked.multipliers,
            fps=asked.fps,
            foldings=foldings,
            depths=depths,
        )
        full = fuller_than_comfortable(self.design, self.board, asked.multipliers)
        if full:
            self._warn(f"the chip is fuller than is comfortable: {full}", "routing may take long, or miss the clock")
        self.folder.write("design.txt", f"{self.design!r}\n")
        self.folder.write("folding.toml", to_text(self.design, self.chosen))
        planned = fill.describe_plan(self.design, fps=asked.fps)
        if planned.interval_cycles > self.design.interval:
            slow = f"{planned.interval_cycles:,} cycles a frame instead of {self.design.interval:,}"
            self._warn(f"FIFOs are too shallow for full rate: {slow}", "larger depths under [fifo], or none there")
        self.facts = replace(
            self.facts,
            io=fill.describe_ports(self.design),
            design=planned,
            quantization=fill.describe_quantization(self.design.network),
        )
        running.fact = (
            f"{len(planned.nodes)} cores, {planned.lanes} lanes, {planned.interval_cycles:,} cycles a frame "
            f"({planned.mac_efficiency:.0%} busy); {short(planned.bottleneck.name)} sets the pace"
        )

    def assemble(self, running: Running) -> None:
        from onnx_hw_rtl.shell import Shell
        from onnx_hw_rtl.target import Target

        assembly, names = assemble(self.design)
        streams = fill.pad_streams(self.design, names)
        self.pads = pin_constraints(self.board, streams, self.clock_mhz)
        self.rtlil = to_rtlil(Shell(assembly), Target(self.board.family))
        self.facts = replace(
            self.facts, digest=digest({"rtlil": self.rtlil, "pads": self.pads, "clock": self.clock_mhz})
        )
        running.fact = (
            f"{len(self.rtlil.splitlines()):,} lines of netlist, {sum(stream.pins for stream in streams)} pins"
        )

    def simulate(self, running: Running) -> None:
        simulator, names = simulation.compile_simulator(
            self.design, self.folder.path / "simulation", warn=self._warn, on_first_run=self._say_first_run
        )
        integers = streamed_in(self.network, self.frames)
        count = simulation.frames_to_simulate(self.design, len(next(iter(integers.values()))), simulator.name)
        values = golden.trace(self.design.network, {tensor: array[:count] for tensor, array in integers.items()})

        def say(fact: str) -> None:
            running.fact = fact

        self.proof = simulation.prove(self.design, simulator, names, values, progress=say)
        self.facts = replace(
            self.facts,
            design=fill.describe_plan(self.design, self.proof, fps=self.options.fps),
            simulation=fill.describe_proof(self.proof),
            accuracy=self._accuracy(),
        )
        if not self.proof.agrees:
            waves = simulation.write_waves(self.design, self.proof, names, values, self.folder.path)
            if waves is not None:
                self.facts = replace(self.facts, files={**self.facts.files, "waves": waves.name})
            raise simulation.difference_error(self.proof, waves)
        run = self.proof.runs[0]
        running.fact = (
            f"{self.proof.frames} frames bit-exact with golden, every firing as predicted; "
            f"{run.interval_cycles:,} cycles a frame"
        )

    def synthesize(self, running: Running) -> None:
        self.synthesis = synthesize(
            self.folder, self.rtlil, self.board.family, on_log=self._log(running), on_first_run=self._say_first_run
        )
        used = self.synthesis.used
        running.cached = self.synthesis.made.cached
        running.fact = f"{used.lut:,} LUT4, {used.ff:,} flip-flops, {used.dsp} multipliers, {used.bram} block RAMs"
        self.facts = replace(self.facts, synthesis=fill.describe_synthesis(self.synthesis))
        check_fit(used, self.board)

    def route(self, running: Running) -> None:
        self.routed = route(
            self.folder,
            self.synthesis,
            self.board,
            self.pads,
            self.clock_mhz,
            on_log=self._log(running),
            on_first_run=self._say_first_run,
        )
        running.cached = self.routed.made.cached
        verdict = "PASS" if self.routed.timing_met else "MISSED"
        running.fact = f"{self.routed.fmax_mhz:.1f} MHz ({verdict} at {self.clock_mhz:g} MHz)"
        self.facts = replace(self.facts, synthesis=fill.describe_synthesis(self.synthesis, self.routed))
        if not self.routed.timing_met:
            reached, rate = f"{self.routed.fmax_mhz:.1f} MHz, not {self.clock_mhz:g} MHz", ""
            if self.options.fps is not None:
                rate = f", hence {self.routed.fmax_mhz * 1e6 / self.design.interval:,.1f} frames a second"
            self._warn(
                f"the circuit reaches {reached}{rate}",
                f"run it at {int(self.routed.fmax_mhz)} MHz, or use fewer lanes (--multipliers)",
            )

    def pack(self, running: Running) -> None:
        place = self.folder.path / f"{file_name(self.model.name)}.bit"
        made = pack(self.folder, self.routed)
        shutil.copyfile(made.folder / BITSTREAM, place)
        running.cached = made.cached
        running.fact = f"{place.name}, {place.stat().st_size:,} bytes"
        self.facts = replace(self.facts, files={**self.facts.files, "bitstream": place.name})

    # ---- around them --------------------------------------------------------------------------------------------

    def ended(self, running: Running) -> None:
        seconds = {**self.facts.seconds, running.stage.value: round(running.seconds, 3)}
        cached = (*self.facts.cached, running.stage.value) if running.cached else self.facts.cached
        self.facts = replace(self.facts, seconds=seconds, cached=cached)

    def finish(self) -> Build:
        self.facts = replace(
            self.facts,
            tools=fill.describe_tools(self.options.stages),
            files={**self.facts.files, "report": "report.json"},
        )
        self.folder.write("report.json", self.facts.to_json())
        return Build(self.options.folder, self.facts, ExitCode.OK if self._keeps_word() else ExitCode.DOES_NOT_FIT)

    def _keeps_word(self) -> bool:
        """Whether the clock and the rate that were asked for are reached, as far as that is known."""
        made, fps = self.facts.synthesis, self.options.fps
        if made is None or made.fmax_mhz is None or made.timing_met:
            return True
        return self.options.clock_mhz is None and (fps is None or made.fmax_mhz * 1e6 >= fps * self.design.interval)

    def _calibration_frames(self, lacking: bool) -> Mapping[str, np.ndarray] | None:
        """What there is to learn ranges from; for a model that is lacking them all, at least something."""
        if self.options.calibration is not None:
            return read_frames(self.options.calibration, self.inputs, self.batch)[0]
        if lacking:
            source = "random numbers in 0..1" if self.frames is None else "the samples of --inputs"
            self._warn(f"the scales come from {source}", "give real samples with --calibration")
        return synthetic_frames(self.model) if self.frames is None and lacking else self.frames

    def _accuracy(self) -> report.Accuracy | None:
        if self.labels is None or self.frames is None:
            return None
        model_outputs = by_reference(self.model, self.frames)
        golden_outputs = golden.run(self.network, self.frames)
        circuit = golden.outputs_of(self.network, fill.leaving(self.network, self.design, self.proof), self.frames)
        return fill.describe_accuracy(self.labels, model_outputs, golden_outputs, circuit)

    def _warn(self, message: str, hint: str) -> None:
        self.progress.warn(message, hint)
        self.facts = replace(self.facts, warnings=(*self.facts.warnings, f"{message}; {hint}"))

    def _say_first_run(self, tool: tools.Tool) -> None:
        self.progress.warn(f"{tool.name} prepares itself for this machine", "only the first run takes half a minute")

    @staticmethod
    def _log(running: Running):  # type: ignore[no-untyped-def]
        def note(log: Path) -> None:
            running.log = log

        return note


def run(options: RunOptions, progress: Progress | None = None) -> Outputs:
    """The model's outputs for samples.

    Raises:
        UserError, ToolMissing, ToolFailed: as ``build``.
    """
    progress, board = progress or Silent(), find_board(options.board)
    if options.engine is Engine.REFERENCE:
        model = read(options.model, options.reading)
        batch = batch_as_frames(model)[1]
        given = samples.read_samples(options.inputs, model.graph.inputs, frames_of_a_sample=batch)
        return Outputs(by_reference(model, given.arrays), given.labels)
    work = Work(options.build(), board, progress)
    with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
        simulated = options.engine is Engine.SIMULATION
        for stage in (Stage.READ, Stage.QUANTIZE, *((Stage.SCHEDULE, Stage.SIMULATE) if simulated else ())):
            work.take(stage)
        assert work.frames is not None
        if simulated:
            left = fill.leaving(work.network, work.design, work.proof)
            outputs = golden.outputs_of(work.network, left, work.frames)
        else:
            outputs = golden.run(work.network, work.frames)
        return Outputs(batches_of(outputs, work.batch), work.labels)


# ---- the same as a library ------------------------------------------------------------------------------------------


def read(path: str | Path, reading: Reading | None = None) -> Model:
    """The ONNX model in a file, with the type of every value."""
    path, reading = Path(path), reading or Reading()
    model = read_onnx(
        path,
        strict=reading.strict,
        lenient=reading.lenient,
        newer=reading.newer,
        dimensions=reading.dimensions,
    )
    return replace(infer(model), name=path.stem)


def quantize(model: Model, calibration: Mapping[str, np.ndarray] | None = None) -> Network:
    """The integer network of a model; ``calibration`` (frames by graph input) is for what has no integers.

    The network of a model with a static batch is that of one frame, (1, ...) instead of (N, ...).
    """
    if calibration is None and not is_quantized(model):
        raise user_error(
            "calibration-missing",
            f"the float model `{model.name}` must come with calibration frames",
            hint="quantize(model, calibration={input: array of frames})",
            stage="quantize",
        )
    model, batch = batch_as_frames(model)
    return to_integers(model, calibration and frames_of(calibration, batch)).network


def schedule(
    network: Network,
    board: str = "ecp5",
    *,
    multipliers: int | None = None,
    foldings: Mapping[str, Folding] | None = None,
    clock_mhz: float | None = None,
    fps: float | None = None,
) -> Design:
    """The design of a network for a board: foldings and FIFO depths chosen."""
    return schedule_on(
        find_board(board), network.verify(), clock_mhz=clock_mhz, multipliers=multipliers, fps=fps, foldings=foldings
    )[0]


def simulate(design: Design, frames: Mapping[str, np.ndarray] | None = None) -> Proof:
    """The proof of a design: its circuit, compiled, against golden and timing.

    Args:
        frames: by graph input, (frames, *shape); None for random integers.
    """
    network = design.verify().network
    integers = simulation.random_integers(network) if frames is None else golden.integers_of(network, frames)
    with tempfile.TemporaryDirectory() as place:
        simulator, names = simulation.compile_simulator(design, Path(place))
        return simulation.prove(design, simulator, names, golden.trace(network, integers))


def check_hardware(options: BuildOptions) -> UserError | None:
    """Everything that keeps a model from becoming hardware; None when it can be built.

    A float model is tried with assumed scales, and is not run: whether it can be built does not depend on its data.
    """
    try:
        model, _ = batch_as_frames(read(options.model, options.reading))
        require_capability(model)
        if lacking := not is_quantized(model):
            model = quantize_without_data(model)
        network, _, _ = import_completed(model, assumed_ranges if lacking else None)
        board = find_board(options.board)
        schedule_on(board, network, clock_mhz=options.clock_mhz, multipliers=options.multipliers, fps=options.fps)
    except UserError as error:
        return error
    return None
