"""Operator sets a model imports: which version of each domain its nodes mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onnx_hw.messages.text import quote
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.strings import text

#: Newest published version of the standard domains. A greater one may have changed any operator.
NEWEST: Final = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}

DEFAULT_NAMES: Final = ("", "ai.onnx")


def domain_of(name: str) -> str:
    """The default domain has two spellings, "" and ``ai.onnx``; here it is always ""."""
    return "" if name in DEFAULT_NAMES else name


def domain_name(domain: str) -> str:
    """How messages name a domain."""
    return quote(domain) if domain else "the default domain (ai.onnx)"


def read_opsets(entries: Sequence[Any], ir_version: int, where: str, findings: Findings) -> dict[str, int]:
    """Imported version by domain, from ``OperatorSetIdProto`` messages; a version that cannot be is left out."""
    found: dict[str, int] = {}
    for index, entry in enumerate(entries):
        place = f"{where}[{index}]"
        domain = domain_of(text(entry.domain, place, findings))
        version = entry.version
        if version < 1:
            given = version if entry.HasField("version") else "missing"
            findings.must("opset-version", f"an operator set's version must be 1 or greater; it is {given}", place)
            continue
        if version > NEWEST.get(domain, version):
            findings.newer(
                "opset-unknown",
                f"the newest published version of {domain_name(domain)} is {NEWEST[domain]}; this is {version}",
                place,
                "an operator may mean something else there: convert the model to a published version, "
                "or try it as it is with --newer",
            )
            version = NEWEST[domain]
        if domain in found:
            report = findings.should if found[domain] == version else findings.must
            report(
                "opset-repeated",
                f"{domain_name(domain)} should be imported once; it is imported as {found[domain]} and {version}",
                place,
            )
        found.setdefault(domain, version)
    if 0 < ir_version < 3:
        if entries:
            findings.should(
                "opset-before-ir3", f"IR version {ir_version} has no opset_import; it is honoured nevertheless", where
            )
        found.setdefault("", 1)
    return found
