"""Report of a build: its options, its results, and what was proven about them.

These dataclasses are ``report.json``; its schema and its description in ``docs/`` are generated from them
(``onnx_hw.report.json_schema``). A section is None when the build ended before the stage that fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from onnx_hw.messages.html import figures, render_value
from onnx_hw.messages.text import printable, to_json
from onnx_hw.prove.circuit.vector_coverage import DirectedVectorCoverage
from onnx_hw.report.accuracy import Accuracy
from onnx_hw.report.build_request import BuildRequest, plain
from onnx_hw.report.losses import Loss
from onnx_hw.report.memory_map import MemorySection
from onnx_hw.report.netlist_sections import ChipActivity, Synthesis
from onnx_hw.report.proof_chain import ChainLinks, Failure
from onnx_hw.report.timeline import Timeline
from onnx_hw.report.value_statistics import ValueStatistics


@dataclass(frozen=True)
class ModelSection:
    """Model, as read."""

    name: Annotated[str, "the file's name without its suffix"]
    macs: Annotated[int, "multiply-accumulates of one frame"]
    parameters: Annotated[int, "weights and biases"]
    notes: Annotated[
        tuple[str, ...], "assumptions of the reader, and parts of the file that it ignored, one sentence each"
    ] = ()


@dataclass(frozen=True)
class BoardSection:
    """Board to build for."""

    name: Annotated[str, "name of the board"]
    device: Annotated[str, "the chip, with its package and speed"]
    lut4: Annotated[int, "number of its four-input look-up tables"]
    ff: Annotated[int, "number of its flip-flops"]
    dsp: Annotated[int, "number of its hardware multipliers"]
    bram: Annotated[int, "number of its block RAMs"]
    logic_cells: Annotated[
        int, "number of its logic cells, each with a look-up table and a flip-flop; 0 where these are apart"
    ] = 0


@dataclass(frozen=True)
class Serial:
    """Link between the board and its host: a UART or SPI."""

    baud: Annotated[int, "bits per second on the wire; one byte takes ten bits of a UART, eight of SPI"]
    bytes_in: Annotated[int, "bytes of a frame to the board"]
    bytes_out: Annotated[int, "bytes of a frame from the board"]
    frames_per_second: Annotated[float, "frames per second that the link carries, with the framing of its packets"]
    limit: Annotated[str, "the limit of the frames per second: `link` or `circuit`"]
    delivered_frames_per_second: Annotated[
        float, "frames per second that a user gets from the board: the smaller one of the link's and the circuit's"
    ]


@dataclass(frozen=True)
class LoopSection:
    """Loop of a loop nest over the elements of an array."""

    turns: Annotated[int, "number of iterations"]
    step: Annotated[int, "distance in the flat array between two iterations, in elements"]


@dataclass(frozen=True)
class PortSection:
    """Graph input or output as a stream of the circuit."""

    name: Annotated[str, "the ONNX value whose integers the stream carries"]
    direction: Annotated[str, "`input` or `output`"]
    shape: Annotated[tuple[int, ...], "the value's shape in the model"]
    dtype: Annotated[str, "integer type on the stream: `i8` is signed with 8 bits, `u4` is unsigned with 4 bits"]
    layout: Annotated[
        str, "axes of the model's shape from the slowest to the fastest on the stream, such as `0,2,3,1`; or `permuted`"
    ]
    loops: Annotated[
        tuple[LoopSection, ...],
        "exact order of the stream, over the flat value, outermost loop first; empty if it is not a loop nest; "
        "then `files.orders` lists, by stream and value, the index of every element in the flat value",
    ]
    channels: Annotated[int, "elements of a pixel; after them a new beat begins"]
    scale: Annotated[
        tuple[float, ...], "real = scale × (integer − zero point); one entry, one per channel, or none where unknown"
    ]
    zero_point: Annotated[tuple[int | float, ...], "see scale; integers if they come from the ONNX model"]
    stream: Annotated[
        str, "the stream's name in the circuit; an input may enter on several streams, several outputs may leave on one"
    ]
    lanes: Annotated[int, "integers per beat"]
    beats_per_frame: Annotated[int, "beats of one frame"]
    tensor: Annotated[str, "the tensor of the circuit that the stream carries"] = ""


@dataclass(frozen=True)
class QuantizedTensor:
    """Integers of one tensor, and the real numbers that they represent."""

    name: Annotated[str, "the tensor's name"]
    bits: Annotated[int, "width of its integers"]
    signed: Annotated[bool, "whether they have a sign"]
    scale: Annotated[
        tuple[float, ...], "real = scale × (integer − zero point); one entry, one per channel, or none where unknown"
    ]
    zero_point: Annotated[tuple[int | float, ...], "see scale; integers if they come from the ONNX model"]
    seen: Annotated[ValueStatistics | None, "statistics of its values for the samples; null without samples"] = None
    sqnr_db: Annotated[float | None, "signal to noise against the float model, dB; null where that is unknown"] = None


@dataclass(frozen=True)
class Quantization:
    """Integers that the circuit computes with."""

    tensors: Annotated[tuple[QuantizedTensor, ...], "every tensor between two cores"]


@dataclass(frozen=True)
class OutputFidelity:
    """Graph output of golden compared with the model's, both computed from the same samples."""

    name: Annotated[str, "name of the output"]
    values: Annotated[int, "how many numbers were compared"]
    equal: Annotated[int, "how many of them are the same"]
    worst: Annotated[float, "the largest difference, in the output's own numbers"]
    sqnr_db: Annotated[float | None, "signal to noise, dB; null where nothing differs"]


@dataclass(frozen=True)
class TensorFidelity:
    """Numbers that a tensor's integers represent, compared with those of the float model."""

    name: Annotated[str, "the value's name in the model"]
    sqnr_db: Annotated[float | None, "signal to noise, dB; null where nothing differs"]


@dataclass(frozen=True)
class FloatModel:
    """Golden compared with the float model that was quantized: what quantization costs."""

    outputs: Annotated[tuple[OutputFidelity, ...], "every graph output of numbers"]
    tensors: Annotated[tuple[TensorFidelity, ...], "the ten with the least signal to noise ratio, the worst first"]
    losses: Annotated[tuple[Loss, ...], "the ten that add most noise to the outputs; empty for a large model"] = ()


@dataclass(frozen=True)
class Reference:
    """Golden compared with the reference of the (quantized) model, tensor by tensor from the same integers."""

    frames: Annotated[int, "frames compared, from samples or drawn at random; 0 where none could be drawn"]
    tensors_compared: Annotated[int, "number of the model's values that golden has too"]
    values_compared: Annotated[int, "numbers in these values, in all frames"]
    equal: Annotated[int, "numbers that are the same; the last bits of floats do not count"]
    one_step: Annotated[int, "integers that differ by 1, where the real value is within 1/1000 step of a tie"]
    worst: Annotated[int, "the largest difference of two integers"]
    outputs: Annotated[
        tuple[OutputFidelity, ...], "golden and the model, each computed from the samples to the outputs"
    ]
    float_model: Annotated[FloatModel | None, "only where the model had floats"] = None


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of the circuit, by what they are made of."""

    dsp: Annotated[int, "hardware multipliers for multiply-accumulates"]
    lut: Annotated[int, "multipliers for multiply-accumulates built of look-up tables"]


@dataclass(frozen=True)
class CoreSection:
    """Core of the circuit; costs are estimates."""

    name: Annotated[str, "name of the node"]
    operator: Annotated[str, "hardware operator"]
    folding: Annotated[Mapping[str, int], "the folding, by the operator's own names: lanes of its streams, steps ..."]
    lanes: Annotated[int, "multiply-accumulates per cycle"]
    cycles: Annotated[
        int, "clock cycles that it needs for a frame; the largest number of all cores bounds the interval"
    ]
    dsp: Annotated[int, "hardware multipliers, including those that scale"]
    lut: Annotated[int, "look-up tables"]
    bram: Annotated[int, "block RAMs"]
    ff: Annotated[int, "flip-flops"]
    multiplier: Annotated[
        str | None, "kind of its multipliers; null for the chip's own multipliers, or if it has no products"
    ] = None
    inputs: Annotated[tuple[str, ...], "tensors that it reads: edges, or inputs of the circuit"] = ()
    outputs: Annotated[tuple[str, ...], "tensors that it produces"] = ()
    origin: Annotated[tuple[str, ...], "the ONNX nodes that it implements"] = ()
    module: Annotated[str, "its module in the circuit"] = ""
    memory_bytes: Annotated[
        int, "bytes of its weights that come in a frame from outside the chip; 0 where they are on it"
    ] = 0


@dataclass(frozen=True)
class Fifo:
    """FIFO at the end of one edge; depths are in beats."""

    edge: Annotated[str, "name of the edge's tensor"]
    depth: Annotated[int, "greatest number of beats in it"]
    live_depth: Annotated[int, "least depth without deadlock"]
    rate_depth: Annotated[int, "least depth at which the interval does not grow"]
    lut: Annotated[int, "look-up tables, estimated"]
    bram: Annotated[int, "block RAMs, estimated"]
    ff: Annotated[int, "flip-flops, estimated"]
    max_fill: Annotated[int | None, "greatest number of beats in it during the simulation"] = None
    lanes: Annotated[int, "integers per beat"] = 1
    dtype: Annotated[str, "their type: `i8` is signed with 8 bits, `u4` is unsigned with 4 bits"] = ""
    beats_per_frame: Annotated[int, "beats of one frame"] = 0


@dataclass(frozen=True)
class Host:
    """Part of the model that stays outside the circuit."""

    head: Annotated[tuple[str, ...], "ONNX nodes before the circuit, as `operator name`"]
    tail: Annotated[tuple[str, ...], "ONNX nodes after the circuit"]
    macs_in_hardware: Annotated[
        float | None,
        "share of the model's multiply-accumulates that the circuit computes, 0..1; null where the model has none",
    ]


@dataclass(frozen=True)
class StateLoopSection:
    """Loop of the circuit: a state that returns from one step to the next."""

    nodes: Annotated[tuple[str, ...], "names of the cores on it, in the order of the data"]
    steps: Annotated[int, "steps of a frame"]
    step_cycles: Annotated[int, "clock cycles from one step to the next"]
    frame_cycles: Annotated[int, "clock cycles from one frame to the next, which no design with these cores can beat"]

    def __str__(self) -> str:
        if self.steps == 1:
            return f"the loop of {self.step_cycles:,} cycles a frame"
        return f"the loop of {self.step_cycles:,} cycles a step × {self.steps:,} steps"


@dataclass(frozen=True)
class ChipEstimate:
    """Estimated resources of the whole chip: cores, FIFOs, and what a board's link needs."""

    lut4: Annotated[int, "four-input look-up tables"]
    ff: Annotated[int, "flip-flops"]
    dsp: Annotated[int, "hardware multipliers"]
    bram: Annotated[int, "block RAMs"]
    logic_cells: Annotated[int, "logic cells, where a look-up table and a flip-flop share one; else 0"]


@dataclass(frozen=True)
class DesignSection:
    """Circuit as planned, before any tool ran; cycles are predicted."""

    clock_mhz: Annotated[float, "target clock of the build, MHz"]
    macs: Annotated[int, "multiply-accumulates of one frame in the circuit"]
    lanes: Annotated[int, "greatest number of multiply-accumulates per cycle in the circuit"]
    multipliers: Annotated[Multipliers, "kinds of the lanes' multipliers"]
    mac_efficiency: Annotated[float, "macs / (lanes × interval_cycles), 0..1"]
    interval_cycles: Annotated[int, "clock cycles from one frame to the next"]
    latency_cycles: Annotated[int, "clock cycles from the first input beat to the last output beat of one frame"]
    frames_per_second: Annotated[float, "frames per second at that interval and clock"]
    frames_per_second_asked: Annotated[float | None, "frames per second that were asked for; null without a request"]
    nodes: Annotated[tuple[CoreSection, ...], "every core, in the order of the data"]
    fifos: Annotated[tuple[Fifo, ...], "every edge"]
    loops: Annotated[tuple[StateLoopSection, ...], "loops of the circuit; the slowest may set the interval"]
    host: Annotated[Host, "the part of the model that the circuit does not compute"]
    estimate: Annotated[ChipEstimate, "resources of the whole chip, estimated"]

    memory_cycles: Annotated[int, "cycles that the weights of a frame take from outside the chip; 0 without any"] = 0

    @property
    def bottleneck(self) -> CoreSection:
        """Core that sets the interval; the first of them where several do."""
        return max(self.nodes, key=lambda core: core.cycles)

    @property
    def pacing_core(self) -> CoreSection | None:
        """The same core; None where the weights from outside take longer."""
        return self.bottleneck if self.bottleneck.cycles >= self.memory_cycles else None

    @property
    def slowest_loop(self) -> StateLoopSection | None:
        """Loop that sets the interval; None where a core does."""
        slowest = max(self.loops, key=lambda loop: loop.frame_cycles, default=None)
        return slowest if slowest is not None and slowest.frame_cycles > self.bottleneck.cycles else None


@dataclass(frozen=True)
class SearchSection:
    """Bounds of the search for foldings; there is no search where foldings or a rate were given."""

    lanes_allowed: Annotated[int | None, "greatest number of lanes, from --multipliers; null without it"]
    lanes_unused: Annotated[
        str, "why the design has fewer lanes than allowed; empty where it has all, or there is no limit"
    ]
    interval_bound_cycles: Annotated[
        int,
        "least clock cycles a frame of any design with the lanes and multipliers allowed, and these cuts of products",
    ]


@dataclass(frozen=True)
class Simulation:
    """Comparison of the circuit with its two models, golden (values) and timing (cycles)."""

    engine: Annotated[str, "simulator of the circuit"]
    frames: Annotated[int, "number of frames, sent without pauses between them"]
    edges_compared: Annotated[int, "number of streams, of which every value was compared"]
    values_compared: Annotated[int, "integers compared with golden"]
    mismatches: Annotated[int, "integers that differed"]
    firings_compared: Annotated[int, "firing cycles compared with the predicted ones"]
    firing_mismatches: Annotated[int, "firing cycles that differed"]
    interval_cycles: Annotated[int, "measured clock cycles from one frame to the next"]
    latency_cycles: Annotated[int, "measured clock cycles from the first input beat to the last output beat of a frame"]
    stalls: Annotated[int, "further runs, with stalls at every input and output; the numbers above include them"]


@dataclass(frozen=True, repr=False)
class Report:
    """Report of a build."""

    model: Annotated[ModelSection, "the model"]
    board: Annotated[BoardSection, "the board"]
    links: Annotated[ChainLinks, "the links of the proof, from the model to the chip"] = field(
        default_factory=ChainLinks
    )
    failure: Annotated[Failure | None, "reason why the build ended early; null if it did not"] = None
    asked: Annotated[BuildRequest | None, "the options of the build"] = None
    io: Annotated[tuple[PortSection, ...], "streams into the circuit, then those out of it"] = ()
    quantization: Annotated[Quantization | None, "the integers of the circuit"] = None
    reference: Annotated[Reference | None, "golden compared with the model"] = None
    accuracy: Annotated[Accuracy | None, "only where labels were given"] = None
    design: Annotated[DesignSection | None, "the circuit as planned"] = None
    timeline: Annotated[Timeline | None, "activity of the cores over time; null if frames are too long for it"] = None
    serial: Annotated[Serial | None, "the link to the host; null on a bare chip"] = None
    search: Annotated[
        SearchSection | None, "bounds of the search for foldings; null if foldings or a rate were given"
    ] = None
    simulation: Annotated[Simulation | None, "the circuit compared with golden and the timing"] = None
    reached: Annotated[
        DirectedVectorCoverage | None,
        "coverage of cores that compute by directed vectors; null without such cores",
    ] = None
    synthesis: Annotated[Synthesis | None, "results of synthesis and routing"] = None
    memories: Annotated[
        tuple[MemorySection, ...], "memories that lie in block RAMs, in the order of the data; empty before synthesis"
    ] = ()
    activity: Annotated[ChipActivity | None, "changes of nets, core by core; null if the netlist was not simulated"] = (
        None
    )
    warnings: Annotated[tuple[str, ...], "warnings that the user should act upon"] = ()
    cached: Annotated[tuple[str, ...], "stages whose result came from the store, made by an earlier identical run"] = ()
    digest: Annotated[str, "SHA-256 of everything the bitstream depends on; empty before assembly"] = ""
    bitstream_sha256: Annotated[str, "SHA-256 of the bitstream; empty before packing"] = ""
    tape_sha256: Annotated[str, "SHA-256 of the weights outside the chip; empty without any"] = ""
    files: Annotated[Mapping[str, str], "files of the build: kind to path, relative to the report"] = field(
        default_factory=dict
    )
    seconds: Annotated[Mapping[str, float], "stage to its duration in seconds"] = field(default_factory=dict)
    tools: Annotated[Mapping[str, str], "program to its version"] = field(default_factory=dict)

    @property
    def running_mhz(self) -> float | None:
        """Clock at which the circuit runs, MHz: of a bare chip the one that routing reached, of a board its own.

        Before routing, and for Verilog, it is the clock that was asked for; None before a design.
        """
        reached = self.synthesis.fmax_mhz if self.synthesis is not None and self.serial is None else None
        return reached or (self.design.clock_mhz if self.design is not None else None)

    @property
    def running_frames_per_second(self) -> float | None:
        """Frames per second of the circuit at ``running_mhz``; None before a design."""
        if self.design is None or self.running_mhz is None:
            return None
        return self.design.frames_per_second * self.running_mhz / self.design.clock_mhz

    def _facts(self) -> dict[str, str]:
        """Return what a build is asked about first, by name, as far as it is known."""
        facts = {"model": self.model.name, "board": self.board.name}
        if self.accuracy is not None:
            accuracy = self.accuracy
            facts["accuracy"] = (
                f"{accuracy.golden:.2%} of {accuracy.samples:,} samples, the model {accuracy.reference:.2%}"
            )
        if self.design is not None:
            limits = [self.running_frames_per_second or 0.0, *([self.serial.frames_per_second] if self.serial else [])]
            facts["speed"] = f"{figures(min(limits), 3)} frames a second"
        if self.synthesis is not None:
            clock = "" if self.synthesis.fmax_mhz is None else f", {self.synthesis.fmax_mhz:.1f} MHz"
            facts["chip"] = f"{self.synthesis.lut4:,} look-up tables{clock}"
        if self.failure is not None:
            facts["failed in"] = self.failure.stage
        return facts

    def __repr__(self) -> str:
        return printable(f"Report({', '.join(f'{name}: {fact}' for name, fact in self._facts().items())})")

    def _repr_html_(self) -> str:
        return render_value(f"Report of {self.model.name}", self._facts())

    def to_json(self) -> str:
        """Return the text of ``report.json``: keys in the order of this file, NaN and infinities refused."""
        return to_json(plain(self))

    def write(self, path: Path) -> None:
        """Write ``report.json`` (UTF-8)."""
        path.write_text(self.to_json(), encoding="utf-8")
