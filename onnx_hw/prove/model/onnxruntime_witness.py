"""The model as it is read, against the model as onnxruntime runs it (link 1): a witness that shares no line with us.

Lowering and reference share the reader of a file and of its operators, so that a wrong default of an attribute, or a
wrong order of bits, is the same on both sides of every later link. onnxruntime reads the file by itself.

Decisions are compared node by node: every node gets the integers, positions and truth values that onnxruntime computed
before it, so that a value which is rounded the other way does not grow on its way. ``witness_differences`` judges what
differs; what rounding does not explain ends the build.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.messages.text import abridged
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of, operator_of
from onnx_hw.onnx.parse.parse import parse_file
from onnx_hw.prove.model import onnxruntime_process as process
from onnx_hw.prove.model.segments import run_in_segments
from onnx_hw.prove.model.witness_differences import WitnessDifferences, decisions
from onnx_hw_tools.process import ToolFailed, execute, python_command

NOT_INSTALLED = "onnxruntime is not installed"

SECONDS = 60.0
"""Time that onnxruntime has for the frames."""

MAX_FILE_BYTES = 1 << 29
"""Largest file that is given to onnxruntime."""

Frame = Mapping[str, np.ndarray]
"""Arrays by name."""


@dataclass(frozen=True)
class Witness:
    """Result of the comparison.

    Attributes:
        obstacle: why nothing was compared; empty where it was.
        frames, tensors, values: numbers of what was compared.
        rounded: decisions that onnxruntime makes the other way, each at a tie.
        wrong: values that differ by more than rounding explains.
        difference: the first tensor with such values.
    """

    obstacle: str = ""
    frames: int = 0
    tensors: int = 0
    values: int = 0
    rounded: int = 0
    wrong: int = 0
    difference: str = ""


def compare_with_onnxruntime(path: Path, model: Model, frames: Sequence[Frame], batch: int) -> Witness:
    """Compare a model with what onnxruntime makes of its file.

    Args:
        path: the file.
        model: the model as it is read from there, with inferred types.
        frames: frames by graph input.
        batch: number of frames in a sample of the model as written.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return Witness(NOT_INSTALLED)
    if drawn := [node.op_type for node in model.graph.nodes if _is_random(node)]:
        return Witness(f"{drawn[0]} draws random numbers")
    if otherwise := [node.op_type for node in model.graph.nodes if _deviates(node)]:
        return Witness(f"onnxruntime computes {otherwise[0]} with these inputs otherwise than ONNX says")
    if not frames:
        return Witness("no frame could be drawn")
    samples = _samples(frames, batch)
    decided = decisions(model)
    outputs = [value.name for value in model.graph.outputs]
    found = _run(path, samples, [*dict.fromkeys((*outputs, *decided))])
    if isinstance(found, str):
        return Witness(found)
    witness = Witness()
    for number, (sample, values) in enumerate(zip(samples, found, strict=True)):
        try:
            numbers = {name: _as_numbers(model, name, array) for name, array in values.items()}
            witness = _add(witness, model, sample, numbers, decided)
        except UserError as error:
            return Witness(f"the reference cannot run the sample: {error.problems[0].message}")
        witness = replace(witness, frames=(number + 1) * batch)
    return witness


def _as_numbers(model: Model, name: str, array: np.ndarray) -> np.ndarray:
    """Return what a value is; of a type that numpy does not have, such as float8, onnxruntime gives codes."""
    value = model.graph.values.get(name)
    element = BY_NAME.get(value.element_type or "") if value is not None else None
    if element is None or element.narrow is None or array.dtype != element.wire:
        return array
    return np.ascontiguousarray(array).view(element.narrow).astype(element.dtype)


def _is_random(node: Node) -> bool:
    """Return whether nobody else can compute what a node does; a Dropout only keeps its data."""
    return not operator_of(node).stateless and facts_of(node).effect is not Effect.KEEPS


def _deviates(node: Node) -> bool:
    """Return whether onnxruntime is known not to compute what ONNX's own test cases expect."""
    if node.op_type == "Resize":
        scaled = len(node.inputs) > 2 and bool(node.inputs[2])
        return scaled and node.attributes.get("coordinate_transformation_mode") == "align_corners"
    return node.op_type == "MaxUnpool" and len(node.inputs) > 2


def _samples(frames: Sequence[Frame], batch: int) -> list[dict[str, np.ndarray]]:
    if batch == 1:
        return [dict(frame) for frame in frames]
    filled = [frames[k % len(frames)] for k in range(batch)]
    return [{name: np.concatenate([frame[name] for frame in filled]) for name in filled[0]}]


def _run(path: Path, samples: Sequence[Frame], names: Sequence[str]) -> list[dict[str, Any]] | str:
    """Return what onnxruntime computes for each sample, by name, or why it does not."""
    message = parse_file(path)
    if message.ByteSize() > MAX_FILE_BYTES:
        return f"the file has more than {MAX_FILE_BYTES >> 20} MiB"
    made = {name for node in message.graph.node for name in node.output}  # names are bytes in our schema
    names = [name for name in names if name.encode() in made]
    stated = {value.name for value in message.graph.output}
    for name in names:
        if name.encode() not in stated:
            message.graph.output.add().name = name.encode()
    if not names:
        return "no node of the file makes an output"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / process.MODEL).write_bytes(message.SerializeToString())
        asked = {"names": names, "external": str(path.resolve().parent)}
        (folder / process.NAMES).write_text(json.dumps(asked), encoding="utf-8")
        feeds = {f"{k} {name}": array for k, sample in enumerate(samples) for name, array in sample.items()}
        with (folder / process.FEEDS).open("wb") as file:
            np.savez(file, **feeds)  # type: ignore[arg-type]
        command = python_command("onnxruntime", process.__name__, temporary, cwd=folder, log=folder / "log")
        try:
            execute([command], timeout=SECONDS)
        except (ToolFailed, OSError) as error:
            return f"onnxruntime cannot run the model: {error.reason if isinstance(error, ToolFailed) else error}"
        refusal = folder / process.REFUSAL
        if refusal.exists():
            said = refusal.read_text(encoding="utf-8").replace(str(folder / process.MODEL), path.name)
            return f"onnxruntime cannot run the model: {abridged(said)}"
        results: list[dict[str, Any]] = [{} for _ in samples]
        with np.load(folder / process.RESULTS) as stored:
            for key in stored.files:
                sample_number, _, name_number = key.partition(" ")
                results[int(sample_number)][names[int(name_number)]] = stored[key]
        return results


def _add(witness: Witness, model: Model, sample: Frame, wanted: Frame, decided: Mapping[str, Node]) -> Witness:
    """Compare the values of a sample."""
    given = {name: array for name, array in wanted.items() if name in decided}
    pieces = run_in_segments(model, sample, given)
    judge = WitnessDifferences(model, pieces, {name: decided[name] for name in given})
    for name, theirs in wanted.items():
        ours = pieces.computed.get(name) if name in given else pieces.outputs.get(name)
        if not isinstance(ours, np.ndarray) or ours.dtype.kind not in "fiub":
            continue
        if ours.shape != theirs.shape:
            said = f"`{name}` has the shape {list(theirs.shape)} in onnxruntime, not {list(ours.shape)}"
            witness = replace(witness, wrong=witness.wrong + theirs.size, difference=witness.difference or said)
            continue
        off = judge.find_wrong(name, ours, theirs)
        turned = 0 if ours.dtype.kind == "f" else int((ours != theirs).sum() - off.sum())
        witness = replace(
            witness,
            tensors=len(wanted),
            values=witness.values + theirs.size,
            rounded=witness.rounded + turned,
            wrong=witness.wrong + int(off.sum()),
        )
        if off.any() and not witness.difference:
            at = tuple(int(k) for k in np.argwhere(off)[0])
            place = f"[{', '.join(map(str, at))}]" if at else ""
            said = f"`{name}`{place} is {theirs[at]} in onnxruntime, and {ours[at]} as the model is read here"
            witness = replace(witness, difference=f"{said}; {int(off.sum()):,} of {off.size:,} values differ")
    return witness


def difference_error(witness: Witness) -> UserError:
    """Make the error of a model that means something else to onnxruntime."""
    problem = Problem(
        "model-differs",
        f"the model must mean the same to onnx-hw and to onnxruntime: {witness.difference}",
        hint="this is a bug of onnx-hw, or of onnxruntime: please report it with the model; `--no-witness` builds it "
        "all the same",
        stage="quantize",
    )
    return UserError(problem, exit_code=ExitCode.MISMATCH)
