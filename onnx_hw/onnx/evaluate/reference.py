"""Reference engine: it runs a model with the operators' numpy semantics, one frame per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.onnx.evaluate.check_inputs import check_feeds
from onnx_hw.onnx.graph.model import Graph, Model
from onnx_hw.onnx.operators.dtypes import to_compute_dtype, to_model_dtype
from onnx_hw.onnx.operators.evaluate import evaluate


def run(
    model: Model | Graph,
    feeds: Mapping[str, Any],
    *,
    outputs: Sequence[str] | None = None,
    observe: Callable[[str, Any], None] | None = None,
    instead: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute values of a model for one frame.

    Tensors are arrays in the dtypes in which a model holds them (``graph.element_types``: bfloat16 as float32,
    int4 as int8 ...), a sequence is a list of them, an empty optional is None.

    Args:
        model: a model, or its main graph.
        feeds: a value for every graph input by name, in the element type and shape that the model states; also for
            those constants that are listed as inputs, to override them.
        outputs: names of the values to return, inner ones included; None: the graph's outputs. What they do not depend
            on is not computed.
        observe: called with name and array of every value as soon as it is known: feeds, inner values, outputs; not for
            constants, nor inside subgraphs.
        instead: replacements by name, in the element type that the model states: the nodes that read the value get
            the replacement; ``observe`` gets what was computed.

    Returns:
        The values by name. They may share memory with feeds and constants.

    Raises:
        UserError: feeds that do not fit the model, an unknown value's name, an operator that is not known or cannot
            compute its inputs.
    """
    graph = model.graph if isinstance(model, Model) else model
    checked = check_feeds(graph, feeds)
    names = [value.name for value in graph.outputs] if outputs is None else list(outputs)
    _check_names(graph, names)
    watch = None if observe is None else lambda name, value: observe(name, to_model_dtype(value))
    replaced = {
        name: to_compute_dtype(array, graph.values[name].element_type) for name, array in (instead or {}).items()
    }
    results = evaluate(graph, checked, names, observe=watch, instead=replaced)
    return {name: to_model_dtype(value) for name, value in results.items()}


def _check_names(graph: Graph, names: Sequence[str]) -> None:
    known = [value.name for value in graph.inputs]
    known += [*graph.constants, *(name for node in graph.nodes for name in node.outputs if name)]
    missing = sorted(set(names) - set(known))
    if missing:
        raise UserError(
            *(
                Problem(
                    "value-unknown",
                    f"the graph has no value `{name}`",
                    hint=did_you_mean(name, known),
                    stage="arguments",
                )
                for name in missing
            )
        )
