"""``onnx_hw.build``: a model and samples in, a proven bitstream and its report out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onnx_hw.api.check_arguments import check_arguments
from onnx_hw.api.keywords import errors_in_keywords
from onnx_hw.api.model_source import AnyModel, ModelSource, model_source
from onnx_hw.api.notes import warn_of
from onnx_hw.api.quantize import read_source
from onnx_hw.api.quantized_model import QuantizedModel
from onnx_hw.api.receiver import receiver
from onnx_hw.api.requests import GivenSamples, quantize_options, read_options
from onnx_hw.commands.build import Build, clamp_stages
from onnx_hw.commands.build import build as build_in_folder
from onnx_hw.messages.errors import ExitCode, Problem, UserError, user_error
from onnx_hw.runtime.options import (
    DEFAULT_BOARD,
    BuildOptions,
    MemoryChoice,
    OutputKind,
    QuantizeOptions,
    ReadOptions,
    Resize,
    WeightStorage,
    resize_of,
)
from onnx_hw.runtime.progress import Progress
from onnx_hw.runtime.schedule_request import ScheduleRequest, goal_of
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.check_samples import LABELS, check_samples
from onnx_hw.samples.frames import classes_of
from onnx_hw.samples.read_samples import write_samples


@errors_in_keywords()
@check_arguments
def build(
    model: AnyModel | QuantizedModel,
    *,
    board: str | os.PathLike[str] = DEFAULT_BOARD,
    calibration: GivenSamples | None = None,
    random_calibration: bool = False,
    inputs: GivenSamples | None = None,
    resize: Resize | str | None = None,
    out: str | os.PathLike[str] | None = None,
    example_inputs: Any = None,
    bits: int | Mapping[str, int] | None = None,
    precision: str | os.PathLike[str] | None = None,
    sqnr: float | None = None,
    accuracy_loss: float | None = None,
    output_kind: OutputKind | str | None = None,
    multipliers: int | None = None,
    fps: float | None = None,
    latency_us: float | None = None,
    fastest: str = "rate",
    clock_mhz: float | None = None,
    folding: str | os.PathLike[str] | None = None,
    weights: WeightStorage | str = WeightStorage.FIXED,
    memory: MemoryChoice | str = MemoryChoice.NONE,
    stop_after: Stage | str = Stage.UNPACK,
    seed: int = 1,
    witness: bool = True,
    gate_level: bool = True,
    bitstream_check: bool = True,
    waves: bool = False,
    store: str | os.PathLike[str] | None = None,
    cut_at: str | Sequence[str] = (),
    state: Mapping[str, str] | None = None,
    streaming: bool = False,
    dimensions: Mapping[str, int] | None = None,
    strict: bool = False,
    lenient: bool = False,
    newer: bool = False,
    progress: bool | Progress = False,
) -> Build:
    """Build a proven bitstream from a model, with everything that the command ``onnx-hw build`` can be asked for.

    A model and samples in memory are written into the folder of the build, so that ``onnx-hw verify`` and
    ``onnx-hw infer`` find them there.

    Args:
        model: path of an ONNX file, its bytes, an ``onnx.ModelProto``, a ``torch.nn.Module``, or what
            ``onnx_hw.quantize`` returned, which is built with the samples and options that it was made with.
        board: name of a board or chip (``onnx-hw boards``), or a file of your own that ends in ``.py``.
        calibration: samples like the data, for the ranges of a float model: arrays by graph input, or the array of the
            only input, or a path (an npz file or a folder).
        random_calibration: whether a float model without samples is built with scales from random numbers, to see
            what it takes; its outputs have no meaning.
        inputs: samples to prove with, in the same forms. Under the key ``labels`` they may have their right classes;
            then ``report.accuracy`` states accuracies.
        resize: how images in files get the input's size: ``"stretch"``, or ``"crop"`` for their middle part; None for
            what ``samples.toml`` next to them says.
        out: folder for everything written; None for ``<graph name>-<board>`` in the current folder.
        example_inputs: for a torch module: a tensor or an array of the shape of one frame, a tuple of them, or a
            dictionary of them by argument of ``forward``.
        bits: bits of all integers, 1 to 16, or ``{"weights": 4, "data": 8}``; None for 8.
        precision: TOML file with the bits of single layers and values.
        sqnr: signal-to-noise ratio in dB that the cheapest bits are to reach on the samples, instead of ``bits``.
        accuracy_loss: percentage points of accuracy that the cheapest bits may lose on the samples, instead of
            ``bits``.
        output_kind: outputs of the hardware for a float model, ``"accumulators"`` (the default) or ``"int8"``.
        multipliers: largest number of multiply-accumulates in a cycle; None for what the chip has.
        fps: frames per second that the cheapest design is to do; None for the fastest design.
        latency_us: microseconds within which the cheapest design is to give the result of a single frame.
        fastest: ``"rate"`` for the design of the highest rate, ``"latency"`` for that of the least latency.
        clock_mhz: clock to reach, in MHz, instead of the board's own.
        folding: TOML file with the lanes of every core, such as ``folding.toml`` of another build.
        weights: ``"loadable"`` for weights in memories that ``onnx-hw update`` fills with those of a retrained model.
        memory: ``"flash"`` or ``"sdram"`` for weights that come from this memory of the board, where each is used once
            a frame; ``"auto"`` for those that do not fit on the chip.
        stop_after: last stage to run, such as ``"schedule"``.
        seed: seed of the placer.
        witness: whether onnxruntime runs the model, too, where it is installed.
        gate_level: whether the netlist of the chip is simulated, too.
        bitstream_check: whether the bitstream is unpacked again, and compared.
        waves: whether the circuit's first cycles are written as a waveform.
        store: folder of results that builds share; None for the user's.
        cut_at: names of tensors that become the outputs: only the part of the model that they need is built. A text may
            hold several names, with commas between them.
        state: outputs by input: what such an output holds in a frame is the input of the next frame, and both are no
            longer given and returned. The first frame gets zeros, or the number behind ``=`` in ``{"h": "hn=0.5"}``.
        streaming: whether the network of a whole sequence becomes one that takes a hop of it per sample; the samples
            are then hops in their order.
        dimensions: sizes for symbolic dimensions, by name.
        strict: refuse what the ONNX specification only advises against.
        lenient: accept faults of known exporters.
        newer: try versions of ONNX that are newer than onnx-hw, too.
        progress: True for a line on standard error for each stage, as the command prints it, or an object that
            receives the progress. By default nothing is printed, and warnings are Python's.

    Returns:
        The files and the report; also the network, the design and the bitstream, as far as the stages came.

    Raises:
        UserError: anything that prevents the build. If a stage fails, ``report.json`` in the folder says how far it
            came; a program that is missing or fails is a ``UserError``, too, and so is a clock or a rate that was
            asked for and is missed.
    """
    reading = read_options(cut_at, dimensions, state, streaming=streaming, strict=strict, lenient=lenient, newer=newer)
    quantizing = quantize_options(bits, precision, sqnr, accuracy_loss, output_kind)
    if isinstance(model, QuantizedModel):
        _refuse_twice(quantizing, reading, calibration, example_inputs)
        resize = resize or model.resize
        source, calibration, quantizing, reading = model.source, model.calibration, model.quantizing, model.reading
    else:
        source = model_source(model, example_inputs)
    options = BuildOptions(
        model=source.path or Path(f"{source.name}.onnx"),
        board=os.fspath(board),
        resize=resize_of(resize),
        out=None if out is None else Path(out),
        folding=None if folding is None else Path(folding),
        scheduling=ScheduleRequest(
            multipliers=multipliers, fps=fps, latency_us=latency_us, fastest=goal_of(fastest), clock_mhz=clock_mhz
        ),
        weights=weights,  # type: ignore[arg-type]  # may be a text, too
        memory=memory,  # type: ignore[arg-type]
        stop_after=stop_after,  # type: ignore[arg-type]  # may be a text; an unknown one is refused there
        reading=reading,
        quantizing=quantizing,
        witness=witness,
        gate_level=gate_level,
        bitstream_check=bitstream_check,
        seed=seed,
        store=None if store is None else Path(store),
        waves=waves,
        random_calibration=random_calibration,
    )
    with material(clamp_stages(options), source, inputs=inputs, calibration=calibration) as options:
        built = build_in_folder(options, receiver(progress, options.stages))
    if built.exit_code is ExitCode.DOES_NOT_FIT:
        raise _missed(built)
    return built


@contextmanager
def material(options: BuildOptions, source: ModelSource, **samples: GivenSamples | None) -> Iterator[BuildOptions]:
    """Give the options of a build whose model and samples are files; those in memory are written into its folder.

    A model or samples that are refused leave no new folder. ``samples`` are by the name of their option.

    Raises:
        UserError: faults of the model or the samples; the folder cannot be written.
    """
    arrays = {name: given for name, given in samples.items() if not isinstance(given, str | os.PathLike | None)}
    paths = {name: Path(given) for name, given in samples.items() if isinstance(given, str | os.PathLike)}
    if source.path is not None and not arrays:
        yield options.but(**paths)
        return
    folder, is_new = options.folder, not options.folder.exists()
    checked = _checked(source, options.reading, arrays) if arrays else {}
    try:
        options = options.but(model=source.in_folder(folder), out=folder)
        for name, stored in checked.items():
            folder.mkdir(parents=True, exist_ok=True)
            paths[name] = folder / f"{name}.npz"
            write_samples(paths[name], stored)
        yield options.but(**paths)
    except BaseException:
        if is_new and not (folder / "report.json").exists():
            with suppress(OSError):
                shutil.rmtree(folder)
        raise


def _checked(source: ModelSource, reading: ReadOptions, arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return samples in the dtypes and shapes of the model's inputs, with their labels, by option and name."""
    model = read_source(source, reading)
    classes = classes_of(model.frame.model) or None
    checked: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for name, given in arrays.items():
        try:
            samples = check_samples(
                given, model.frame_inputs, frames_of_a_sample=model.frame.batch, classes=classes, source=name
            )
        except UserError as error:
            problems.extend(error.problems)
            continue
        warn_of(samples.notes)
        checked[name] = {**samples.arrays, **({} if samples.labels is None else {LABELS: samples.labels})}
    if problems:
        raise UserError(*problems)
    return checked


def _refuse_twice(quantizing: QuantizeOptions, reading: ReadOptions, calibration: Any, example_inputs: Any) -> None:
    """Raise ``UserError`` for options that a quantized model was made with already."""
    if (quantizing, reading) == (QuantizeOptions(), ReadOptions()) and calibration is None and example_inputs is None:
        return
    raise user_error(
        "argument",
        "a quantized model is built as it was quantized: calibration, bits and options of reading belong to it",
        hint="give them to onnx_hw.quantize, or build the model that was quantized",
        stage="arguments",
    )


def _missed(built: Build) -> UserError:
    """Return the error that a clock or a rate is missed that was asked for."""
    synthesis = built.report.synthesis
    assert synthesis is not None and synthesis.fmax_mhz is not None and synthesis.target_mhz is not None
    return user_error(
        "clock-missed",
        f"the circuit must reach {synthesis.target_mhz:g} MHz, and reaches {synthesis.fmax_mhz:.1f} MHz",
        where=str(built.folder / "report.json"),
        hint=f"clock_mhz={int(synthesis.fmax_mhz)}, a smaller fps, or another seed",
        stage="route",
        exit_code=ExitCode.DOES_NOT_FIT,
    )
