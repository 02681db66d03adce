"""Numbers for every dimension of a model's inputs, since a circuit has only numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.dimensions import bind_dimensions
from onnx_hw.onnx.graph.model import Model


def fix_shapes(model: Model, dimensions: Mapping[str, int]) -> Model:
    """Give a number to every dimension of a model's inputs.

    A leading axis without number becomes 1, the batch, with a note.

    Raises:
        UserError: a name the model does not have, a number below 1, other dimensions that nothing binds; all at once.
    """
    bound = bind_dimensions(model, dimensions)
    inputs = bound.graph.inputs
    batches = {v.shape[0]: v.name for v in reversed(inputs) if v.shape and isinstance(v.shape[0], str)}
    notes = [
        f"dimension `{name}` of input `{input_name}` is taken as batch and bound to 1"
        for name, input_name in batches.items()
    ]
    bound = bind_dimensions(bound, dict.fromkeys(batches, 1))
    problems, fixed = [], []
    for index, value in enumerate(bound.graph.inputs):
        if value.shape and value.shape[0] is None:
            notes.append(f"the unnamed first dimension of input `{value.name}` is taken as batch and bound to 1")
            value = replace(value, shape=(1, *value.shape[1:]))
        fixed.append(value)
        free = [d for d in value.shape or () if not isinstance(d, int)]
        if free:
            named = [f"--dim {name}=..." for name in free if name is not None]
            hint = f"bind it: {' '.join(named)}" if named else "give it a number or a name in the exporter"
            message = f"every dimension must have a number, but {value!r} has open ones"
            problems.append(
                Problem("dimension-unbound", message, f"graph.input[{index}]({value.name})", hint, "capability")
            )
    if problems:
        raise UserError(*problems)
    graph = replace(bound.graph, inputs=tuple(fixed))
    return replace(bound, graph=graph, notes=(*model.notes, *notes))
