"""Text of the file: bytes on the wire, UTF-8 by the specification, never trusted."""

from __future__ import annotations

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings


def decode_text(data: bytes, where: str, findings: Findings) -> str:
    """Decode a name, key or value; report it when it is not UTF-8 and go on with a readable substitute."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        substitute = data.decode("utf-8", "backslashreplace")
        findings.must("not-utf-8", f"text must be UTF-8; {quote(substitute)} is not", where)
        return substitute


def decode_remark(data: bytes, where: str, findings: Findings) -> str:
    """Decode free text (producer, documentation), which never decides anything: a warning at most."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        findings.should("not-utf-8", "free text should be UTF-8", where)
        return data.decode("utf-8", "backslashreplace")
