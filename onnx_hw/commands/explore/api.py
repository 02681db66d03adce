"""An exploration for callers from Python."""

from __future__ import annotations

import os
from concurrent.futures import Executor

from onnx_hw.commands.explore.explore import Limits, explore
from onnx_hw.commands.explore.grid import ChoiceGrid
from onnx_hw.commands.explore.row import ExploreRow
from onnx_hw.ir.network import Network
from onnx_hw.runtime.artifact_store import Store, user_store
from onnx_hw.runtime.workers.executors import Workers


def explore_with_executor(
    network: Network, grid: ChoiceGrid, executor: Executor, *, store: Store | None = None, limits: Limits | None = None
) -> tuple[ExploreRow, ...]:
    """Explore every choice of a grid: see ``onnx_hw.commands.explore.explore``.

    Args:
        executor: executor whose workers share the store.
        store: of results, None for the user's.

    Raises:
        UserError: no worker of the executor is left.
        ToolMissing: a program is not there.
    """
    place, width = store or user_store(), getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    choices = {choice: str(choice) for choice in grid.choices()}
    return explore(lambda choice: network, choices, place, Workers(executor, width, place.path), limits)
