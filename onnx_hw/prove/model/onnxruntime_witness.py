"""The model as it is read, against the model as onnxruntime runs it (link 1): a witness that shares no line with us.

Lowering and reference share the reader of a file and of its operators, so that a wrong default of an attribute, or a
wrong order of bits, is the same on both sides of every later link. onnxruntime reads the file by itself.

Integers are compared node by node: every node gets the integers that onnxruntime computed before it, so that a value
which is rounded the other way does not grow on its way. Floats may be off by their own rounding.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.messages.text import abridged
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of, operator_of
from onnx_hw.onnx.parse.parse import parse_file
from onnx_hw.prove.model import onnxruntime_process as process
from onnx_hw.prove.model.segments import evaluate_in_double
from onnx_hw_tools.process import ToolFailed, execute, python_command

NOT_INSTALLED = "onnxruntime is not installed"

SECONDS = 60.0
"""Time that onnxruntime has for the frames."""

MAX_FILE_BYTES = 1 << 29
"""Largest file that is given to onnxruntime."""

EXPOSED = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"})
"""Element types of integers that onnxruntime hands out."""

OTHER_ROUNDING = 64
"""Factor by which the rounding of another order of sums may be greater than that of ours, which is measured."""

LAST_BITS = 16
"""Units in the last place by which floats may be off besides, relative to the largest value of a tensor."""

BEHIND_INTEGERS = 1 << 11
"""The same for floats behind quantizers, where the rounding is not measured."""

MAX_SHARE = 0.01
"""Greatest share of integers that are rounded the other way, each by one step: those whose real value is a tie."""

MAX_OTHER_SHARE = 0.1
"""Greatest share of other integers that differ, such as indices of maxima that are nearly equal."""

Frame = Mapping[str, np.ndarray]
"""Arrays by name."""


@dataclass(frozen=True)
class Witness:
    """Result of the comparison.

    Attributes:
        obstacle: why nothing was compared; empty where it was.
        frames, tensors, values: numbers of what was compared.
        rounded: integers that onnxruntime rounds the other way.
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
    if not frames:
        return Witness("no frame could be drawn")
    samples = _samples(frames, batch)
    integers = _rounded(model)
    outputs = [value.name for value in model.graph.outputs]
    found = _run(path, samples, [*dict.fromkeys((*outputs, *integers))])
    if isinstance(found, str):
        return Witness(found)
    witness = Witness()
    for number, (sample, values) in enumerate(zip(samples, found, strict=True)):
        try:
            witness = _add(witness, model, sample, values, {*integers})
        except UserError as error:
            return Witness(f"the reference cannot run the sample: {error.problems[0].message}")
        witness = replace(witness, frames=(number + 1) * batch)
    return witness


def _is_random(node: Node) -> bool:
    """Return whether nobody else can compute what a node does; a Dropout only keeps its data."""
    return not operator_of(node).stateless and facts_of(node).effect is not Effect.KEEPS


def _samples(frames: Sequence[Frame], batch: int) -> list[dict[str, np.ndarray]]:
    if batch == 1:
        return [dict(frame) for frame in frames]
    filled = [frames[k % len(frames)] for k in range(batch)]
    return [{name: np.concatenate([frame[name] for frame in filled]) for name in filled[0]}]


def _rounded(model: Model) -> list[str]:
    """Return the names of integers that nodes make by rounding, of types that onnxruntime hands out."""
    types = model.graph.values
    return [
        node.outputs[0]
        for node in model.graph.nodes
        if facts_of(node).rounded is not None
        and node.outputs[0] in types
        and types[node.outputs[0]].element_type in EXPOSED
    ]


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


def _add(witness: Witness, model: Model, sample: Frame, wanted: Frame, integers: set[str]) -> Witness:
    """Compare the values of a sample."""
    given = {name: array for name, array in wanted.items() if name in integers}
    seen: dict[str, Any] = {}

    def observe(name: str, value: Any) -> None:
        if name in wanted:
            seen[name] = value

    reference.run(model, sample, observe=observe, instead=given)
    exact, kind = {} if given else _in_double(model, sample), (_is_coarse(model), _has_functions(model))
    for name, theirs in wanted.items():
        ours = seen.get(name)
        if not isinstance(ours, np.ndarray) or ours.dtype.kind not in "fiub":
            continue
        if ours.shape != theirs.shape:
            said = f"`{name}` has the shape {list(theirs.shape)} in onnxruntime, not {list(ours.shape)}"
            witness = replace(witness, wrong=witness.wrong + theirs.size, difference=witness.difference or said)
            continue
        off, rounded = _differing(ours, theirs, exact.get(name), _Kind(name in integers, *kind))
        witness = replace(
            witness,
            tensors=len(wanted),
            values=witness.values + theirs.size,
            rounded=witness.rounded + rounded,
            wrong=witness.wrong + int(off.sum()),
        )
        if off.any() and not witness.difference:
            at = tuple(int(k) for k in np.argwhere(off)[0])
            place = f"[{', '.join(map(str, at))}]" if at else ""
            said = f"`{name}`{place} is {theirs[at]} in onnxruntime, and {ours[at]} as the model is read here"
            witness = replace(witness, difference=f"{said}; {int(off.sum()):,} of {off.size:,} values differ")
    return witness


class _Kind(NamedTuple):
    """Kind of a tensor: the result of a quantizer, in a model with narrow floats, in one with functions."""

    rounds: bool
    coarse: bool
    has_functions: bool


def _differing(ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray | None, kind: _Kind) -> tuple[np.ndarray, int]:
    """Return where values differ by more than rounding explains, and how many were rounded the other way."""
    if ours.dtype.kind != "f" or theirs.dtype.kind != "f":
        apart = ours != theirs
        if not kind.rounds:
            return (apart if apart.sum() > max(1, MAX_OTHER_SHARE * apart.size) else apart & False), 0
        steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        one = int((steps == 1).sum())
        return (apart if one > 1 + MAX_SHARE * apart.size else steps > 1), one
    real, other = ours.astype(np.float64), theirs.astype(np.float64)
    ends = np.isfinite(real) & np.isfinite(other)
    # onnxruntime's polynomials for Sigmoid and the like are as exact as float32 next to 1, whatever the value is.
    largest = float(np.abs(other[ends]).max(initial=1.0 if kind.has_functions else 0.0))
    eps = 2.0**-10 if kind.coarse else float(np.finfo(theirs.dtype).eps)
    if exact is None:
        allowed = eps * largest * (LAST_BITS << 2 if kind.coarse else BEHIND_INTEGERS)
    else:
        measured = np.abs(real - exact)[ends & np.isfinite(exact)].max(initial=0.0)
        allowed = eps * largest * LAST_BITS + OTHER_ROUNDING * float(measured)
    with np.errstate(invalid="ignore"):
        far = np.abs(real - other) > allowed
    same = (real == other) | (np.isnan(real) & np.isnan(other))
    return np.asarray(np.where(ends, far, ~same)), 0


def _in_double(model: Model, sample: Frame) -> dict[str, Any]:
    """Return the outputs in double precision; none where an operator does not compute in it."""
    try:
        return {name: x for name, x in evaluate_in_double(model, sample).items() if isinstance(x, np.ndarray)}
    except UserError:
        return {}


def _has_functions(model: Model) -> bool:
    """Return whether a node is a function that bends, such as Sigmoid, or normalizes, such as Softmax."""
    return any(facts_of(node).effect in (Effect.BENDS, Effect.NORMALIZES) for node in model.graph.nodes)


def _is_coarse(model: Model) -> bool:
    """Return whether a value has fewer bits than float32."""
    narrow = ("float16", "bfloat16")
    return any(value.element_type in narrow and value.element_type in BY_NAME for value in model.graph.values.values())
