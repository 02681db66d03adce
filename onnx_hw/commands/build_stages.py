"""A build under way: what its stages made so far, and what they said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.design_file import write_design
from onnx_hw.assemble.elaborate import NamedCircuit, bench_circuit
from onnx_hw.assemble.netlist import Netlist, require_way_to_load
from onnx_hw.assemble.network_file import write_network
from onnx_hw.assemble.self_test_file import write_self_test
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.commands import stage_messages
from onnx_hw.commands.early_fit import refuse_too_large, refuse_too_many_weights, with_widths_that_fit
from onnx_hw.commands.figure_check import different_figures, figure_error
from onnx_hw.commands.host_check import write_checked_host
from onnx_hw.commands.stage_functions import STAGE_FUNCTIONS, StageFunctions
from onnx_hw.commands.stage_messages import ScaleOrigin
from onnx_hw.commands.weights_outside import with_weights_outside, write_checked_tape
from onnx_hw.export.shells import write_shell
from onnx_hw.implement.check_fit import check_fit
from onnx_hw.implement.route import BITSTREAM, RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import streamed_in
from onnx_hw.ir.network import Network
from onnx_hw.lower.declare_loadable import declare_like, declare_loadable, nodes_with_fixed_constants
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.messages.text import file_name
from onnx_hw.onnx.graph.model import Model, Value
from onnx_hw.prove.circuit import prove as simulation
from onnx_hw.prove.circuit.bitstream import difference_error as bitstream_error
from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult, directed_vector_error
from onnx_hw.prove.circuit.gate_level import NotSimulated
from onnx_hw.prove.circuit.gate_level import difference_error as netlist_error
from onnx_hw.prove.circuit.outputs import circuit_outputs
from onnx_hw.prove.circuit.prove import Proof, compiles
from onnx_hw.prove.model.compare import compare
from onnx_hw.prove.model.onnxruntime_witness import compare_with_onnxruntime
from onnx_hw.prove.model.onnxruntime_witness import difference_error as model_error
from onnx_hw.prove.model.quantizer_judge import judge_quantizer, verdict_error
from onnx_hw.quantization.quantize import PreparedModel, prepare_model, quantize_model
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.ranges.calibrate import RangeSource, SampleRanges
from onnx_hw.quantization.ranges.synthetic import synthetic_frames
from onnx_hw.quantization.scheme import DEFAULT
from onnx_hw.quantization.scheme_from_options import format_precision_file, scheme_from_options
from onnx_hw.quantization.suggest_cut import suggest_cut
from onnx_hw.report import proof_chain
from onnx_hw.report.accuracy import Accuracy, describe_accuracy
from onnx_hw.report.build_request import describe_build_request
from onnx_hw.report.collect import design_sections, sections
from onnx_hw.report.collect.reference_section import describe_reference
from onnx_hw.report.memory_map import describe_memories
from onnx_hw.report.model import Report, SearchSection
from onnx_hw.report.recorder import Recorder
from onnx_hw.report.timeline import describe_timeline
from onnx_hw.runtime.background import beside
from onnx_hw.runtime.blas_threads import one_blas_thread
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw.runtime.options import BuildOptions, MemoryChoice, SimulationEngine, WeightStorage
from onnx_hw.runtime.progress import Progress
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.subprocess_call import in_own_process
from onnx_hw.samples.frames import InputData, by_reference, classes_of, input_data
from onnx_hw.samples.samples import frame_count
from onnx_hw.schedule.bottleneck import what_bounds
from onnx_hw.schedule.cut_products import forked
from onnx_hw.schedule.folding_file import to_text
from onnx_hw.schedule.schedule_for_board import excess_over_target, target_budget, with_folding_file
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.verilog_board import VerilogBoard

WORTH_A_PROCESS = 24
"""Cores whose netlist takes longer to make than another Python to begin."""


class BuildState:
    """A build under way: the values so far, each made by the function of ``flow`` that its stage is called like."""

    folder: BuildFolder
    written: Model
    model: Model  # of one frame
    inputs: tuple[Value, ...]  # of the model as written
    batch: int  # frames of a sample
    given: InputData
    origin: ScaleOrigin  # of the scales that the model does not bring
    prepared: PreparedModel
    network: Network
    seen: Mapping[str, np.ndarray] | None  # samples by graph input, for the report
    sqnr: Mapping[str, float | None]  # of values of the float model, dB
    design: Design
    netlist: Netlist
    circuit: NamedCircuit | None = None  # what is simulated, if it was made beside the netlist
    proof: Proof
    synthesized: SynthesisResult
    routed: RouteResult
    packed: Made

    def __init__(
        self,
        options: BuildOptions,
        progress: Progress,
        toolchain: StageFunctions = STAGE_FUNCTIONS,
        built: tuple[Network, str] | None = None,
    ) -> None:
        """Begin a build.

        Args:
            built: integer network of a build with loadable weights whose circuit this one must have, and its digest.
        """
        self.built: Network | None = None
        self.built_digest = ""
        if built is not None:
            self.built, self.built_digest = built
        self.options, self.board, self.toolchain = options, find_board(options.board), toolchain
        begun = Report(sections.empty_model(options.model), sections.describe_board(self.board))
        self.recorder = Recorder(progress, begun)
        if not options.witness:
            self.recorder.set_links(model_reference=proof_chain.open_reference("`--no-witness`"))
        if not options.gate_level:
            self.recorder.set_links(circuit_netlist=proof_chain.open_netlist("`--no-gate-level`"))
        if not options.bitstream_check:
            self.recorder.set_links(netlist_bitstream=proof_chain.open_bitstream("`--no-bitstream-check`"))

    def take(self, stage: Stage) -> None:
        """Run a stage; all but the first write into ``folder``."""
        with self.recorder.stage(stage):
            getattr(self, stage.value)()

    def warn(self, warnings: Iterable[tuple[str, str]]) -> None:
        """Report warnings: message and hint of each."""
        for message, hint in warnings:
            self.recorder.warn(message, hint)

    def read(self) -> None:
        self.recorder.record(asked=describe_build_request(self.options))
        model = flow.read(self.options.model, self.options.reading)
        self.written, self.model, self.batch = model, model.frame.model, model.frame.batch
        self.inputs = model.frame_inputs
        self.given = input_data(self.options.inputs, self.options.calibration, model, self.options.resize)
        self.warn(self.given.notes)
        self.recorder.status(f"{len(self.model.graph.nodes):,} nodes, {sections.parameters(self.model):,} weights")

    @one_blas_thread()
    def quantize(self) -> None:
        recorder, scheme = self.recorder, scheme_from_options(self.options.quantizing)
        with suggest_cut(self.model):
            if self.options.memory is MemoryChoice.NONE:
                refuse_too_many_weights(self.model, scheme, self.options.board)
            prepared = self.prepared = prepare_model(self.model)
        if not prepared.brings and self.options.memory is MemoryChoice.NONE:
            with self._widths_that_fit():
                refuse_too_large(prepared, scheme, self.options.board, self.options.scheduling)
        data, self.origin = self._calibration_data(prepared)
        if self.origin is not ScaleOrigin.SAMPLES and scheme is not None and scheme.goal is not None:
            raise stage_messages.goal_without_samples(self.model)
        labels = self.given.labels if data is self.given.frames else self.given.calibration_labels
        ranges: RangeSource | None = None if data is None else SampleRanges(data, (scheme or DEFAULT).ranges, labels)
        if self.origin is ScaleOrigin.ASSUMED:
            ranges = assume_ranges
        with suggest_cut(self.model):
            widths = DEFAULT if self.built is not None and scheme is None and not prepared.brings else scheme
            made = quantize_model(prepared, ranges, widths, loadable=self.options.weights is WeightStorage.LOADABLE)
        calibrated = self.options.calibration is not None or self.options.random_calibration
        self.warn(stage_messages.quantization_warnings(self.model, made, scheme, calibrated=calibrated))
        if made.widths is not None:
            self.folder.write("precision.toml", format_precision_file(made.widths.scheme))
            recorder.record_file("precision", "precision.toml")
        self.network = self._declared(made.network)
        fact = stage_messages.quantization_fact(made, frame_count(data or {}), self.origin)
        recorder.status(fact)
        self.folder.write("network.txt", f"{self.network!r}\n")
        recorder.record(model=sections.describe_model(self.model, self.network))
        compared = compare(made.model, made.step, self.given.frames or data, made.floats, self.network)
        if not compared.agreement.frames:
            recorder.warn(
                "golden was not compared with the model: no frame could be drawn", "give samples with --inputs"
            )
        if data and made.floats and compared.fidelity and self.origin is ScaleOrigin.SAMPLES:
            shown = compared.frames[: compared.from_user]
            verdict = judge_quantizer(made.model, made.floats[1], data, compared.fidelity, shown, made.equalized)
            if verdict.findings:
                raise verdict_error(verdict)
        losses = made.tensor_losses()
        if self.origin is not ScaleOrigin.SAMPLES:  # figures of such scales would say nothing about real data
            compared, losses, data = replace(compared, fidelity=None), (), None
        recorder.record(reference=describe_reference(compared, losses))
        self.seen = data if self.given.frames is None else self.given.frames
        tensors = compared.fidelity.tensors if compared.fidelity else {}
        self.sqnr = {name: likeness.sqnr_db for name, likeness in tensors.items()}
        recorder.set_links(reference_golden=proof_chain.reference_golden(compared.agreement))
        self._ask_onnxruntime(compared.frames)
        recorder.status(f"{fact}; {compared.agreement}")

    def _declared(self, network: Network) -> Network:
        """Return the network with loadable constants, where the options ask for them."""
        if self.built is not None:
            return declare_like(network, self.built)
        if self.options.weights is WeightStorage.FIXED:
            return network
        require_way_to_load(self.board)
        declared = declare_loadable(network)
        self.warn(stage_messages.fixed_constants(nodes_with_fixed_constants(declared)))
        write_network(self.folder, self.recorder.record_file, declared)
        return declared

    def _ask_onnxruntime(self, frames: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Compare the model as it is read with the model as onnxruntime runs it, where that is installed."""
        if not self.options.witness:
            return
        witness = compare_with_onnxruntime(self.options.model, self.written, frames, self.batch)
        self.recorder.set_links(model_reference=proof_chain.model_reference(witness))
        if witness.wrong:
            raise model_error(witness)

    def _calibration_data(self, prepared: PreparedModel) -> tuple[Mapping[str, np.ndarray] | None, ScaleOrigin]:
        """Return the samples that ranges are learned from, by graph input, (samples, *shape), and their origin.

        They are None where no samples are given, unless random ones take their place.
        """
        if self.given.calibration is not None:
            return self.given.calibration, ScaleOrigin.SAMPLES
        if prepared.brings or not self.model.frame_inputs:
            return self.given.frames if prepared.brings else {}, ScaleOrigin.SAMPLES
        if self.given.frames is not None:
            self.recorder.warn("the scales come from the samples of --inputs", "give real samples with --calibration")
            return self.given.frames, ScaleOrigin.SAMPLES
        if self.options.random_calibration:
            self.recorder.warn(
                "the scales come from random numbers: the outputs mean nothing", "give real samples with --calibration"
            )
            return synthetic_frames(prepared.model), ScaleOrigin.RANDOM
        if Stage.SIMULATE not in self.options.stages:
            self.recorder.warn("the scales are assumed: there are no samples", "give samples with --calibration")
        return None, ScaleOrigin.ASSUMED

    def check_figures(self) -> None:
        """Derive figures of the report a second time; raise UserError where one differs."""
        netlist, routed = getattr(self, "netlist", None), getattr(self, "routed", None)
        said = routed.log_text if routed is not None else ""
        kind = self.board.link.kind if isinstance(self.board, LinkedBoard) else ""
        times_all = self.board.family.placement.slowest_path is None
        report, link = self.recorder.report, netlist and netlist.link
        if different := list(different_figures(report, link, kind, said, log_times_all=times_all)):
            raise figure_error(different)

    def require_samples_for(self, stage: Stage) -> None:
        """Raise UserError where a stage behind ``schedule`` needs scales, and they are only assumed."""
        if stage not in Stage.until(Stage.SCHEDULE) and self.origin is ScaleOrigin.ASSUMED:
            raise stage_messages.samples_missing(self.model, self.design)

    def schedule(self) -> None:
        request = with_folding_file(self.options.scheduling, self.options.folding, self.network)
        self.network, request = with_weights_outside(self.options.memory, self.board, self.network, request, self.warn)
        with self._widths_that_fit():
            self.design = flow.schedule(self.network, self.options.board, request)
        chosen = {
            node.name: self.design.foldings[node.name] for node in forked(self.network, self.design.foldings).nodes
        }
        self.folder.write("design.txt", f"{self.design!r}\n")
        classes = classes_of(self.model)
        write_design(
            self.folder, self.recorder.record_file, self.design, self.options.board, self.inputs, self.batch, classes
        )
        self.folder.write("folding.toml", to_text(self.design, chosen))
        if orders := design_sections.irregular_orders(self.design):
            self.folder.write("orders.json", orders)
            self.recorder.record_file("orders", "orders.json")
        planned = sections.describe_plan(self.design, request)
        self.warn(
            stage_messages.schedule_warnings(self.design, planned, excess_over_target(self.design, request.multipliers))
        )
        self.recorder.record(
            io=design_sections.describe_ports(self.design),
            design=planned,
            timeline=describe_timeline(self.design),
            quantization=design_sections.describe_quantization(self.design.network, self.seen, self.sqnr),
        )
        serial = sections.describe_serial(self.design)
        self.recorder.record(serial=serial)
        busy = serial is not None and serial.limit == "link"
        free = request.wants_fastest and not busy
        unused, above = self.note_bound(request.multipliers) if free else ("", "")
        self.recorder.status(stage_messages.schedule_fact(planned, self.design, unused, above))

    @contextmanager
    def _widths_that_fit(self) -> Iterator[None]:
        """Name widths that fit in the error of a float model that does not."""
        try:
            yield
        except UserError as error:
            if self.prepared.brings or error.exit_code != ExitCode.DOES_NOT_FIT:
                raise
            options, scheme = self.options, scheme_from_options(self.options.quantizing)
            self.recorder.progress.warn(*stage_messages.search_for_widths_warning(error, options.board))
            raise with_widths_that_fit(error, self.prepared, scheme, options.board, options.scheduling) from None

    def note_bound(self, multipliers: int | None) -> tuple[str, str]:
        """Note in the report what bounds the speed; return in words why lanes are unused, and how large the gap is."""
        shell = shell_cells(self.design.network, self.board, self.design.clock_mhz)
        budget = replace(target_budget(self.board, multipliers, shell), mac_lanes=multipliers)
        bound = what_bounds(self.network, self.design, budget)
        self.recorder.record(search=SearchSection(multipliers, bound.unused, bound.interval))
        return f" of {multipliers} ({bound.unused})" * bool(bound.unused), bound.above(self.design.interval)

    def assemble(self) -> None:
        # Python makes one netlist at a time. What is simulated is another one than what is placed, and as long.
        worth_it = Stage.SIMULATE in self.options.stages and len(self.design.network.nodes) >= WORTH_A_PROCESS
        apart = worth_it and (os.cpu_count() or 1) > 1 and compiles()
        with beside(in_own_process, bench_circuit, self.design) if apart else nullcontext() as bench:
            self.netlist = flow.assemble(self.design)
            self.circuit = bench.result() if bench else None
        if self.built_digest and self.netlist.circuit_digest != self.built_digest:
            raise stage_messages.another_circuit(self.built_digest, self.netlist.circuit_digest)
        self.recorder.record(digest=self.netlist.circuit_digest)
        write_checked_tape(self.folder, self.recorder, self.design)
        write_checked_host(self.folder, self.recorder.record_file, self.design, self.netlist, self.batch)
        write_self_test(self.folder, self.recorder.record_file, self.design, self.netlist)
        self.recorder.status(str(self.netlist))

    def simulate(self) -> None:
        design, recorder = self.design, self.recorder
        # What compiles the circuit mostly takes one processor, so the cores alone cost a second one hardly any time.
        with beside(self._reach, SimulationEngine.COMPILED) if compiles() else nullcontext() as reaching:
            self.proof = self.toolchain.simulate(
                design, self.given.frames, folder=self.folder.path, circuit=self.circuit, listener=recorder
            )
            recorder.record(
                design=sections.describe_plan(design, self.options.scheduling, self.proof),
                simulation=sections.describe_proof(self.proof),
                accuracy=self._accuracy(),
            )
            reached = reaching.result() if reaching else self._reach(self.proof.engine)
        recorder.record(reached=reached.coverage)
        recorder.set_links(golden_circuit=proof_chain.golden_circuit(self.proof, reached))
        if not self.proof.agrees:
            raise simulation.difference_error(self.proof, self._waves())
        if not reached.agrees:
            raise directed_vector_error(reached)
        shown = self._waves() if self.options.waves else None
        if self.options.waves and shown is None:
            self.warn([stage_messages.NO_WAVES])
        recorder.status(f"{self.proof}; `{shown[1]}`" if shown else str(self.proof))
        if design.tape is not None:
            return  # the circuit that is simulated has a model of the flash in it
        self.toolchain.emit(self.folder, recorder.record_file, design, self.given.frames, self.proof.verilog, recorder)
        if isinstance(self.board, VerilogBoard):
            write_shell(self.folder, recorder.record_file, design, self.netlist, self.given.frames, recorder)

    def _reach(self, engine: str) -> DirectedVectorResult:
        return self.toolchain.reach(self.design, self.folder.path / "simulation", engine, self.recorder)

    def _waves(self) -> tuple[Path, str] | None:
        """Write waveforms around a difference, or from the beginning; return the file and the command that shows it."""
        integers = streamed_in(self.design.network, self.given.frames)
        seen = {tensor: array[: self.proof.frames] for tensor, array in integers.items()}
        values = golden.trace(self.design.network, seen)
        shown = simulation.write_waves(self.design, self.proof, values, self.folder.path)
        if shown is not None:
            self.recorder.record_file("waves", shown[0].name)
        return shown

    def synthesize(self) -> None:
        self.synthesized = self.toolchain.synthesize(self.netlist, self.folder, self.recorder)
        self.recorder.running.cached = self.synthesized.made.cached
        self.recorder.status(str(self.synthesized))
        self.recorder.record(
            synthesis=sections.describe_synthesis(self.synthesized, design=self.design),
            memories=describe_memories(self.design, self.netlist.rtlil, self.synthesized.netlist, self.board.family),
        )
        check_fit(self.synthesized.used, self.board)

    def gates(self) -> None:
        recorder = self.recorder
        try:
            comparison = self.toolchain.gates(
                self.synthesized, self.design, self.netlist, self.folder, self.given.frames, recorder
            )
        except NotSimulated as error:
            self.warn([stage_messages.netlist_warning(error)])
            recorder.set_links(circuit_netlist=proof_chain.open_netlist(str(error)))
            return
        recorder.running.cached = comparison.cached
        recorder.set_links(circuit_netlist=proof_chain.circuit_netlist(comparison))
        recorder.record(activity=sections.describe_activity(comparison, self.design))
        if not comparison.agrees:
            raise netlist_error(comparison)
        recorder.status(str(comparison))

    def route(self) -> None:
        self.routed = self.toolchain.route(
            self.synthesized, self.netlist, self.folder, self.recorder, self.options.seed
        )
        self.recorder.running.cached = self.routed.made.cached
        self.recorder.status(str(self.routed))
        self.recorder.record(synthesis=sections.describe_synthesis(self.synthesized, self.routed, self.design))
        self.warn(stage_messages.route_warnings(self.routed, self.design, self.options.scheduling))

    def pack(self) -> None:
        place = self.folder.path / f"{file_name(self.model.name)}{self.board.family.packing.suffix}"
        made = self.toolchain.pack(self.routed, self.folder)
        shutil.copyfile(made.folder / BITSTREAM, place)
        self.recorder.running.cached = made.cached
        self.recorder.status(stage_messages.bitstream_fact(place))
        self.recorder.record_file("bitstream", place.name)
        self.recorder.record(bitstream_sha256=made.files[BITSTREAM])
        self.packed = made

    def unpack(self) -> None:
        recorder, family = self.recorder, self.board.family
        if family.unpacker() is None:
            obstacle = f"the bitstreams of {family.name} are not unpacked yet"
            recorder.status(f"not compared: {obstacle}")
            recorder.set_links(netlist_bitstream=proof_chain.open_bitstream(obstacle))
            return
        try:
            made = self.packed, self.routed, self.synthesized
            comparison = self.toolchain.unpack(
                *made, self.design, self.netlist, self.folder, self.given.frames, recorder
            )
        except NotSimulated as error:
            self.warn([stage_messages.bitstream_warning(str(error))])
            recorder.set_links(netlist_bitstream=proof_chain.open_bitstream(str(error)))
            return
        recorder.running.cached = comparison.cached
        recorder.set_links(netlist_bitstream=proof_chain.netlist_bitstream(comparison))
        if comparison.wrong:
            raise bitstream_error(comparison)
        if comparison.obstacle:
            self.warn([stage_messages.bitstream_warning(comparison.obstacle)])
        recorder.status(str(comparison))

    def _accuracy(self) -> Accuracy | None:
        frames, labels = self.given.frames, self.given.labels
        if labels is None or frames is None:
            return None
        circuit = circuit_outputs(self.design, self.proof, frames)
        software = by_reference(self.model, frames), golden.run(self.network, frames)
        return describe_accuracy(frames, labels, *software, circuit)
