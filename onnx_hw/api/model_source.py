"""Model of a Python caller as an ONNX file: a path stays what it is, everything else is written into a folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from google.protobuf.message import DecodeError

from onnx_hw.api.torch_export import export_module
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.text import file_name
from onnx_hw.onnx.parse.protobuf_schema import ModelProto

DEFAULT_NAME = "model"
"""Name of a model that has none."""


@runtime_checkable
class ProtobufMessage(Protocol):
    """Protobuf message, such as ``onnx.ModelProto``."""

    def SerializeToString(self) -> bytes: ...


class TorchModule(Protocol):
    """Module of torch: ``torch.nn.Module``."""

    training: bool

    def forward(self, *arguments: Any) -> Any: ...


AnyModel: TypeAlias = "str | os.PathLike[str] | bytes | ProtobufMessage | TorchModule"
"""Model of a Python caller: a path, the bytes of an ONNX file, an ``onnx.ModelProto``, or a ``torch.nn.Module``."""


@dataclass(frozen=True)
class ModelSource:
    """Model of a Python caller, as a file or as the content of one.

    Attributes:
        name: name of the model, usable as the name of a file.
        path: file of the model; None for a model in memory.
        content: bytes of an ONNX file; empty where there is a path.
    """

    name: str
    path: Path | None = None
    content: bytes = b""

    def in_folder(self, folder: Path) -> Path:
        """Return the file of the model; a model in memory is written into ``folder``, which is made.

        Raises:
            UserError: the folder cannot be written.
        """
        if self.path is not None:
            return self.path
        path = folder / f"{self.name}.onnx"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content)
        except OSError as error:
            message = f"the model must be written to `{path}`, which failed: {error.strerror}"
            raise user_error(
                "output-folder", message, hint="choose another folder: out=...", stage="arguments"
            ) from None
        return path


def model_source(model: AnyModel, example_inputs: Any = None) -> ModelSource:
    """Return a model as a file, or as the content of one.

    Args:
        model: path, bytes of an ONNX file, ``onnx.ModelProto``, or ``torch.nn.Module``.
        example_inputs: for a module of torch: a tensor or an array, a tuple of them, or a dictionary of them by name of
            the arguments of ``forward``.

    Raises:
        UserError: it is something else; a module cannot be exported.
    """
    if _is_torch_module(model):
        if example_inputs is None:
            raise user_error(
                "example-inputs",
                f"a torch module must come with example inputs; `{type(model).__name__}` has none",
                hint="example_inputs=torch.zeros(1, 1, 28, 28), in the shape of one frame",
                stage="arguments",
            )
        return ModelSource(file_name(type(model).__name__), content=export_module(model, example_inputs))
    if example_inputs is not None:
        raise user_error(
            "example-inputs",
            f"example inputs are for a torch module; the model is {_kind(model)}",
            hint="leave example_inputs out",
            stage="arguments",
        )
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return ModelSource(path.stem, path)
    content = _bytes_of(model)
    return ModelSource(_graph_name(content), content=content)


def _is_torch_module(model: object) -> bool:
    """Return whether a value is a module of torch, which is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _bytes_of(model: object) -> bytes:
    message = getattr(model, "model_proto", model)  # what torch.onnx.export returns has its message there
    if isinstance(message, bytes | bytearray | memoryview):
        return bytes(message)
    if isinstance(message, ProtobufMessage):
        try:
            return message.SerializeToString()
        except (ValueError, DecodeError) as error:
            raise _too_large(error) from None
    raise user_error(
        "model-type",
        "the model must be a path, the bytes of an ONNX file, an onnx.ModelProto or a torch.nn.Module, not "
        f"{_kind(model)}",
        hint="export it to ONNX, and give the path of the file",
        stage="arguments",
    )


def _too_large(error: Exception) -> UserError:
    message = f"the model must be smaller than 2 GiB in memory; protobuf says: {error}"
    hint = "save it with external data, and give the path of the file"
    return user_error("too-large", message, hint=hint, stage="arguments")


def _graph_name(content: bytes) -> str:
    """Return the name of the graph in the bytes of a file; faults of the file are left to the reader."""
    message = ModelProto()
    try:
        message.ParseFromString(content)
    except (DecodeError, RecursionError, MemoryError, RuntimeError):
        return DEFAULT_NAME
    return file_name(message.graph.name.decode(errors="replace")) or DEFAULT_NAME


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
