"""Section of the report about directed vectors: coverage of sums, requantizers and tables."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult


@dataclass(frozen=True)
class DirectedVectorsSection:
    """Directed vectors for sums of products, requantizers and tables, each core alone, in addition to the frames."""

    cores: Annotated[int, "number of cores that were simulated with directed vectors"]
    of_cores: Annotated[int, "number of cores with sums, requantizers or tables"]
    thresholds: Annotated[int, "thresholds of step functions of which both sides were covered"]
    of_thresholds: Annotated[int, "all thresholds within the reachable ranges"]
    places: Annotated[int, "entries of tables that were read"]
    of_places: Annotated[int, "all entries of tables that an argument within the reachable ranges selects"]
    ends: Annotated[int, "ends of the reachable ranges, channel by channel, that sums and arguments reached"]
    of_ends: Annotated[int, "all such ends: two of every sum, and two of the argument of every requantizer and table"]


def describe_reach(reached: DirectedVectorResult) -> DirectedVectorsSection | None:
    """Return the section; None where there are no such cores."""
    if not reached.of_cores:
        return None
    return DirectedVectorsSection(
        **{field.name: getattr(reached, field.name) for field in fields(DirectedVectorsSection)}
    )
