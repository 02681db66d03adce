"""Choice of the executor."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from onnx_hw.runtime.workers.executors import Workers


def open_executor(scheduler: str | None, jobs: int | None, store: Path) -> AbstractContextManager[Workers]:
    """Processes of this machine, or the workers of a dask scheduler.

    Args:
        scheduler: its address; None for this machine.
        jobs: tasks at once; None for one per processor, or per worker.
        store: of this machine's processes.

    Raises:
        UserError: there is no such scheduler.
    """
    if scheduler is None:
        from onnx_hw.runtime.workers.processes import processes

        return processes(jobs, store)
    from onnx_hw.runtime.workers.cluster import cluster

    return cluster(scheduler, jobs)
