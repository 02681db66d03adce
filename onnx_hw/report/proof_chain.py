"""The chain from the model to the chip, and what broke: sections of the report that say why to believe the bitstream.

    model ─1─ reference ─2─ golden ─3─ circuit ─4─ netlist of the chip

The first link is tested with ONNX's own cases, not in a build. Each of the others is proven, failed or left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from onnx_hw.messages.errors import Problem, ToolProblem, UserError
from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.prove.model.golden_vs_reference import Agreement

PROVEN, FAILED, LEFT_OUT = "proven", "failed", "left out"
NOT_REACHED = "the build did not come this far"
NOT_SIMULATED = "the netlist that is placed and routed was not simulated"


@dataclass(frozen=True)
class ChainLink:
    """One link of the chain: two views of the model, and what was compared between them."""

    state: Annotated[str, "`proven`, `failed` or `left out`"] = LEFT_OUT
    compared: Annotated[str, "what was compared, in words; why nothing was, where it was left out"] = NOT_REACHED
    frames: Annotated[int, "frames that passed both"] = 0
    runs: Annotated[int, "how often some of them did: at full rate, with stalls ..."] = 0
    values: Annotated[int, "numbers compared"] = 0
    cycles: Annotated[int, "events whose clock cycle was compared with the predicted one"] = 0
    difference: Annotated[str, "the first one, in the model's words; empty where there is none"] = ""


@dataclass(frozen=True)
class ChainLinks:
    """Links 2, 3 and 4 of the chain model, reference, golden, circuit, netlist of the chip."""

    reference_golden: Annotated[ChainLink, "2: the ONNX operators and the integer network, in numpy"] = ChainLink()
    golden_circuit: Annotated[ChainLink, "3: the integer network and the simulated circuit, values and cycles"] = (
        ChainLink()
    )
    circuit_netlist: Annotated[ChainLink, "4: the same for the netlist that is placed and routed"] = ChainLink()


@dataclass(frozen=True)
class ChainFault:
    """One thing that is wrong."""

    code: Annotated[str, "stable identifier, such as `too-big`"]
    message: Annotated[str, "what must be, and what was"]
    where: Annotated[str, "place in the user's own file, or a file to look into; may be empty"]
    hint: Annotated[str, "how to mend it; may be empty"]
    last_words: Annotated[tuple[str, ...], "the end of a tool's log"] = ()


@dataclass(frozen=True)
class Failure:
    """Why the build ended before its last stage."""

    stage: Annotated[str, "the stage that failed"]
    faults: Annotated[tuple[ChainFault, ...], "everything that is wrong; none where it was interrupted"]


def failure(stage: str, error: UserError | None) -> Failure:
    """What ended a stage; None where the user did."""
    problems = () if error is None else error.problems
    return Failure(stage, tuple(_fault(problem) for problem in problems))


def _fault(problem: Problem) -> ChainFault:
    last_words = problem.last_words if isinstance(problem, ToolProblem) else ()
    return ChainFault(problem.code, problem.message, problem.where, problem.hint, last_words)


def reference_golden(found: Agreement) -> ChainLink:
    if not found.frames:
        return ChainLink(compared="no frame could be drawn; give samples with --inputs")
    apart = found.values_compared - found.equal
    ties = (
        f"; {apart:,} value{'s' * (apart > 1)} rounded the other way, each next to a tie"
        if apart
        else "; every value the same"
    )
    return ChainLink(
        PROVEN, f"{found.tensors_compared} tensors that both know{ties}", found.frames, 1, found.values_compared
    )


def broken_reference_golden(error: UserError) -> ChainLink:
    """Golden is not what the model says."""
    return ChainLink(FAILED, "every tensor that both know", difference=error.problems[0].message)


def golden_circuit(proof: Proof, reached: DirectedVectorResult) -> ChainLink:
    runs = proof.runs if reached.run is None else (*proof.runs, reached.run)
    differences = [str(run.difference) for run in runs if run.difference is not None]
    waits = [f"it stands still: {'; '.join(run.deadlock)}" for run in runs if run.deadlock]
    shown = f"; and alone, {reached}" if reached.run is not None else ""
    stalls = ", ".join(proof.stalls)
    return ChainLink(
        PROVEN if proof.agrees and reached.agrees else FAILED,
        f"every value on {proof.runs[0].edges_compared} streams and every firing, "
        f"at full rate and with stalls ({stalls}){shown}",
        proof.frames,
        len(runs),
        sum(run.values_compared for run in runs),
        sum(run.firings_compared for run in runs),
        next(iter((*differences, *waits)), ""),
    )


def circuit_netlist(found: GateLevel) -> ChainLink:
    return ChainLink(
        PROVEN if found.agrees else FAILED,
        f"every value and the cycle of every token that leaves {found.cells:,} cells of the bare chip, from power-up, "
        "with and without a reset in mid-frame, at full rate and with stalls, memories full of rubbish; "
        f"{found.weights:,} constants decoded from {found.blocks} of {found.of_blocks} block RAMs that nobody writes",
        found.frames,
        found.runs,
        found.values,
        found.tokens,
        found.difference,
    )


def open_netlist(why: str) -> ChainLink:
    """Link 4 where nothing simulates the netlist."""
    return ChainLink(compared=f"{NOT_SIMULATED}: {why}")


def in_short(links: ChainLinks) -> str:
    """``links 2 and 3 of 4 proven, 4 left out``."""
    numbered = enumerate((links.reference_golden, links.golden_circuit, links.circuit_netlist), 2)
    by_state: dict[str, list[str]] = {}
    for number, link in numbered:
        by_state.setdefault(link.state, []).append(str(number))
    groups = [(by_state[state], state) for state in (FAILED, PROVEN, LEFT_OUT) if state in by_state]
    several = "s" if len(groups[0][0]) > 1 else ""
    said = ", ".join(" and ".join(numbers) + f" {state}" for numbers, state in groups)
    return f"link{several} {said}"
