"""Outputs for samples, from a build on its board, or from its chip simulated behind a port.

Modules that only a simulation or a comparison needs are imported there, so that a silent board is reported sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.messages.near_paths import hint_for_build_folder
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Value
from onnx_hw.runtime.options import Resize, SimulationEngine, resize_of
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.samples.check_samples import check_samples
from onnx_hw.samples.outputs import Outputs
from onnx_hw.samples.read_samples import read_samples
from onnx_hw.samples.samples import Samples, SampleSource, join_batches, split_samples, stack_outputs
from onnx_hw.samples.single_input_files import WITHOUT_IMAGES
from onnx_hw_link.device import Device
from onnx_hw_link.errors import AnotherDesign, LinkError, NoAnswer, PortFailed
from onnx_hw_link.host_model import FILE as MODEL
from onnx_hw_link.host_model import HostModel, NotOurs
from onnx_hw_link.link import Link
from onnx_hw_link.session import Faults, FrameResult
from onnx_hw_link.transport import TRANSPORTS

if TYPE_CHECKING:
    from onnx_hw.commands.c_host import CHostCheck
    from onnx_hw.ir.design import Design
    from onnx_hw.report.model import Report
    from onnx_hw.timing.link_times import LinkTimesCheck

AUTO, SIMULATED = "auto", "sim"

NO_BOARD = "no board at hand? `--port sim` simulates the whole chip instead"

TIMEOUT = 1.5
"""Seconds without an answer."""


@dataclass(frozen=True, kw_only=True)
class InferOptions:
    """Options of ``onnx-hw infer``.

    Attributes:
        folder: folder of the build.
        inputs: file or folder with the samples, or arrays by graph input; None for a self-test.
        port: serial port, or SPI port of ``onnx_hw_link.spi_transport``; ``auto`` for the first one at which the
            design answers, ``sim`` for a simulation of the whole chip.
        check: compare with golden.
        resize: how images in files get the input's size; None for what ``samples.toml`` says.
        engine: simulator of the port ``sim``: ``compiled`` for the circuit, ``gates`` for the cells that were placed
            and routed; None for the first.
    """

    folder: Path
    inputs: SampleSource | None
    port: str = AUTO
    check: bool = False
    resize: Resize | None = None
    engine: SimulationEngine | None = None

    def __post_init__(self) -> None:
        """Raise ``UserError`` for an unknown way to resize, and for a simulator of a real port."""
        object.__setattr__(self, "resize", resize_of(self.resize))
        if self.engine is not None and self.port != SIMULATED:
            raise user_error(
                "engine",
                f"a simulator must be for the port `{SIMULATED}`, not for `{self.port}`",
                where="--engine",
                hint="--port sim, or no --engine",
                stage="arguments",
            )


@dataclass(frozen=True)
class Tried:
    """Place where a build was run.

    Attributes:
        design: name of its model.
        board: board that it was made for; empty where nothing was compared.
        digest: digest of the design, in hexadecimal digits.
        port: port that was asked for.
        baud: bits per second.
    """

    design: str
    board: str
    digest: str
    port: str
    baud: int


@dataclass(frozen=True)
class InferResult:
    """Results of a board.

    Attributes:
        outputs: outputs of the model.
        frames: number of frames that were sent.
        latencies: cycles from a frame's first beat in to its last beat out, of those frames that the chip followed.
        intervals: cycles between the ends of neighbouring frames.
        faults: faults of the wire.
        device: place where the build was run.
        checked: whether all outputs were compared with golden, and found to be equal.
        timing: the cycles of the first frames against those that the firing law gives; None where it was not asked,
            there are several inputs, or the wire was at fault.
        in_c: comparison of the C header with the driver; None where it was not asked.
    """

    outputs: Outputs
    frames: int
    latencies: tuple[int, ...]
    intervals: tuple[int, ...]
    faults: Faults
    device: Tried
    checked: bool = False
    timing: LinkTimesCheck | None = None
    in_c: CHostCheck | None = None

    def __repr__(self) -> str:
        return f"InferResult {self.frames:,} frames: {self.outputs!r}"


def infer(options: InferOptions, progress: Progress | None = None) -> InferResult:
    """Run a build's network through its link.

    Raises:
        UserError: there is no such build, its board does not answer, or holds another design; with exit code 4, the
            outputs differ from golden, or the cycles of frames from the firing law.
        ToolMissing, ToolFailed: what the simulation needs.
    """
    progress, board = progress or Silent(), ""
    try:
        model = read_host(options.folder)
        given = _samples(options, model)
        for message, hint in given.notes:
            progress.warn(message, hint)
        needed = needs_design(options, model)
        design = _kept_design(options) if options.port == SIMULATED else None
        with (
            opened_port(options, model, design, progress) as (port, timeout),
            Device.of(model, port, timeout=timeout) as device,
        ):
            if needed and design is None:  # to read it takes a while: a silent board is reported before
                design = _kept_design(options)
            if model.elsewhere:
                from onnx_hw.commands.reference_host import HostByReference

                assert design is not None
                device.model = HostByReference.with_(model, design.network)
            frames = Samples(split_samples(given.arrays, model.batch), given.count * model.batch)
            outputs = stack_outputs(list(device.stream(frames)))
            results, faults = device.results, device.chip.session.faults
            device.close()
            in_c = _check(options, device.model, design, (port, timeout), frames, outputs, results)
        if options.check:
            assert design is not None
            board = design.target.board.name
        timing = None if design is None else _timing(design, model.link, results, faults)
        if options.check and timing is not None:
            require_predicted_cycles(timing)
    except LinkError as error:
        raise link_failure(error, options.port) from error
    ends = [result.ended for result in results]
    return InferResult(
        Outputs(join_batches(outputs, model.batch), given.labels),
        frames.count,
        tuple(result.latency_cycles for result in results if result.latency_cycles is not None),
        tuple((after - before) % (1 << 32) for before, after in pairwise(ends)),
        faults,
        Tried(model.name, board, model.link.digest.hex(), options.port, model.baud),
        options.check,
        timing,
        in_c,
    )


def arguments_of(model: HostModel) -> tuple[Value, ...]:
    """Return the inputs of the model as written, whose samples may be batches of several frames."""
    shapes = [(model.batch, *x.shape[1:]) if model.batch > 1 else x.shape for x in model.inputs]
    return tuple(Value(x.name, _element_type(x.dtype), shape) for x, shape in zip(model.inputs, shapes, strict=True))


def _samples(options: InferOptions, model: HostModel) -> Samples:
    """Return samples in the dtypes and shapes of the model's inputs."""
    values, given = arguments_of(model), options.inputs
    assert given is not None
    if isinstance(given, Path):
        return read_samples(given, values, frames_of_a_sample=model.batch, resize=options.resize)
    samples = check_samples(given, values, frames_of_a_sample=model.batch, source="inputs")
    return samples if options.resize is None else replace(samples, notes=(*samples.notes, WITHOUT_IMAGES))


def link_failure(error: LinkError, port: str) -> UserError:
    """Return the error that a user sees."""
    code = ExitCode.USAGE if isinstance(error, AnotherDesign) else ExitCode.TOOL_FAILED
    hint = NO_BOARD if port != SIMULATED and isinstance(error, NoAnswer | PortFailed) else ""
    return user_error(error.code, str(error), where=port, hint=hint, stage="link", exit_code=code)


def read_host(folder: Path) -> HostModel:
    """Read what a host knows of a build behind a serial line; ``model.json`` alone is enough.

    Raises:
        UserError: the folder is not one of such a build.
        LinkError: the file is of another format.
    """
    try:
        model = HostModel.read(folder)
    except NotOurs:
        if (folder / MODEL).exists() or folder.is_file():
            raise
        raise _refused(folder) from None
    if model.link_kind not in TRANSPORTS or not model.baud:
        raise user_error(
            "no-port",
            f"the build must be for a board with a link; this one is Verilog behind {model.link_kind.upper()}, whose "
            "board and rate `infer` does not know",
            where=str(folder),
            hint="the bench in its folder shell/ sends frames; docs/link.md says how a controller does",
            stage="arguments",
        )
    return model


def _refused(folder: Path) -> UserError:
    """Return the error that says why there is no ``model.json``."""
    from onnx_hw.report.read import REPORT, read_report

    if not (folder / REPORT).is_file():
        hint = hint_for_build_folder(folder, REPORT, "`onnx-hw build MODEL --board ...` makes one")
        return user_error(
            "no-build", "the folder must be that of a build", where=str(folder), hint=hint, stage="arguments"
        )
    report = read_report(folder)
    if _has_link(report):
        hint = "build it again, at least to the stage `assemble`"
        return user_error(
            "no-netlist", "the build must have come to a netlist", where=str(folder), hint=hint, stage="arguments"
        )
    message = f"the build must be for a board with a serial port; `{report.board.name}` has none"
    hint = "`onnx-hw boards` lists those with a UART; `onnx-hw verify` takes samples through this one's simulation"
    return user_error("no-port", message, where=str(folder), hint=hint, stage="arguments")


def _has_link(report: Report) -> bool:
    """Return whether the board of a build has a link; for a board of the user's, as far as the build came to know."""
    import onnx_hw_boards
    from onnx_hw_boards.linked_board import LinkedBoard

    name = report.board.name
    if name not in onnx_hw_boards.names():
        return report.serial is not None
    return isinstance(onnx_hw_boards.board(name), LinkedBoard)


def needs_design(options: InferOptions, model: HostModel) -> bool:
    """Return whether the design of the build is needed: by a simulation, a comparison, or operators on the host.

    Raises:
        UserError: it is needed, and the folder holds one that is not of this ``model.json``.
    """
    computes = options.inputs is not None and bool(model.elsewhere)
    if options.port != SIMULATED and not options.check and not computes:
        return False
    from onnx_hw.report.read import read_report

    if MODEL not in read_report(options.folder).files.values():  # it was built again, and not as far
        raise _refused(options.folder)
    return True


def kept_design(options: InferOptions, model: HostModel) -> Design | None:
    """Return the design of the build, where something needs it; else None.

    Raises:
        UserError: the folder holds none, or one that is not of this ``model.json``.
    """
    return _kept_design(options) if needs_design(options, model) else None


def _kept_design(options: InferOptions) -> Design:
    from onnx_hw.assemble.design_file import read_design

    return read_design(options.folder).design


@contextmanager
def opened_port(
    options: InferOptions, model: HostModel, design: Design | None, progress: Progress
) -> Iterator[tuple[str, float]]:
    """Yield (name of the port, seconds to wait there)."""
    if options.port != SIMULATED:
        yield options.port, TIMEOUT
        return
    from onnx_hw.assemble.design_file import read_design
    from onnx_hw.assemble.netlist import netlist_of
    from onnx_hw.commands.simulated_board import TIMEOUT as SIMULATED_TIMEOUT
    from onnx_hw.commands.simulated_board import require_same_chip, simulated_board, simulated_netlist
    from onnx_hw.runtime.build_folder import BuildFolder

    assert design is not None
    if model.link.load is not None:  # the chip begins with the weights of its bitstream
        design = read_design(options.folder, as_built=True).design
    folder, netlist = BuildFolder(options.folder), netlist_of(design)
    require_same_chip(model, netlist)
    simulated = (
        simulated_netlist(design, folder, progress, netlist)
        if options.engine is SimulationEngine.GATES
        else simulated_board(design, model, folder, progress, netlist)
    )
    with simulated as port:
        yield port, SIMULATED_TIMEOUT


MAX_HOST_FRAMES = 32
"""Number of samples with which the driver's other calls, and the C header, are compared."""


def _check(
    options: InferOptions,
    model: HostModel,
    design: Design | None,
    port: tuple[str, float],
    frames: Samples,
    outputs: Mapping[str, np.ndarray],
    results: Sequence[FrameResult],
) -> CHostCheck | None:
    """Compare outputs with golden, if asked, and on a simulated circuit also what the driver and C do otherwise.

    Args:
        port: its name, and the seconds to wait there.

    Raises:
        UserError: exit code 4, something differs.
    """
    if not options.check:
        return None
    from onnx_hw.ir import golden

    assert design is not None
    _compare(outputs, golden.run(design.network, frames.arrays))
    if options.port != SIMULATED or options.engine is SimulationEngine.GATES:
        return None
    from onnx_hw.commands.c_host import check_c_host
    from onnx_hw.commands.driver_check import require_working_driver
    from onnx_hw.timing.link_times import BehindALink

    few = [frame for frame, _ in zip(frames, range(MAX_HOST_FRAMES), strict=False)]
    require_working_driver(model, *port, few, outputs)
    link = model.link
    latency = BehindALink(design, link).latency if len(link.inputs) == 1 and link.frame_at_once else None
    folder = options.folder / "simulation" / "c_host"
    return check_c_host(folder, model, few, [result.beats for result in results], port[0], latency)


def _compare(outputs: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    """Raise UserError, exit code 4, unless the outputs are golden's."""
    for name, array in wanted.items():
        differ = np.flatnonzero((outputs[name] != array).reshape(len(array), -1).any(axis=1))
        if len(differ):
            raise UserError(
                *user_error(
                    "board-differs",
                    f"the outputs must be golden's; `{name}` differs in {len(differ):,} of {len(array):,} frames",
                    where=f"frame {differ[0]:,}",
                    hint="is the clock's timing met, and the bitstream that of this build? Then please report it",
                    stage="link",
                ).problems,
                exit_code=ExitCode.MISMATCH,
            )


def require_predicted_cycles(timing: LinkTimesCheck) -> None:
    """Raise UserError, exit code 4, unless the cycles of all frames are those of the firing law."""
    if timing.wrong:
        raise user_error(
            "cycles-differ",
            f"frames must take the cycles that the firing law predicts; {timing.difference}",
            hint="is the clock's timing met, and the bitstream that of this build? Then please report it",
            stage="link",
            exit_code=ExitCode.MISMATCH,
        )


MAX_TIMED_FRAMES = 32
"""Number of frames whose cycles are compared with the firing law."""


def _timing(design: Design, link: Link, results: Sequence[FrameResult], faults: Faults) -> LinkTimesCheck | None:
    """Compare the cycles of the frames before the first one that waits for room in the chip's buffer of results."""
    free = list(takewhile(lambda result: not result.waited, results[:MAX_TIMED_FRAMES]))
    if len(link.inputs) > 1 or not free or free[0].began is None or faults != Faults():
        return None
    from onnx_hw.timing.link_times import BehindALink

    return BehindALink(design, link).compare([result.began for result in free], [result.ended for result in free])


def _element_type(dtype: np.dtype) -> str:
    return next(kind.name for kind in BY_NAME.values() if kind.native and kind.dtype == dtype)
