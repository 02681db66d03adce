"""Many builds of a model at once: the results of every combination of a few settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx_hw.commands.explore.explore import Limits, explore
from onnx_hw.commands.explore.grid import ChoiceGrid, command
from onnx_hw.commands.explore.networks import Networks
from onnx_hw.commands.explore.result import Explored, Tally
from onnx_hw.commands.explore.row import ExploreRow
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import file_name
from onnx_hw.runtime.artifact_store import user_store
from onnx_hw.runtime.build_folder import cannot_write, opened
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.open_executor import open_executor

UNTIL = (Stage.SCHEDULE, Stage.SYNTHESIZE, Stage.ROUTE, Stage.PACK)


@dataclass(frozen=True, kw_only=True)
class ExploreOptions:
    """Options of ``onnx-hw explore``.

    Attributes:
        like: options of a build, in which the grid's settings replace its own.
        grid: settings to try.
        limits: conditions to stop.
        jobs: jobs at once; None for one per processor.
        scheduler: address of a dask scheduler, whose workers do it; None for this machine.
    """

    like: BuildOptions
    grid: ChoiceGrid = field(default_factory=ChoiceGrid)
    limits: Limits = field(default_factory=Limits)
    jobs: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        """Raise ``UserError`` for numbers out of range, and for options that exclude each other."""
        problems = []
        if self.jobs is not None and self.jobs < 1:
            problems.append(Problem("argument", f"there must be at least one job, not {self.jobs}", "--jobs"))
        if self.limits.until not in UNTIL:
            message = f"it must stop after one of {', '.join(UNTIL)}, not {self.limits.until}"
            problems.append(Problem("argument", message, "--stop-after"))
        if self.scheduler is not None and any(board.endswith(".py") for board in self.grid.boards):
            message = "workers elsewhere must know the boards: a board of your own is a file of this machine"
            problems.append(Problem("argument", message, "--board", "leave out --scheduler"))
        if problems:
            raise UserError(*problems)

    @property
    def folder(self) -> Path:
        return self.like.out or Path(f"{file_name(self.like.model.stem)}-explored")


def explore_model(
    options: ExploreOptions,
    progress: Progress | None = None,
    changed: Callable[[tuple[ExploreRow, ...]], None] = lambda rows: None,
) -> Explored:
    """Try every choice of the grid; ``explore.json`` and ``explore.html`` are written, also when it is interrupted.

    Args:
        changed: called with all rows whenever one has changed.

    Raises:
        UserError: anything the user can mend; not for a choice that cannot be built, whose row says why.
        ToolMissing: a program is not there.
    """
    import time

    from onnx_hw.commands.explore.report import write_explored

    started = time.monotonic()
    network = Networks(replace(options.like, stop_after=options.limits.until), progress or Silent())
    for choice in options.grid.choices():
        network(choice)  # what is wrong with the model is said before anything begins
    network.require_samples_for(options.limits.until)
    choices = {choice: command(options.like.model, options.like, choice) for choice in options.grid.choices()}
    store, tally = user_store(options.like.store), Tally()
    last: tuple[ExploreRow, ...] = ()
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(options.folder, error) from error

    def heard(rows: tuple[ExploreRow, ...]) -> None:
        nonlocal last
        last = rows
        changed(rows)

    with opened(options.folder) as folder:
        try:
            with open_executor(options.scheduler, options.jobs, store.path) as workers:
                last = explore(network, choices, store, workers, options.limits, heard, tally, network.quality)
        finally:
            made = Explored(options.folder, last, tally, time.monotonic() - started)
            write_explored(made, network.name, folder)
            store.prune()
    return made
