"""Many builds at once, with programs that only pretend: what is run, how often, in which order, and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw import flow
from onnx_hw.cli.explore import explore as command
from onnx_hw.commands.explore import worker as workers_side
from onnx_hw.commands.explore.api import explore_with_executor
from onnx_hw.commands.explore.explore import Limits, explore
from onnx_hw.commands.explore.grid import Choice, ChoiceGrid
from onnx_hw.commands.explore.result import Tally
from onnx_hw.commands.explore.row import ExploreRow, State
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.artifact_store import Store
from onnx_hw.runtime.stage import Stage
from onnx_hw.runtime.workers.executors import Workers
from support import fake_tools
from support.cli_runner import call
from support.small_model import small_model

GRID = ChoiceGrid(multipliers=(2, 12), seeds=(1, 2))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model") / "small.onnx")


@pytest.fixture(scope="module")
def small(model: Path) -> Network:
    return flow.quantize(flow.read(model))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the programs that pretend write down that they were called."""
    for name, value in fake_tools.environment(tmp_path / "log").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "log"


@contextmanager
def threads(store: Path | None, width: int = 2) -> Iterator[Workers]:
    with ThreadPoolExecutor(width) as executor:
        yield Workers(executor, width, store)


def explored(
    network: Network,
    grid: ChoiceGrid,
    store: Store,
    limits: Limits | None = None,
    elsewhere: Path | None = None,
    width: int = 2,
) -> tuple[tuple[ExploreRow, ...], Tally]:
    tally = Tally()
    with threads(elsewhere or store.path, width) as workers:
        choices = {choice: str(choice) for choice in grid.choices()}
        rows = explore(lambda choice: network, choices, store, workers, limits, tally=tally)
    return rows, tally


def tools_called(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in fake_tools.calls(log))


def test_a_design_is_synthesized_once_for_all_its_seeds(small: Network, log: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    rows, tally = explored(small, GRID, store)
    assert [row.state for row in rows] == [State.PACKED] * 4 and len({row.bitstream for row in rows}) == 4
    assert tools_called(log) == {"yosys": 2, "nextpnr-ecp5": 4, "ecppack": 4}
    assert tally.run == {"synthesize": 2, "route": 4, "pack": 4} and not tally.cached and not tally.sent
    assert sum(row.knee for row in rows) == 1 and all(row.best for row in rows if row.knee)
    more = replace(GRID, multipliers=(12, 2), seeds=(2, 3))
    again, tally = explored(small, more, store)
    assert tally.run == {"route": 2, "pack": 2} and tally.cached == {"synthesize": 2, "route": 2, "pack": 2}
    first = {row.choice: row.bitstream for row in rows}
    assert all(first.get(row.choice, row.bitstream) == row.bitstream for row in again)


def test_clocks_share_a_synthesis_and_equal_designs_are_one(small: Network, log: Path, tmp_path: Path) -> None:
    grid = ChoiceGrid(multipliers=(2, 3), clocks_mhz=(80.0, 100.0))
    rows, _ = explored(small, grid, Store(tmp_path / "store"))
    same = [row for row in rows if row.state is State.SAME]
    assert all(row.why.startswith("the design of --board ecp5 --multipliers") for row in same)
    routed = [row for row in rows if row.state is State.PACKED]
    assert tools_called(log)["yosys"] == len({row.choice.scheduling.multipliers for row in routed})
    assert tools_called(log)["nextpnr-ecp5"] == len(routed) == 4 - len(same)


def test_workers_with_a_store_of_their_own(small: Network, log: Path, tmp_path: Path) -> None:
    """What travels is what is missing, and the bitstreams are the same."""
    here, _ = explored(small, GRID, Store(tmp_path / "store"))
    own = Store(tmp_path / "owner")
    rows, tally = explored(small, GRID, own, elsewhere=tmp_path / "worker")
    assert [row.bitstream for row in rows] == [row.bitstream for row in here]
    circuits = sum(
        len(workers_side.pack(own, stage, entry.digest).files["top.il"])
        for stage, entry in own.entries()
        if stage == "circuit"
    )
    assert circuits <= tally.sent <= 1.2 * circuits, "netlists are where they were made"
    assert tally.received > 0 and {stage for stage, _ in own.entries()} == {
        "circuit",
        "synthesis",
        "route",
        "bitstream",
    }
    _, tally = explored(small, replace(GRID, seeds=(4,)), own, elsewhere=tmp_path / "third")
    assert not tally.cached and tally.run == {"synthesize": 2, "route": 2, "pack": 2}, "it knows its own"


def test_another_version_is_refused_by_name(
    small: Network, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workers_side.run

    def elsewhere(task: object, store: Store) -> object:
        monkeypatch.setattr("onnx_hw.commands.explore.task.versions", lambda stage, board: {"yosys": "pretended 2.0"})
        return real(task, store)  # type: ignore[arg-type]

    monkeypatch.setattr(workers_side, "run", elsewhere)
    rows, _ = explored(small, ChoiceGrid(multipliers=(2,)), Store(tmp_path / "store"))
    assert rows[0].state is State.FAILED and "yosys" in rows[0].why
    assert "pretended 1.0" in rows[0].why and "pretended 2.0" in rows[0].why


def test_no_more_than_is_asked_for(small: Network, log: Path, tmp_path: Path) -> None:
    rows, _ = explored(small, GRID, Store(tmp_path / "a"), Limits(until=Stage.SCHEDULE))
    assert {row.state for row in rows} == {State.PLANNED} and not log.exists() and any(row.best for row in rows)
    rows, _ = explored(small, GRID, Store(tmp_path / "b"), Limits(until=Stage.SYNTHESIZE))
    assert {row.state for row in rows} == {State.SYNTHESIZED} and tools_called(log) == {"yosys": 2}
    rows, _ = explored(small, GRID, Store(tmp_path / "b"), Limits(until=Stage.ROUTE, clock_mhz=1.0), width=1)
    left = [row for row in rows if row.state is State.LEFT_OUT]
    assert tools_called(log)["nextpnr-ecp5"] == 4 - len(left) == 2
    assert all("reaches the clock" in row.why for row in left)
    rows, _ = explored(small, GRID, Store(tmp_path / "c"), Limits(seconds=0.0))
    assert {row.state for row in rows} == {State.LEFT_OUT}


def test_what_does_not_fit_is_a_row_that_says_so(small: Network, log: Path, tmp_path: Path) -> None:
    grid = ChoiceGrid(boards=("up5k", "ecp5"), multipliers=(1, 8))
    rows, _ = explored(small, grid, Store(tmp_path / "store"), Limits(until=Stage.SCHEDULE))
    refused = [row for row in rows if row.state is State.REFUSED]
    assert refused and all(row.why for row in refused)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--multipliers", "4,eight"], "one whole number, not 'eight'"),
        (["--multipliers", "0"], "x>=1"),
        (["--fps", "nan"], "positive"),
        (["--board", "ecp5,nowhere"], "nowhere"),
        (["--seeds", "200000"], "100,000 combinations"),
        (["--budget", "soon"], "like 2h"),
        (["--stop-at", "100kHz"], "one number of MHz"),
        (["--bits", "weights=4,weights=5"], "weights=N"),
        (["--scheduler", "tcp://127.0.0.1:1", "--board", "mine.py"], "--scheduler"),
    ],
)
def test_what_cannot_be_asked_for(arguments: list[str], says: str, model: Path, tmp_path: Path) -> None:
    done = call("explore", model, "--out", tmp_path / "out", "--stop-after", "schedule", *arguments)
    assert done.exit_code == 1 and says in done.stderr, done.output


def test_without_dask(monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = call("explore", model, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert done.exit_code == 1 and 'pip install "onnx-hw[cluster]"' in done.stderr


def test_the_same_from_python(small: Network, log: Path, tmp_path: Path) -> None:
    with threads(tmp_path / "store") as workers:
        executor: Executor = workers.executor
        rows = explore_with_executor(small, ChoiceGrid(multipliers=(2,)), executor, store=Store(tmp_path / "store"))
    assert [row.state for row in rows] == [State.PACKED]
    with pytest.raises(UserError, match="seeds"):
        ChoiceGrid(seeds=(0,))
    assert Choice(seed=3).design == Choice()


def begin(model: Path, place: Path, seconds: float) -> subprocess.Popen[str]:
    """``onnx-hw explore`` in a process of its own, its programs taking so long."""
    grid = ["--multipliers", "2,12", "--seeds", "3", "--jobs", "2", "--store", "store", "--out", "out"]
    return subprocess.Popen(
        [sys.executable, "-m", "onnx_hw", "explore", str(model), *grid],
        env={**os.environ, **fake_tools.environment(place / "log", seconds)},
        cwd=place,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def alive(log: Path) -> list[int]:
    """Programs that were called and are still there."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    numbers = [int(line.split()[2]) for line in lines if line.startswith("begin ")]
    return [number for number in numbers if Path(f"/proc/{number}/cmdline").exists() and _is_one(number)]


def _is_one(number: int) -> bool:
    try:
        return fake_tools.NAME in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_killed_and_resumed(model: Path, tmp_path: Path) -> None:
    """Killed twice with work under way; in the end the same table, nothing made twice but what was under way."""
    log = tmp_path / "log"
    for number in (2, 8):
        running = begin(model, tmp_path, 0.05)
        while len(fake_tools.calls(log)) < number and running.poll() is None:
            time.sleep(0.02)
        running.kill()
        running.communicate()
        wait_for(lambda: not alive(log), 10.0)
        assert not alive(log), "no program outlives the one who called it"
    last = begin(model, tmp_path, 0.0)
    _, said = last.communicate(timeout=120)
    assert last.returncode == 0, said
    stored = json.loads((tmp_path / "out" / "explore.json").read_text())
    assert [row["state"] for row in stored["rows"]] == ["packed"] * 6
    twice = [call for call, count in Counter(fake_tools.calls(log)).items() if count > 1]
    assert len(twice) <= 2 * 2, "two at most were under way each time"
    assert stored["tasks"]["cached"] and "explore.html" in os.listdir(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_ctrl_c_ends_everything(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    running = begin(model, tmp_path, 60.0)
    wait_for(lambda: len(alive(log)) == 2 or running.poll() is not None)
    assert len(alive(log)) == 2
    begun = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130 and "interrupted" in said and "Traceback" not in said, said
    assert not alive(log)
    assert time.monotonic() - begun < 15, "a loaded machine may take longer than two seconds, but not this long"


def test_bits_with_commas_are_settings_of_their_own() -> None:
    given = ["model.onnx", "--bits", "4,8", "--bits", "weights=4,data=8"]
    bits = command.make_context("explore", given, resilient_parsing=True).params["bits"]
    assert bits == ({"weights": 4, "data": 4}, {"weights": 8, "data": 8}, {"weights": 4, "data": 8})
