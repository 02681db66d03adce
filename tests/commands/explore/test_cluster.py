"""The workers of a dask cluster: stores of their own, versions of their own, and an end of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.commands.build import build
from onnx_hw.commands.verify import verify
from onnx_hw.runtime.options import SimulationEngine, Stalls, VerifyOptions
from onnx_hw.runtime.stage import Stage
from support import fake_tools
from support.small_model import small_model

pytest.importorskip("distributed", reason='needs `pip install "onnx-hw[cluster]"`')

pytestmark = pytest.mark.slow

Process = subprocess.Popen[bytes]


@contextmanager
def cluster(
    place: Path, seconds: float, versions: tuple[str, ...]
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler, and a worker for every version of the programs, each with a home and a store of its own."""
    file = place / "scheduler.json"

    def begin(what: str, *arguments: str, **environment: str) -> Process:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(file), *arguments]
        with (place / "cluster.out").open("ab") as log:
            return subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log, cwd=place)

    with ExitStack() as stack:
        running = [begin("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--no-show")]
        stack.callback(lambda: [each.kill() for each in running] and [each.wait() for each in running])  # type: ignore[func-returns-value, misc]
        for number, version in enumerate(versions):
            own = fake_tools.environment(place / f"log{number}", seconds, version)
            own |= {"HOME": str(place / f"home{number}"), "ONNX_HW_STORE": str(place / f"store{number}")}
            running.append(begin("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", **own))
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"], running[1:]


def explored(place: Path, *arguments: str, **environment: str) -> tuple[dict, str]:
    """What ``onnx-hw explore`` gives; its own programs never run, only their versions are asked."""
    own = {**os.environ, **fake_tools.environment(place / "log-main"), **environment}
    command = [sys.executable, "-m", "onnx_hw", "explore", "small.onnx", "--multipliers", "2,12", "--seeds", "2"]
    done = subprocess.run([*command, *arguments], env=own, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((place / arguments[arguments.index("--out") + 1] / "explore.json").read_text()), done.stderr


def bitstreams(found: dict) -> list[str]:
    return [row["bitstream"] for row in found["rows"]]


def test_a_worker_that_is_killed_costs_one_task(tmp_path: Path) -> None:
    small_model(tmp_path / "small.onnx")
    here, _ = explored(tmp_path, "--out", "here", ONNX_HW_STORE=str(tmp_path / "store-here"))
    own = fake_tools.calls(tmp_path / "log-main")
    with cluster(tmp_path, 0.3, ("1.0", "1.0")) as (address, workers):
        killer = [sys.executable, "-c", KILL, str(workers[0].pid), str(tmp_path / "log0")]
        watcher = subprocess.Popen(killer, cwd=tmp_path)
        there, _ = explored(tmp_path, "--out", "there", "--scheduler", address, ONNX_HW_STORE=str(tmp_path / "own"))
        watcher.wait(timeout=60)
    assert bitstreams(there) == bitstreams(here) and all(bitstreams(here))
    calls = [call for name in ("log0", "log1") for call in fake_tools.calls(tmp_path / name)]
    routed = [call for call in calls if call.startswith("nextpnr")]
    assert len(set(routed)) == 4 and len(routed) <= 5
    assert fake_tools.calls(tmp_path / "log-main") == own and set(own) == set(calls), "the workers did it"
    missing = sum(file.stat().st_size for file in (tmp_path / "own").glob("circuit/*/top.il"))
    assert 0 < there["tasks"]["sent"] < 1.2 * missing, "what travels is what is missing, compressed"


KILL = """
import os, signal, sys, time
from pathlib import Path
log, until = Path(sys.argv[2]), time.monotonic() + 60
while time.monotonic() < until and "begin nextpnr" not in (log.read_text() if log.exists() else ""):
    time.sleep(0.02)
os.kill(int(sys.argv[1]), signal.SIGKILL)
"""
"""Kills a worker when it routes."""


def test_a_worker_with_other_programs_is_refused_by_name(tmp_path: Path) -> None:
    small_model(tmp_path / "small.onnx")
    with cluster(tmp_path, 0.0, ("2.0",)) as (address, _):
        found, said = explored(tmp_path, "--out", "out", "--scheduler", address, ONNX_HW_STORE=str(tmp_path / "own"))
    whys = {row["why"] for row in found["rows"]}
    assert {row["state"] for row in found["rows"]} == {"failed"} and "Traceback" not in said
    assert all("pretended 1.0" in why and "pretended 2.0" in why and "yosys" in why for why in whys)


def test_ctrl_c_ends_what_runs_elsewhere(tmp_path: Path) -> None:
    small_model(tmp_path / "small.onnx")
    with cluster(tmp_path, 300.0, ("1.0",)) as (address, _):
        own = {**os.environ, **fake_tools.environment(tmp_path / "log-main")}
        command = [sys.executable, "-m", "onnx_hw", "explore", "small.onnx", "--scheduler", address]
        process = subprocess.Popen(command, env=own, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while not (programs := programs_of(tmp_path / "log0")) and time.monotonic() < until:
            time.sleep(0.1)
        assert programs
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 130 and "Traceback" not in said
        until = time.monotonic() + 10
        while programs_of(tmp_path / "log0") and time.monotonic() < until:
            time.sleep(0.1)
        assert not programs_of(tmp_path / "log0")


def programs_of(log: Path) -> list[str]:
    """Processes that write down in that file that they were called: programs that pretend."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment, command = (place / "environ").read_bytes(), (place / "cmdline").read_bytes()
            if f"PRETENDED_LOG={log}".encode() in environment and fake_tools.NAME in command:
                found.append(place.name)
    return found


def test_the_proof_of_a_build_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_hw.prove.circuit.sharded.CYCLES_A_SHARD", 1)
    small_model(tmp_path / "small.onnx")
    build(tmp_path / "small.onnx", out=tmp_path / "out", stop_after=Stage.ASSEMBLE, multipliers=2)
    with cluster(tmp_path, 0.0, ("1.0",)) as (address, _):
        options = VerifyOptions(
            folder=tmp_path / "out", inputs=None, frames=18, engine=SimulationEngine.INTERPRETED, stalls=Stalls.ALL
        )
        there = verify(replace(options, scheduler=address))
    here = verify(replace(options, jobs=1))
    assert replace(there, seconds=0.0) == replace(here, seconds=0.0) and there.runs > 2
