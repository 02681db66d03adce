"""Coverage of directed vectors, as a report states it. Reading a report imports this module, and no simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from onnx_hw.messages.text import abridged

MAX_NAMES = 160
"""Characters of the names of cores that are left out."""

if TYPE_CHECKING:
    from onnx_hw.ir.network import NetworkNode
    from onnx_hw.ops.test_vectors import TestVectors


@dataclass(frozen=True)
class DirectedVectorCoverage:
    """Directed vectors for cores that compute, each core alone, in addition to the frames."""

    cores: Annotated[int, "number of cores that were simulated with directed vectors"]
    of_cores: Annotated[int, "number of cores whose results have a range"]
    thresholds: Annotated[int, "thresholds of step functions of which both sides were covered"]
    of_thresholds: Annotated[int, "all thresholds within the reachable ranges"]
    places: Annotated[int, "entries of tables that were read"]
    of_places: Annotated[int, "all entries of tables that an argument within the reachable ranges selects"]
    ends: Annotated[int, "ends of the reachable ranges, channel by channel, that results and arguments reached"]
    of_ends: Annotated[int, "all such ends: two of every result, or of the argument of a requantizer or a table"]
    left_out: Annotated[tuple[str, ...], "names of the cores for which there was no time"]

    @classmethod
    def count(
        cls, selected: Mapping[NetworkNode, TestVectors], available: Mapping[NetworkNode, TestVectors]
    ) -> DirectedVectorCoverage:
        """Add up what the vectors of the selected cores cover, of what those of all cores could."""
        counts: dict[str, Any] = {"cores": len(selected), "of_cores": len(available)}
        counts["left_out"] = tuple(node.name for node in available if node not in selected)
        for name in ("thresholds", "places", "ends"):
            counts[name] = sum(getattr(vectors, name) for vectors in selected.values())
            counts[f"of_{name}"] = sum(getattr(vectors, f"of_{name}") for vectors in available.values())
        return cls(**counts)

    def __str__(self) -> str:
        parts = [f"{self.cores} of {self.of_cores} cores that compute"]
        if self.of_thresholds:
            parts.append(f"{self.thresholds:,} of {self.of_thresholds:,} thresholds from both sides")
        if self.of_places:
            parts.append(f"{self.places:,} of {self.of_places:,} places of tables")
        said = f"{', '.join(parts)}, {self.ends:,} of {self.of_ends:,} ends of their ranges"
        return f"{said}; not {abridged(', '.join(self.left_out), MAX_NAMES)}" if self.left_out else said
