"""Chain of proof from the model to the chip: sections of the report that say why to trust the bitstream.

    model ─1─ reference ─2─ golden ─3─ circuit ─4─ netlist of the chip ─5─ bitstream

The operators of the first link are tested with ONNX's own cases, once for all models; where onnxruntime is installed,
it is the witness of each build. Each of the others is proven, failed or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from onnx_hw.messages.errors import Problem, ToolProblem, UserError

if TYPE_CHECKING:  # a report is read without what proves
    from onnx_hw.prove.circuit.bitstream import BitstreamCheck
    from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult
    from onnx_hw.prove.circuit.gate_level import GateLevel
    from onnx_hw.prove.circuit.prove import Proof
    from onnx_hw.prove.model.golden_vs_reference import Agreement
    from onnx_hw.prove.model.onnxruntime_witness import Witness

PROVEN, FAILED, LEFT_OUT = "proven", "failed", "left out"
NOT_REACHED = "the build did not come this far"
NOT_SIMULATED = "the netlist that is placed and routed was not simulated"
NOT_UNPACKED = "the bitstream was not compared"


@dataclass(frozen=True)
class ChainLink:
    """Link of the chain: two views of the model, and what was compared between them."""

    state: Annotated[str, "`proven`, `failed` or `left out`"] = LEFT_OUT
    compared: Annotated[str, "what was compared, in words; where the link was left out, why"] = NOT_REACHED
    frames: Annotated[int, "frames that passed through both"] = 0
    runs: Annotated[int, "number of runs: at full rate, with stalls ..."] = 0
    values: Annotated[int, "numbers compared"] = 0
    cycles: Annotated[int, "events whose clock cycle was compared with the predicted one"] = 0
    wrong: Annotated[int, "numbers and events that differed; each fails the link"] = 0
    difference: Annotated[str, "the first difference, with the model's names; empty where nothing differs"] = ""


@dataclass(frozen=True)
class ChainLinks:
    """Links of the chain model, reference, golden, circuit, netlist of the chip, bitstream."""

    model_reference: Annotated[ChainLink, "1: the ONNX operators in numpy, and onnxruntime where it is installed"] = (
        ChainLink()
    )
    reference_golden: Annotated[ChainLink, "2: the ONNX operators and the integer network, in numpy"] = ChainLink()
    golden_circuit: Annotated[ChainLink, "3: the integer network and the simulated circuit, values and cycles"] = (
        ChainLink()
    )
    circuit_netlist: Annotated[ChainLink, "4: the same for the netlist that is placed and routed"] = ChainLink()
    netlist_bitstream: Annotated[ChainLink, "5: the same for the bitstream, unpacked into cells and nets again"] = (
        ChainLink()
    )

    @property
    def numbered(self) -> dict[int, ChainLink]:
        """The links from the second on, by their number in the chain; the first needs a witness to be installed."""
        every = self.reference_golden, self.golden_circuit, self.circuit_netlist, self.netlist_bitstream
        return dict(enumerate(every, 2))


@dataclass(frozen=True)
class ChainFault:
    """Fault that ended the build."""

    code: Annotated[str, "stable identifier, such as `too-big`"]
    message: Annotated[str, "what must be, and what was given"]
    where: Annotated[str, "place in the user's own file, or a file to read; may be empty"]
    hint: Annotated[str, "how to fix it; may be empty"]
    last_words: Annotated[tuple[str, ...], "the end of a tool's log"] = ()


@dataclass(frozen=True)
class Failure:
    """Reason why the build ended before its last stage."""

    stage: Annotated[str, "the stage that failed"]
    faults: Annotated[tuple[ChainFault, ...], "all faults; empty where the build was interrupted"]


def failure(stage: str, error: UserError | None) -> Failure:
    """Return the reason for which a stage ended; an ``error`` of None stands for an interrupt."""
    problems = () if error is None else error.problems
    return Failure(stage, tuple(_fault(problem) for problem in problems))


def _fault(problem: Problem) -> ChainFault:
    last_words = problem.last_words if isinstance(problem, ToolProblem) else ()
    return ChainFault(problem.code, problem.message, problem.where, problem.hint, last_words)


def open_reference(why: str) -> ChainLink:
    """Return link 1 where onnxruntime did not run the model."""
    return ChainLink(compared=f"the model was not compared with onnxruntime: {why}")


def model_reference(witness: Witness) -> ChainLink:
    """Return link 1: the model as it is read against the model as onnxruntime runs it."""
    if witness.obstacle:
        return open_reference(witness.obstacle)
    turned = f"; {witness.rounded:,} integers decided the other way, each at a tie" if witness.rounded else ""
    tensors = "1 tensor" if witness.tensors == 1 else f"{witness.tensors} tensors"
    return ChainLink(
        FAILED if witness.wrong else PROVEN,
        f"{tensors}, the outputs and what is decided on the way, with onnxruntime{turned}",
        witness.frames,
        1,
        witness.values,
        wrong=witness.wrong,
        difference=witness.difference,
    )


def reference_golden(agreement: Agreement) -> ChainLink:
    """Return link 2: golden against the reference of the model."""
    if not agreement.frames:
        return ChainLink(compared="no frame could be drawn; give samples with --inputs")
    apart = agreement.values_compared - agreement.equal
    ties = (
        f"; {apart:,} value{'s' * (apart > 1)} rounded the other way, each next to a tie"
        if apart
        else "; every value the same"
    )
    return ChainLink(
        PROVEN,
        f"{agreement.tensors_compared} tensors that both have{ties}",
        agreement.frames,
        1,
        agreement.values_compared,
    )


def broken_reference_golden(error: UserError) -> ChainLink:
    """Return link 2 where golden differs from the model."""
    return ChainLink(FAILED, "every tensor that both have", difference=error.problems[0].message)


def golden_circuit(proof: Proof, reached: DirectedVectorResult) -> ChainLink:
    """Return link 3: the simulated circuit against golden and timing, with frames and with directed vectors."""
    runs = (*proof.runs, *reached.runs)
    differences = [str(run.difference) for run in runs if run.difference is not None]
    waits = [f"it is deadlocked: {'; '.join(run.deadlock)}" for run in runs if run.deadlock]
    directed = f"; and each core alone, {reached.coverage}" if reached.runs else ""
    stalls = ", ".join(proof.stalls)
    return ChainLink(
        PROVEN if proof.agrees and reached.agrees else FAILED,
        f"every value on {proof.runs[0].edges_compared} streams and every firing, "
        f"at full rate and with stalls ({stalls}){directed}",
        proof.frames,
        len(runs),
        sum(run.values_compared for run in runs),
        sum(run.firings_compared for run in runs),
        sum(run.mismatches + run.firing_mismatches for run in runs),
        next(iter((*differences, *waits)), ""),
    )


def circuit_netlist(comparison: GateLevel) -> ChainLink:
    """Return link 4: the netlist of the chip, simulated, against golden and timing."""
    if comparison.link:
        runs = (
            f"every value that leaves {comparison.cells:,} cells of the whole board through its pins, "
            f"{comparison.link}, and the cycles that the chip states of its frames: sessions from power-up, with a "
            "good and with a bad wire, a host that hesitates, one that sends packets out of order, damaged and "
            "unknown, a new HELLO and a reset in mid-frame"
        )
    else:
        runs = (
            f"every value and the cycle of every token that leaves {comparison.cells:,} cells of the bare chip, "
            "from power-up, with and without a reset in mid-frame, at full rate and with stalls"
        )
    return ChainLink(
        PROVEN if comparison.agrees else FAILED,
        f"{runs}, memories filled with rubbish; "
        f"{comparison.weights:,} constants decoded from {comparison.blocks} of {comparison.of_blocks} block RAMs that "
        "are never written",
        comparison.frames,
        comparison.runs,
        comparison.values,
        comparison.tokens,
        comparison.wrong,
        comparison.difference,
    )


def open_netlist(why: str) -> ChainLink:
    """Return link 4 where the netlist is not simulated."""
    return ChainLink(compared=f"{NOT_SIMULATED}: {why}")


def netlist_bitstream(comparison: BitstreamCheck) -> ChainLink:
    """Return link 5: the bitstream, unpacked, against golden and timing, the netlist, and the board's file."""
    if comparison.wrong:
        state = FAILED
    else:
        state = LEFT_OUT if comparison.obstacle else PROVEN
    events = (
        f"every value, and the cycles that the chip states, through the pins, {comparison.link}, of"
        if comparison.link
        else "every value and the cycle of every token that leaves"
    )
    compared = (
        f"{events} the {comparison.cells:,} cells in the file, in the runs of link 4; the inputs of "
        f"{comparison.elements:,} registers, memories and outputs, and the contents of {comparison.blocks} block RAMs, "
        f"with the netlist; {comparison.pins} pins with the board's file; of {comparison.bits:,} set bits "
        f"{comparison.featureless:,} belong to no feature that the database knows"
    )
    return ChainLink(
        state,
        f"{NOT_UNPACKED}: {comparison.obstacle}" if state == LEFT_OUT else compared,
        comparison.frames,
        comparison.runs,
        comparison.values,
        comparison.tokens,
        comparison.wrong,
        comparison.difference,
    )


def open_bitstream(why: str) -> ChainLink:
    """Return link 5 where the bitstream is not compared."""
    return ChainLink(compared=f"{NOT_UNPACKED}: {why}")


def listed(numbers: Sequence[str]) -> str:
    """Return numbers in words: ``2, 3 and 4``."""
    *before, last = numbers
    return f"{', '.join(before)} and {last}" if before else last


def in_short(links: ChainLinks) -> str:
    """Return a summary such as ``links 2, 3 and 4 proven, 5 left out``."""
    by_state: dict[str, list[str]] = {}
    for number, link in links.numbered.items():
        by_state.setdefault(link.state, []).append(str(number))
    groups = [(by_state[state], state) for state in (FAILED, PROVEN, LEFT_OUT) if state in by_state]
    several = "s" if len(groups[0][0]) > 1 else ""
    states = ", ".join(f"{listed(numbers)} {state}" for numbers, state in groups)
    return f"link{several} {states}"


def witness_in_short(links: ChainLinks) -> str:
    """Return a summary of link 1, such as ``onnxruntime computes the same: ...``."""
    link = links.model_reference
    if link.state == PROVEN:
        return f"onnxruntime computes the same for the model: {link.values:,} values in {link.frames} frames"
    return f"link 1 is broken: {link.difference}" if link.state == FAILED else link.compared
