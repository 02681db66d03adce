"""First stage of reading, from a path to messages. It says what the file is when it is not an ONNX model."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.near_paths import hint_for_missing_file
from onnx_hw.onnx.parse.large_data import NotSplit, SplitFile, split_file
from onnx_hw.onnx.parse.protobuf_schema import ModelProto

#: protobuf's own limit; larger weights belong in external data.
MAX_BYTES = (1 << 31) - 1


def parse_file(path: Path) -> Any:
    """Parse the whole ``ModelProto`` message in a file.

    Raises:
        UserError: stage ``parse``; the file is missing, unreadable, not a regular file, or not an ONNX model.
    """
    return _parse(_content(path).message, str(path))


def parse_large_file(path: Path) -> tuple[Any, Mapping[int, bytes | memoryview]]:
    """Parse the ``ModelProto`` message in a file; the large data of its constants are kept apart (``large_data``).

    Returns:
        the message, and the raw data that it lacks, by the position of the initializer in the graph.

    Raises:
        UserError: as ``parse_file``.
    """
    content = _content(path, split=True)
    return _parse(content.message, str(path)), content.raw_data


def _parse(data: bytes, name: str) -> Any:
    _refuse_what_is_no_model(data, name)
    message = ModelProto()
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError, MemoryError, RuntimeError):
        # "from None": the protobuf runtimes word this differently and none of them says more than "error".
        raise _refusal(
            "not-onnx",
            "the file must hold one complete ONNX model (a protobuf ModelProto), but its bytes cannot be decoded",
            name,
            "it may be truncated, damaged, or nest more than 100 messages deep; export or download it again",
        ) from None
    return message


def _content(path: Path, *, split: bool = False) -> SplitFile:
    """Return the content of a file, with its large data kept apart if it is to be ``split`` and is a plain message."""
    try:
        # O_NONBLOCK: a named pipe must not keep us waiting before we know that it is not a regular file.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            hint = hint_for_missing_file(path, "check the path and the current folder")
            raise _refusal("no-such-file", "the model file must exist", str(path), hint) from None
        if isinstance(error, IsADirectoryError):
            raise _refusal("not-a-file", "the model must be a file, not a folder", str(path), _inside(path)) from None
        reason = getattr(error, "strerror", None) or str(error)
        raise _refusal("unreadable-file", f"the model file must be readable ({reason})", str(path)) from None
    try:
        _refuse_other_than_file(os.fstat(handle), path)
        with os.fdopen(handle, "rb", closefd=False) as file:
            size = os.fstat(handle).st_size  # read(n) takes n bytes at once, however short the file is
            if split:
                with suppress(NotSplit):
                    return split_file(file, size)
                file.seek(0)
            return SplitFile(file.read(min(size, MAX_BYTES) + 1), {})
    except OSError as error:
        raise _refusal("unreadable-file", f"the model file must be readable ({error.strerror})", str(path)) from None
    finally:
        os.close(handle)


def _refuse_other_than_file(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise _refusal("not-a-file", "the model must be a file, not a folder", str(path), _inside(path))
    if not stat.S_ISREG(status.st_mode):
        raise _refusal("not-a-file", "the model must be a regular file, not a device or pipe", str(path))
    if status.st_size > MAX_BYTES:
        raise _refusal(
            "too-large",
            f"a protobuf file must be smaller than 2 GiB, not {status.st_size:,} bytes",
            str(path),
            "save the model with external data, so that the weights lie in a file beside it",
        )


def _inside(folder: Path) -> str:
    try:
        models = sorted(folder.glob("*.onnx"))
    except OSError:
        models = []
    return f"did you mean {models[0]}?" if models else "give the path of the .onnx file"


def _refuse_what_is_no_model(data: bytes, name: str) -> None:
    """Refuse files that people really pass by mistake, each with its own sentence."""
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not data:
        raise _refusal("empty-file", "the file must hold an ONNX model, but it is empty", name)
    if start.startswith(b"version https://git-lfs"):
        raise _refusal(
            "git-lfs-pointer",
            "the file must hold an ONNX model, but it is a Git LFS pointer: the model itself was not downloaded",
            name,
            "run `git lfs pull` in the repository that it comes from",
        )
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        raise _refusal(
            "html-page",
            "the file must hold an ONNX model, but it is a web page",
            name,
            "download the raw file: on GitHub use the Raw button, on other sites the direct link",
        )
    if data.startswith(b"\n\x09ONNXOPSET"):
        raise _refusal("operator-set", "the file must hold a model, but it is an ONNX operator set", name)
    if data.startswith(b"PK\x03\x04"):
        raise _refusal(
            "archive",
            "the file must hold an ONNX model, but it is a zip archive",
            name,
            "unpack it; a PyTorch .pt file must be exported with torch.onnx.export first",
        )
    if data.startswith(b"\x89HDF"):
        raise _refusal("keras-file", "the file must hold an ONNX model, but it is HDF5 (Keras)", name, "use tf2onnx")
    if data[4:8] == b"TFL3":
        message = "the file must hold an ONNX model, but it is TensorFlow Lite"
        raise _refusal("tflite-file", message, name, "use tf2onnx")
    if start[:1] in (b"{", b"["):
        raise _refusal(
            "json-text",
            "the file must hold an ONNX model in binary protobuf, but it is JSON text",
            name,
            "save the model with onnx.save",
        )
    if _is_text(data[:4096]):
        raise _refusal("text-file", "the file must hold an ONNX model in binary protobuf, but it is text", name)


def _is_text(sample: bytes) -> bool:
    """Tell whether these bytes are words that a person typed. A model's first bytes are never all printable."""
    return all(byte >= 32 or byte in b"\t\r\n" for byte in sample)


def _refusal(code: str, message: str, where: str, hint: str = "") -> UserError:
    return user_error(code, message, where=where, hint=hint, stage="parse")
