"""Depths of FIFOs that somebody has chosen: whether the circuit lives with them, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_hw.ir.design import Edge
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import did_you_mean
from onnx_hw.schedule.min_fifo_depths import least


def check_fifo_depths(given: Mapping[str, int], edges: Mapping[str, Edge]) -> None:
    """Raise ``UserError`` for all depths that belong to no edge, or are impossible."""
    problems = [
        Problem("fifo-tensor", f"no FIFO carries a tensor `{tensor}`", "", did_you_mean(tensor, edges), "schedule")
        for tensor in given
        if tensor not in edges
    ]
    problems += [
        Problem("fifo-depth", f"a FIFO must hold 1 token or more, not {depth}", _where(edges[tensor]), "", "schedule")
        for tensor, depth in given.items()
        if tensor in edges and depth < 1
    ]
    if problems:
        raise UserError(*problems)


def too_shallow(
    given: Mapping[str, int],
    edges: Mapping[str, Edge],
    live_depths: Mapping[str, int],
    ample: Mapping[str, int],
    is_live: Callable[[Mapping[str, int]], bool],
) -> list[Problem]:
    """Return every given depth that is too small, and what is needed.

    Args:
        live_depths: the least depth of each edge, all others being ample.
        is_live: returns whether the network is live with some depths, all others being ample.
    """
    problems: list[Problem] = []
    before: dict[str, int] = {}
    for tensor, depth in given.items():
        start = max(depth, live_depths[tensor])
        needed = least(lambda d, t=tensor: is_live(before | {t: d}), start, ample[tensor])  # type: ignore[misc]
        if depth < needed:
            beside = "" if needed == live_depths[tensor] else ", with the depths given before"
            message = f"the FIFO of `{tensor}` must hold at least {needed} tokens{beside}, not {depth}: "
            message += "with fewer the circuit comes to a stop"
            hint = f"give {needed} or more, or no depth at all: then one is chosen"
            problems.append(Problem("fifo-too-shallow", message, _where(edges[tensor]), hint, "schedule"))
        before[tensor] = needed
    return problems


def _where(edge: Edge) -> str:
    assert edge.producer is not None
    end = f"the core `{edge.consumer[0]}`" if edge.consumer else "an output"
    return f"from the core `{edge.producer[0]}` to {end}"
