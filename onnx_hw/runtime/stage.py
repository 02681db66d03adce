"""Stages of a build."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """The stages of a build, in order."""

    READ = "read"
    QUANTIZE = "quantize"
    SCHEDULE = "schedule"
    ASSEMBLE = "assemble"
    SIMULATE = "simulate"
    SYNTHESIZE = "synthesize"
    GATES = "gates"
    ROUTE = "route"
    PACK = "pack"
    UNPACK = "unpack"

    @classmethod
    def until(cls, last: Stage) -> tuple[Stage, ...]:
        """Return every stage up to and including ``last``."""
        stages = tuple(cls)
        return stages[: stages.index(last) + 1]
