"""Coverage of directed vectors, as a report states it. Reading a report imports this module, and no simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from onnx_hw.ir.network import NetworkNode
    from onnx_hw.ops.test_vectors import TestVectors


@dataclass(frozen=True)
class DirectedVectorCoverage:
    """Directed vectors for sums of products, requantizers and tables, each core alone, in addition to the frames."""

    cores: Annotated[int, "number of cores that were simulated with directed vectors"]
    of_cores: Annotated[int, "number of cores with sums, requantizers or tables"]
    thresholds: Annotated[int, "thresholds of step functions of which both sides were covered"]
    of_thresholds: Annotated[int, "all thresholds within the reachable ranges"]
    places: Annotated[int, "entries of tables that were read"]
    of_places: Annotated[int, "all entries of tables that an argument within the reachable ranges selects"]
    ends: Annotated[int, "ends of the reachable ranges, channel by channel, that sums and arguments reached"]
    of_ends: Annotated[int, "all such ends: two of every sum, and two of the argument of every requantizer and table"]

    @classmethod
    def count(
        cls, selected: Mapping[NetworkNode, TestVectors], available: Mapping[NetworkNode, TestVectors]
    ) -> DirectedVectorCoverage:
        """Add up what the vectors of the selected cores cover, of what those of all cores could."""
        counts = {"cores": len(selected), "of_cores": len(available)}
        for name in ("thresholds", "places", "ends"):
            counts[name] = sum(getattr(vectors, name) for vectors in selected.values())
            counts[f"of_{name}"] = sum(getattr(vectors, f"of_{name}") for vectors in available.values())
        return cls(**counts)

    def __str__(self) -> str:
        parts = [f"{self.cores} of {self.of_cores} sums, requantizers and tables"]
        if self.of_thresholds:
            parts.append(f"{self.thresholds:,} of {self.of_thresholds:,} thresholds from both sides")
        if self.of_places:
            parts.append(f"{self.places:,} of {self.of_places:,} places of tables")
        return f"{', '.join(parts)}, {self.ends:,} of {self.of_ends:,} ends of their ranges"
