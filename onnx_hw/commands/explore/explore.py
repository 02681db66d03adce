"""Many builds of one network: planned by arithmetic, pruned, then synthesized and routed, the most promising first."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.explore import worker
from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.networks import Quality
from onnx_hw.commands.explore.pareto import front
from onnx_hw.commands.explore.result import Tally
from onnx_hw.commands.explore.row import ENDED, ExploreRow, State, costs_of, with_front
from onnx_hw.commands.explore.store_transfer import Parcel, pack, unpack
from onnx_hw.commands.explore.task import RESULTS, SOURCES, Task, keep_circuit, versions
from onnx_hw.implement import route, synthesize
from onnx_hw.implement.check_fit import check_fit
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.runtime.artifact_store import Store
from onnx_hw.runtime.build_folder import Made
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.executors import Workers, worker_died
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board

__all__ = ["Limits", "Tally", "explore"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Conditions to stop.

    Attributes:
        until: last stage: schedule (arithmetic alone), synthesize, route or pack.
        clock_mhz: a design that reaches it needs no further seeds.
        seconds: time after which nothing is started, and everything is stopped.
        everything: also build designs that another one dominates by estimate.
    """

    until: Stage = Stage.PACK
    clock_mhz: float | None = None
    seconds: float | None = None
    everything: bool = False


@dataclass(frozen=True)
class _Job:
    """Call of a worker, and the function that gets its result."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    then: Callable[[Any], None]
    wanted: Callable[[], bool]  # by a row that has not ended


def explore(
    network: Callable[[Choice], Network],
    choices: Mapping[Choice, str],
    store: Store,
    workers: Workers,
    limits: Limits | None = None,
    changed: Callable[[tuple[ExploreRow, ...]], None] = lambda rows: None,
    tally: Tally | None = None,
    quality: Callable[[Choice], Quality] = lambda choice: Quality(),
) -> tuple[ExploreRow, ...]:
    """Build every choice, and return its row.

    Results in the store are not made again, so that an exploration that was interrupted continues.

    Args:
        network: returns the network of a choice.
        choices: choices, each with the command that builds it.
        changed: called with all rows whenever one has changed.
        quality: returns the quality of a choice's network.

    Raises:
        UserError: no worker is left.
        ToolMissing: a program is not there.
    """
    exploration = _Exploration(network, choices, store, workers, limits or Limits(), changed, tally or Tally(), quality)
    return exploration.all()


@dataclass
class _Exploration:
    """An exploration under way; its fields are the arguments of ``explore``."""

    network: Callable[[Choice], Network]
    choices: Mapping[Choice, str]
    store: Store
    workers: Workers
    limits: Limits
    changed: Callable[[tuple[ExploreRow, ...]], None]
    tally: Tally
    quality: Callable[[Choice], Quality]

    def __post_init__(self) -> None:
        self.rows = [ExploreRow(number, *choice) for number, choice in enumerate(self.choices.items(), 1)]
        self.boards: dict[str, Board] = {choice.board: find_board(choice.board) for choice in self.choices}
        self.plans: dict[Choice, worker.PlannedDesign] = {}
        self.asked: dict[Task, list[tuple[tuple[int, ...], Callable[[Made], None]]]] = {}
        self.ready: list[tuple[tuple[float, ...], int, _Job]] = []
        self.running: dict[Future[Any], _Job] = {}
        self.numbers = itertools.count()
        self.end = None if self.limits.seconds is None else time.monotonic() + self.limits.seconds

    def all(self) -> tuple[ExploreRow, ...]:
        if self.limits.until is not Stage.SCHEDULE:
            for board in self.boards.values():
                versions(Stage.SYNTHESIZE, board)  # a program that is missing is missed at once
        for design, rows in self._designs().items():
            self._add(
                (0.0,),
                _Job(
                    worker.plan, (self.network(design), design), _then(self._planned, design, rows), self._still(rows)
                ),
            )
        self._work()
        self._prune()
        if self.limits.until is not Stage.SCHEDULE:
            for design, rows in self._designs().items():
                if rows and self.rows[rows[0]].state is State.PLANNED:
                    begin = (self.plans[design].design,)
                    then = _then(self._circuit, design, rows)
                    self._add(self._promise(design, 0), _Job(worker.circuit, begin, then, self._still(rows)))
            self._work()
        return with_front(self.rows)

    def _designs(self) -> dict[Choice, tuple[int, ...]]:
        """Return the rows of every design, from 0: one for each seed."""
        found: dict[Choice, list[int]] = {}
        for row in self.rows:
            found.setdefault(row.choice.design, []).append(row.number - 1)
        return {design: tuple(rows) for design, rows in found.items()}

    def _still(self, rows: tuple[int, ...]) -> Callable[[], bool]:
        """Return a function that says whether one of the rows has not ended yet."""
        return lambda: any(self.rows[k].state not in ENDED for k in rows)

    def _change(self, rows: Iterable[int], **what: Any) -> None:
        for k in rows:
            self.rows[k] = replace(self.rows[k], **what)
        self.changed(with_front(self.rows))

    def _promise(self, design: Choice, depth: int, seed: int = 0) -> tuple[float, ...]:
        """Return the order of a job: small for designs that have come far, then for fast and small ones."""
        planned = self.plans[design]
        return -depth, planned.interval / planned.clock_mhz, planned.estimate.lut, seed

    def _add(self, promise: tuple[float, ...], job: _Job) -> None:
        heapq.heappush(self.ready, (promise, next(self.numbers), job))

    def _work(self) -> None:
        """Run jobs until nothing is left to do, or the time is over."""
        while self.ready or self.running:
            while self.ready and len(self.running) < self.workers.width:
                job = heapq.heappop(self.ready)[2]
                if job.wanted():
                    self.running[self.workers.submit(job.call, *job.arguments)] = job
            left = None if self.end is None else max(0.0, self.end - time.monotonic())
            done, _ = wait(self.running, timeout=left, return_when=FIRST_COMPLETED)
            for future in done:
                job = self.running.pop(future)
                try:
                    job.then(future.result())
                except BrokenExecutor as error:
                    raise worker_died() from error
            if self.end is not None and time.monotonic() >= self.end:
                self._leave(range(len(self.rows)), "the time was over")
                for future in self.running:
                    future.cancel()
                self.ready, self.running = [], {}

    def _leave(self, rows: Iterable[int], why: str) -> None:
        last = {Stage.SYNTHESIZE: State.SYNTHESIZED, Stage.ROUTE: State.ROUTED}.get(self.limits.until, State.PACKED)
        waiting = [k for k in rows if self.rows[k].state not in ENDED | {last}]
        self._change(waiting, state=State.LEFT_OUT, why=why)

    def _planned(self, design: Choice, rows: tuple[int, ...], found: worker.PlannedDesign | worker.Failed) -> None:
        if isinstance(found, worker.Failed):
            self._change(rows, state=State.REFUSED, why=found.why)
            return
        self.plans[design] = found
        self._change(
            rows,
            state=State.PLANNED,
            lanes=found.lanes,
            interval=found.interval,
            latency=found.latency,
            estimate=found.estimate,
            target_mhz=found.clock_mhz,
            frames_per_second=_rate(found, found.clock_mhz),
            sqnr_db=self.quality(design).sqnr_db,
            accuracy=self.quality(design).accuracy,
        )

    def _prune(self) -> None:
        """End the rows of designs that another one is, or beats; bits and boards do not compete."""
        kinds: dict[tuple[Any, ...], list[tuple[Choice, tuple[int, ...]]]] = {}
        for design, rows in self._designs().items():
            if design in self.plans:
                kinds.setdefault((design.board, design.scheduling.clock_mhz, design.integers), []).append(
                    (design, rows)
                )
        for alike in kinds.values():
            first: dict[str, ExploreRow] = {}
            for design, rows in alike:
                before = first.setdefault(repr(self.plans[design].design), self.rows[rows[0]])
                if before.choice.design != design:
                    self._change(rows, state=State.SAME, why=f"the design of {before.choice}")
            left = [(design, rows) for design, rows in alike if self.rows[rows[0]].state is State.PLANNED]
            plans = [self.plans[design] for design, _ in left]
            counts = any(design.scheduling.wants_latency for design, _ in left)
            costs = [costs_of(plan.estimate, plan.interval, plan.latency if counts else 0) for plan in plans]
            for (_, rows), kept in zip(left, front(costs), strict=True):
                if not kept and not self.limits.everything:
                    self._change(rows, state=State.DOMINATED, why="another design is smaller and as fast, by estimate")

    def _circuit(self, design: Choice, rows: tuple[int, ...], found: worker.StoredCircuit | worker.Failed) -> None:
        if isinstance(found, worker.Failed):
            self._change(rows, state=State.REFUSED, why=found.why)
            return
        board = self.boards[design.board]
        source = keep_circuit(found.text, self.store)
        task = Task(Stage.SYNTHESIZE, source, design.board, versions(Stage.SYNTHESIZE, board))
        self._ask(task, rows, self._promise(design, 1), _then(self._synthesized, design, rows, found))

    def _ask(self, task: Task, rows: tuple[int, ...], promise: tuple[float, ...], then: Callable[[Made], None]) -> None:
        """Run a task once for all rows that want it."""
        clients = self.asked.setdefault(task, [])
        clients.append((rows, then))
        if len(clients) == 1:
            self._send(task, promise)

    def _send(self, task: Task, promise: tuple[float, ...], parcel: Parcel | None = None) -> None:
        arguments = (task, self.workers.store, self.store.identity, parcel)
        wanted = self._still(tuple(k for rows, _ in self.asked[task] for k in rows))
        self._add(promise, _Job(worker.work, arguments, _then(self._answered, task), wanted))

    def _answered(self, task: Task, answer: worker.Done | worker.MissingArtifacts | worker.Failed) -> None:
        if isinstance(answer, worker.MissingArtifacts):
            parcel = pack(self.store, SOURCES[task.stage], task.source)
            self.tally.sent += parcel.size
            self._send(task, (-math.inf,), parcel)
            return
        clients = self.asked.pop(task)
        if isinstance(answer, worker.Failed):
            state = State.TOO_BIG if answer.kind == "too-big" else State.FAILED
            self._change([k for rows, _ in clients for k in rows], state=state, why=answer.why)
            return
        count = self.tally.cached if answer.cached else self.tally.run
        count[task.stage.value] = count.get(task.stage.value, 0) + 1
        if answer.parcel is not None:
            self.tally.received += answer.parcel.size
            unpack(answer.parcel, self.store)
        entry = self.store.find(RESULTS[task.stage], answer.digest)
        if entry is None:
            raise user_error("store", "what was made must stay in the store; it is gone", where=str(self.store.path))
        for _, then in clients:
            then(Made(entry.folder, entry.digest, answer.cached, entry.files))

    def _synthesized(self, design: Choice, rows: tuple[int, ...], made_of: worker.StoredCircuit, made: Made) -> None:
        board = self.boards[design.board]
        used = synthesize.read_result(made, board.family).used
        self._change(rows, state=State.SYNTHESIZED, used=used)
        try:
            check_fit(used, board)
        except UserError as error:
            self._change(rows, state=State.TOO_BIG, why=error.problems[0].message)
            return
        if self.limits.until is Stage.SYNTHESIZE:
            return
        for k in rows:
            seed = self.rows[k].choice.seed
            task = Task(
                Stage.ROUTE,
                made.digest,
                design.board,
                versions(Stage.ROUTE, board),
                made_of.constraints,
                made_of.clock_mhz,
                seed,
            )
            self._ask(task, (k,), self._promise(design, 2, seed), _then(self._routed, design, k, task))

    def _routed(self, design: Choice, k: int, task: Task, made: Made) -> None:
        board, planned = self.boards[design.board], self.plans[design]
        found = route.read_result(made, board, task.clock_mhz)
        clock = found.fmax_mhz if isinstance(board, BareChip) else found.timing_met and task.clock_mhz
        rate = _rate(planned, clock) if clock else None
        self._change([k], state=State.ROUTED, fmax_mhz=found.fmax_mhz, frames_per_second=rate)
        if self.limits.clock_mhz is not None and found.fmax_mhz >= self.limits.clock_mhz:
            others = [n for n in self._designs()[design] if n != k and self.rows[n].fmax_mhz is None]
            self._leave(others, f"row {k + 1} reaches the clock")
        if self.limits.until is Stage.ROUTE:
            return
        last = Task(Stage.PACK, made.digest, design.board, versions(Stage.PACK, board), clock_mhz=task.clock_mhz)
        self._ask(last, (k,), self._promise(design, 3), _then(self._packed, k))

    def _packed(self, k: int, made: Made) -> None:
        self._change([k], state=State.PACKED, bitstream=made.files[route.BITSTREAM])


def _then(method: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
    return lambda result: method(*arguments, result)


def _rate(planned: worker.PlannedDesign, clock_mhz: float) -> float:
    """Frames a second."""
    rate = clock_mhz * 1e6 / planned.interval
    return rate if planned.most_fps is None else min(rate, planned.most_fps)
