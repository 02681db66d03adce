"""Operator sets that a model imports: the version of each domain that its nodes mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.strings import decode_text

#: Newest published version of the standard domains. A greater one may have changed any operator.
NEWEST: Final = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}

DEFAULT_NAMES: Final = ("", "ai.onnx")


def domain_of(name: str) -> str:
    """Return the domain, "" for both spellings of the default domain ("" and ``ai.onnx``)."""
    return "" if name in DEFAULT_NAMES else name


def domain_name(domain: str) -> str:
    """Return the name of a domain in messages."""
    return quote(domain) if domain else "the default domain (ai.onnx)"


def read_opsets(entries: Sequence[Any], ir_version: int, where: str, findings: Findings) -> dict[str, int]:
    """Read the imported version of each domain from ``OperatorSetIdProto`` messages, without impossible versions."""
    versions: dict[str, int] = {}
    for index, entry in enumerate(entries):
        entry_where = f"{where}[{index}]"
        domain = domain_of(decode_text(entry.domain, entry_where, findings))
        version = entry.version
        if version < 1:
            actual = version if entry.HasField("version") else "missing"
            findings.must(
                "opset-version", f"an operator set's version must be 1 or greater; it is {actual}", entry_where
            )
            continue
        if version > NEWEST.get(domain, version):
            findings.newer(
                "opset-unknown",
                f"the newest published version of {domain_name(domain)} is {NEWEST[domain]}; this is {version}",
                entry_where,
                "an operator may mean something else there: convert the model to a published version, "
                "or try it as it is with --newer",
            )
            version = NEWEST[domain]
        if domain in versions:
            report = findings.should if versions[domain] == version else findings.must
            report(
                "opset-repeated",
                f"{domain_name(domain)} should be imported once; it is imported as {versions[domain]} and {version}",
                entry_where,
            )
        versions.setdefault(domain, version)
    if 0 < ir_version < 3:
        if entries:
            findings.should(
                "opset-before-ir3", f"IR version {ir_version} has no opset_import; it is honoured nevertheless", where
            )
        versions.setdefault("", 1)
    return versions
