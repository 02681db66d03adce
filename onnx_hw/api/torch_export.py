"""Export of a module of torch, by torch itself."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError, user_error

EXTRA = 'pip install "onnx-hw[torch]"'


def export_module(module: Any, example_inputs: Any) -> bytes:
    """Return the bytes of the ONNX file that ``torch.onnx.export`` makes of a module.

    The module is exported in evaluation mode and is left in the mode that it had. The graph's inputs have the names of
    the arguments of ``forward``; a shape is that of the example.

    Args:
        module: ``torch.nn.Module``.
        example_inputs: a tensor or an array, a tuple or list of them, or a dictionary of them by name.

    Raises:
        UserError: the examples do not fit ``forward``; torch cannot export the module, or lacks a package for it.
    """
    import torch

    arguments = list(inspect.signature(module.forward).parameters)
    examples = _by_argument(arguments, example_inputs, type(module).__name__)
    tensors = {name: _tensor(torch, example) for name, example in examples.items()}
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch's own parts, which no user can change
            warnings.simplefilter("ignore", FutureWarning)
            program = torch.onnx.export(
                module, (), kwargs=tensors, dynamo=True, input_names=list(tensors), verbose=False, external_data=False
            )
        message = program.model_proto
        for node in message.graph.node:
            node.ClearField("metadata_props")  # lines of the user's source files, which nobody asked to write down
    except ImportError as error:
        message = f"torch must be able to export to ONNX, and a package is missing: {error.name or error}"
        raise user_error("torch-export", message, hint=EXTRA, stage="arguments") from None
    except Exception as error:  # torch raises errors of many kinds, all of them about the user's module
        raise _refusal(type(module).__name__, error) from error
    finally:
        for part, training in modes:
            part.training = training
    content: bytes = message.SerializeToString()
    return content


def _by_argument(arguments: list[str], example_inputs: Any, name: str) -> dict[str, Any]:
    """Return the examples by the name of their argument of ``forward``."""
    if isinstance(example_inputs, Mapping):
        examples = dict(example_inputs)
        unknown = [argument for argument in examples if argument not in arguments]
        fits = not unknown
    else:
        several = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
        examples = dict(zip(arguments, several, strict=False))
        fits = 0 < len(several) <= len(arguments)
    if not fits:
        raise user_error(
            "example-inputs",
            f"example inputs must fit the arguments of `{name}.forward`: {', '.join(arguments)}",
            hint="give one tensor for each, in a tuple or by name in a dictionary",
            stage="arguments",
        )
    return examples


def _tensor(torch: Any, example: Any) -> Any:
    """Return an example as a tensor; float64 arrays, numpy's usual kind, become float32, torch's usual kind."""
    if isinstance(example, torch.Tensor):
        return example
    array = np.asarray(example)
    return torch.from_numpy(array.astype(np.float32) if array.dtype == np.float64 else array.copy())


def _refusal(name: str, error: Exception) -> UserError:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return user_error(
        "torch-export",
        f"torch must be able to export `{name}` to ONNX; it says: {first}",
        hint="torch.onnx.export(module, inputs, dynamo=True) alone shows the whole message",
        stage="arguments",
    )
