"""States of a model: inputs and outputs that are paired, so that a circuit keeps them from frame to frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.model import Graph, Model, StatePair, Value

ENDINGS = (
    ("_in", "_out"), ("_in", "_next"), ("_in", "_new"), ("", "n"), ("0", "n"), ("", "_out"), ("", "_next"),
    ("", "_new"), ("_prev", ""), ("_prev", "_next"), ("in", "out"),
)  # fmt: skip
"""Endings by which the names of an input and of an output differ that often are one state."""

BEGINNINGS = (("in_", "out_"), ("prev_", "next_"), ("prev_", ""), ("", "next_"), ("", "new_"), ("old_", "new_"))
"""Beginnings of such names."""


def pair_states(model: Model, pairs: Sequence[str]) -> Model:
    """Return the model with its states.

    Args:
        model: model as read.
        pairs: texts ``INPUT:OUTPUT`` or ``INPUT:OUTPUT=NUMBER``; names may hold colons.

    Raises:
        UserError: everything that is wrong with the pairs, at once.
    """
    if not pairs:
        return model
    typed = infer(model).graph
    problems: list[Problem] = []
    states: list[StatePair] = []
    for text in pairs:
        pair = _parsed(text, typed)
        if isinstance(pair, Problem):
            problems.append(pair)
        elif problem := next(_faults(pair, typed, states), None):
            problems.append(problem)
        else:
            states.append(pair)
    if problems:
        raise UserError(*problems)
    if all(value.name in {pair.input for pair in states} for value in typed.inputs):
        what = "a model must have an input that comes with every frame; all of its inputs are states"
        raise UserError(_problem(what, pairs[-1], "leave one pair out"))
    return replace(model, states=tuple(states))


def state_proposals(model: Model) -> list[str]:
    """Return a sentence that proposes pairs whose names say that they are states; empty if there are none.

    Nothing is paired by its name alone.
    """
    if model.states:
        return []
    graph = model.graph
    pairs: dict[str, str] = {}
    for entering in graph.inputs:
        for leaving in graph.outputs:
            alike = entering.shape is not None and entering.shape == leaving.shape
            if alike and leaving.name not in pairs.values() and _sound_alike(entering.name, leaving.name):
                pairs.setdefault(entering.name, leaving.name)
    if not pairs or len(pairs) == len(graph.inputs):
        return []
    options = " ".join(f"--state {entering}:{leaving}" for entering, leaving in pairs.items())
    names = ", ".join(f"`{entering}` and `{leaving}`" for entering, leaving in pairs.items())
    return [f"by their names, {names} may be a state that the circuit can keep from frame to frame: `{options}`"]


def _sound_alike(entering: str, leaving: str) -> bool:
    """Return whether two names differ in what often tells a state from the next one."""
    one, other = entering.lower(), leaving.lower()
    by_end = any(
        one.endswith(a) and other.endswith(b) and one[: len(one) - len(a)] == other[: len(other) - len(b)]
        for a, b in ENDINGS
    )
    return by_end or any(
        one.startswith(a) and other.startswith(b) and one[len(a) :] == other[len(b) :] for a, b in BEGINNINGS
    )


def _parsed(text: str, graph: Graph) -> StatePair | Problem:
    """Return the pair that a text names, or what is wrong with the text."""
    inputs, outputs = ([value.name for value in side] for side in (graph.inputs, graph.outputs))
    cuts = [at for at, letter in enumerate(text) if letter == ":"]
    if not cuts:
        hint = f"one pair is {inputs[0]}:{outputs[0]}" if inputs and outputs else ""
        return _problem(f"a state must be INPUT:OUTPUT, not {text!r}", text, hint)
    for at in cuts:
        entering, leaving, first = text[:at], text[at + 1 :], "0"
        if leaving not in outputs and "=" in leaving:
            leaving, _, first = leaving.rpartition("=")
        if entering in inputs and leaving in outputs:
            try:
                number = float(first)
            except ValueError:
                number = float("nan")
            if not isfinite(number):
                return _problem(
                    f"the first value of a state must be a number, not {first!r}", text, "leave it out for 0"
                )
            return StatePair(entering, leaving, number)
    entering, _, leaving = text.partition(":")
    name, known, what = (entering, inputs, "input") if entering not in inputs else (leaving, outputs, "output")
    return _problem(f"a state must name an {what} of the model; it has no `{name}`", text, did_you_mean(name, known))


def _faults(pair: StatePair, graph: Graph, before: Sequence[StatePair]) -> Iterator[Problem]:
    """Yield what keeps a pair from being a state."""
    text = f"{pair.input}:{pair.output}"
    for other in before:
        if pair.input == other.input or pair.output == other.output:
            same = pair.input if pair.input == other.input else pair.output
            yield _problem(f"`{same}` must be in one pair, not in two", text, "leave one of them out")
    (entering,) = (value for value in graph.inputs if value.name == pair.input)
    (leaving,) = (value for value in graph.outputs if value.name == pair.output)
    if not _is_fixed(entering) or not _is_fixed(leaving):
        yield _problem(
            f"a state must have a fixed shape; these are {entering!r} and {leaving!r}", text, "set sizes: --dim NAME=N"
        )
    elif entering.shape != leaving.shape:
        yield _problem(
            f"a state must have one shape; the input is {list(entering.shape or ())}, the output "
            f"{list(leaving.shape or ())}",
            text,
            "pair values of the same shape",
        )
    if entering.element_type != leaving.element_type:
        yield _problem(
            f"a state must have one element type; the input is {entering.element_type}, the output "
            f"{leaving.element_type}",
            text,
            "pair values of the same type",
        )
    if entering.element_type not in ("float", "float16", "double", "bfloat16") and pair.first != int(pair.first):
        yield _problem(f"the first value must be an integer, as {entering!r} holds, not {pair.first:g}", text, "")


def _is_fixed(value: Value) -> bool:
    return value.shape is not None and all(isinstance(length, int) for length in value.shape)


def _problem(message: str, text: str, hint: str) -> Problem:
    return Problem("state-pair", message, f"--state {text}", hint, "arguments")
