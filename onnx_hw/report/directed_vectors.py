"""What sums, requantizers and tables were shown: a section of the report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult


@dataclass(frozen=True)
class Reached:
    """What sums of products, requantizers and tables were shown beside the frames, each core alone."""

    cores: Annotated[int, "cores that were shown something"]
    of_cores: Annotated[int, "cores of that kind"]
    thresholds: Annotated[int, "thresholds of step functions that were shown from both sides"]
    of_thresholds: Annotated[int, "thresholds that there are within the reachable ranges"]
    places: Annotated[int, "places of tables that were read"]
    of_places: Annotated[int, "places of tables that an argument within the reachable ranges leads to"]
    ends: Annotated[int, "ends of the reachable ranges, channel by channel, that sums and arguments were driven to"]
    of_ends: Annotated[int, "such ends: two of every sum, and two of every requantizer's and table's argument"]


def describe_reach(reached: DirectedVectorResult) -> Reached | None:
    """None where there are no such cores."""
    if not reached.of_cores:
        return None
    return Reached(**{field.name: getattr(reached, field.name) for field in fields(Reached)})
