"""What is compiled once per machine, and kept in the user's cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from onnx_hw_sim import shared_library
from onnx_hw_sim.shared_library import BoundDriver, CppToolchain
from onnx_hw_tools import tools
from onnx_hw_tools.process import Command


def test_drivers_share_the_runtime_of_verilator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        chain = CppToolchain.find()
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    compiled: list[str] = []

    def compile_nothing(commands: Sequence[Command], parallel: int) -> None:
        for command in commands:
            source, target = (Path(command.argv[command.argv.index(flag) + 1]) for flag in ("-c", "-o"))
            compiled.append(source.name)
            target.touch()

    monkeypatch.setattr(shared_library, "execute", compile_nothing)
    monkeypatch.setattr(shared_library, "user_cache", lambda: tmp_path)
    streams, bus = BoundDriver("", "driver.cpp", "bench.h"), BoundDriver("", "spi_bus.cpp", "spi_bus.h")
    objects = [set(shared_library._runtime_objects(chain, driver, False, 1)) for driver in (streams, bus, streams)]
    assert compiled == ["verilated.cpp", "verilated_threads.cpp", "driver.cpp", "spi_bus.cpp"]
    assert objects[0] == objects[2] and len(objects[0] & objects[1]) == 2
    traced = set(shared_library._runtime_objects(chain, streams, True, 1))
    assert not traced & objects[0] and len(traced) == 4
