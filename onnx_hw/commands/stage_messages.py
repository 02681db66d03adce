"""Messages of a build's stages: facts for the terminal, and warnings with a hint, made of the results."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from onnx_hw.implement.route import RouteResult
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import NetworkNode
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.html import frame_rate
from onnx_hw.messages.text import short
from onnx_hw.onnx.canonicalize.decompose_dynamic_quantization import count_dynamic_scales
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.circuit.gate_level import NotSimulated
from onnx_hw.quantization.complete import BY_BOUNDS
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import sqnr_of_blockwise_weights
from onnx_hw.quantization.quantize import Quantized
from onnx_hw.quantization.scheme import DEFAULT, Scheme
from onnx_hw.report.collect.sections import describe_serial
from onnx_hw.report.model import DesignSection
from onnx_hw.runtime.schedule_request import ScheduleRequest

Warned = tuple[str, str]
"""Message and hint of a warning."""

_REPORT_IT = "please report it with the model"

MAX_NAMED = 5
"""Greatest number of operators that a warning names."""

NO_WAVES: Warned = ("no waveform was written", "it takes a C++ compiler and Verilator: `onnx-hw doctor`")


class ScaleOrigin(Enum):
    """Origin of the scales of a float model, or of one that lacks some."""

    SAMPLES = "calibrated with {} samples"
    RANDOM = "scales of random numbers"
    ASSUMED = "scales assumed"


def samples_missing(model: Model, design: Design | None = None) -> UserError:
    """Return the error of a float model without samples; with the figures of its design, whose scales are assumed."""
    count = count_dynamic_scales(model)
    why = f"{count} of its scales are chosen for each sample anew, and" if count else "it is a float model, and"
    message = f"`{model.name}` must come with samples: {why} hardware needs fixed scales"
    if design is not None:
        serial = describe_serial(design)
        rate = design.frames_per_second if serial is None else min(serial.frames_per_second, design.frames_per_second)
        fits = f"It fits `{design.target.board.name}`: {design.interval:,} cycles a frame, about {frame_rate(rate)}"
        message = f"{message}. {fits}"
    arrays = ", ".join(f"{value.name}=..." for value in model.frame_inputs if value.name.isidentifier())
    example = f'; np.savez("samples.npz", {arrays}) writes them' if arrays else ""
    return user_error(
        "scales-of-samples" if count else "calibration-missing",
        message,
        where="--calibration",
        hint=f"--calibration samples.npz with samples like the data{example}. --random-calibration goes on without, "
        "with outputs that mean nothing",
        stage="quantize",
    )


def goal_without_samples(model: Model) -> UserError:
    """Return the error of a search for bit widths that has nothing to judge them by."""
    return user_error(
        "calibration-missing",
        f"--sqnr and --accuracy-loss are judged by samples, and `{model.name}` comes without",
        where="--calibration",
        hint="give samples like the data with --calibration, or the widths with --bits",
        stage="quantize",
    )


def fixed_constants(nodes: list[NetworkNode]) -> Iterator[Warned]:
    """Yield the warning that some constants cannot be loaded, if there are any."""
    if nodes:
        names = ", ".join(short(node.origin[0] if node.origin else node.name) for node in nodes[:MAX_NAMED])
        rest = f" and {len(nodes) - MAX_NAMED:,} more" if len(nodes) > MAX_NAMED else ""
        yield (
            f"constants that follow from scales stay fixed in {len(nodes):,} operators: {names}{rest}",
            "a retrained model must give them the same constants; `onnx-hw update` says where it does not",
        )


def another_circuit(built: str, made: str) -> UserError:
    """Return the error of an update whose circuit is not that of the build; the digests of both tell them apart."""
    return user_error(
        "another-circuit",
        f"the model must have the circuit that was built, {built[:16]}; with its own constants it has {made[:16]}",
        hint="build this model: `onnx-hw build MODEL --weights loadable`",
        stage="assemble",
    )


def search_for_widths_warning(error: UserError, board: str) -> Warned:
    """Return the warning that a model is too large, before the search for widths that fit, which may take a minute."""
    return f"too large for `{board}`: {error.problems[0].message}", "the search for integers that fit goes on"


def quantization_warnings(
    model: Model, quantized: Quantized, scheme: Scheme | None, *, calibrated: bool
) -> Iterator[Warned]:
    """Yield what a user should know of the integers chosen for a model of one frame, calibrated with samples or not."""
    if quantized.chosen and quantized.brings:
        values = ", ".join(f"{short(name)} ({reason})" for name, reason in quantized.chosen.items())
        bounded = any(reason.endswith(BY_BOUNDS) for reason in quantized.chosen.values())
        origin = "follow from the model's integers; --calibration gives others" if bounded else "come from the samples"
        yield f"hardware needs integers for {values}", f"their scales {origin}"
    elif count := count_dynamic_scales(model):
        message = f"{count} scales, which the model chooses for each sample anew, are now fixed to those of the samples"
        yield message, "give samples like the data with --calibration"
    elif calibrated and quantized.brings:
        yield "the model brings its scales: --calibration has no effect", "leave it out"
    if losses := sqnr_of_blockwise_weights(model, (scheme or DEFAULT).weights):
        message = f"the weights of {len(losses)} nodes are in blocks whose scales have no common step"
        worst = f"{min(losses.values()):.0f} dB where they lose most"
        yield f"{message}: they get new integers, {worst}", "--bits weights=12 loses less"
    if unsure := [name for name, span in quantized.ranges.items() if span.saturation > span.rounding]:
        message = f"{len(unsure)} of {len(quantized.ranges)} values are expected to lose more to saturation than to"
        hint = "give more samples with --calibration, like the data"
        yield f"{message} rounding, {short(unsure[0])} first", hint


def quantization_fact(quantized: Quantized, samples: int, origin: ScaleOrigin) -> str:
    """Return bits, operators, and the origin of the scales: ``samples`` of calibration, or where the model has none."""
    network = quantized.network
    bits = min(tensor.dtype.bits for tensor in network.tensors.values() if tensor.dtype.bits <= 16)
    calibrated = "" if quantized.brings else f"; {origin.value.format(samples)}"
    searched = "" if quantized.widths is None else f", {quantized.widths}"
    return f"int{bits} data, {len(network.nodes)} operators{calibrated}{searched}"


def schedule_warnings(design: Design, planned: DesignSection, excess: str) -> Iterator[Warned]:
    """Yield what a user should know of a design; ``excess`` is what it takes beyond a comfortable share, or empty."""
    if excess:
        yield f"the chip is fuller than is comfortable: {excess}", "routing may take long, or miss the clock"
    if planned.interval_cycles > design.interval:
        slow = f"{planned.interval_cycles:,} cycles a frame instead of {design.interval:,}"
        yield f"FIFOs are too shallow for full rate: {slow}", "larger depths under [fifo], or none there"


def schedule_fact(planned: DesignSection, design: Design, unused: str, above: str) -> str:
    """Return cores, lanes and cycles, why lanes are unused, and how far the interval is above its bound; and what comes
    from a memory outside the chip.
    """
    slowest = planned.slowest_loop or short(planned.bottleneck.name)
    if design.tape_cycles == design.interval:
        slowest = "the memory"
    return (
        f"{len(planned.nodes)} cores, {planned.lanes} lanes{unused}, {planned.interval_cycles:,} cycles a frame "
        f"({planned.mac_efficiency:.0%} busy{above}); {slowest} sets the pace{_memory_fact(design)}"
    )


def _memory_fact(design: Design) -> str:
    """Return how much of a memory's rate a design takes; an empty text without one."""
    board = design.target.board
    memory = board.memory if design.sdram is None else board.sdram
    if design.reader is None or memory is None:
        return ""
    rate, peak = design.frames_per_second, memory.peak_bytes_a_second(design.clock_mhz)
    taken, layers = design.tape_bytes * rate, len(design.taped_ports())
    return (
        f"; memory: {layers} layer{'s' * (layers > 1)}, {design.tape_bytes / 1e3:,.1f} kB × {rate:,.1f}/s = "
        f"{taken / 1e6:.2f} of {peak / 1e6:.2f} MB/s"
    )


def netlist_warning(error: NotSimulated) -> Warned:
    """Return the warning that the chip's netlist was not simulated."""
    return f"link 4 is open, the netlist was not simulated: {error}", _REPORT_IT


def bitstream_warning(why: str) -> Warned:
    """Return the warning that the bitstream is not proven."""
    return f"link 5 is open, the bitstream is not proven: {why}", _REPORT_IT


def bitstream_fact(file: Path) -> str:
    """Return the name and the size of a bitstream."""
    return f"{file.name}, {file.stat().st_size:,} bytes"


def route_warnings(routed: RouteResult, design: Design, request: ScheduleRequest) -> Iterator[Warned]:
    """Yield the warning that the clock is missed."""
    if routed.timing_met:
        return
    rate = "" if request.wants_fastest else f", hence {routed.fmax_mhz * 1e6 / design.interval:,.1f} frames a second"
    yield (
        f"the circuit reaches {routed.fmax_mhz:.1f} MHz, not {routed.target_mhz:g} MHz{rate}",
        f"run it at {int(routed.fmax_mhz)} MHz, or use fewer lanes (--multipliers)",
    )
