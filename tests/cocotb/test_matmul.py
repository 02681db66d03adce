"""Run the cocotb bench of the matmul core under Verilator and under Icarus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from amaranth.back import rtlil
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from onnx_hw.ops.matmul import MatMul
from onnx_hw_tools import tools
from support.optional_software import needs_icarus

HERE = Path(__file__).parent
BENCH = "matmul_bench"
TESTS = 9 + 1 + 3


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    """The bench's module, which the simulator imports by name as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        yield import_module(BENCH)


def write_verilog(matmul: MatMul, bench: ModuleType, folder: Path) -> Path:
    """The core alone, as a build writes it: RTLIL by Amaranth, Verilog by yosys."""
    core = matmul.core(bench.FOLDING, {"o": bench.DEPTH})
    (folder / "matmul.il").write_text(rtlil.convert(core, name="matmul", emit_src=False))
    script = "read_rtlil matmul.il; proc; memory_collect; flatten; opt_clean; write_verilog -noattr matmul.v"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "yosys.log")
    return folder / "matmul.v"


def run(simulator: str, verilog: Path, *build_args: str) -> tuple[int, int]:
    """(tests run, tests failed)."""
    folder = verilog.parent
    runner = get_runner(simulator)
    runner.build(
        sources=[verilog],
        hdl_toplevel="matmul",
        build_dir=folder / simulator,
        build_args=build_args,
        timescale=("1ns", "1ps"),
        log_file=folder / "build.log",
    )
    results = folder / "results.xml"
    with suppress(SystemExit):  # raised by the runner where tests fail; we count them
        runner.test(
            hdl_toplevel="matmul",
            test_module=BENCH,
            build_dir=folder / simulator,
            seed=1,
            results_xml=str(results),
            log_file=folder / "test.log",
        )
    return get_results(results)


@needs_icarus
def test_under_icarus(bench: ModuleType, tmp_path: Path) -> None:
    assert run("icarus", write_verilog(bench.MATMUL, bench, tmp_path)) == (TESTS, 0)


@needs_icarus
def test_a_wrong_weight_is_seen(bench: ModuleType, tmp_path: Path) -> None:
    weights = bench.WEIGHTS.copy()
    weights[6, 9] ^= 1
    verilog = write_verilog(replace(bench.MATMUL, weights=weights), bench, tmp_path)
    assert run("icarus", verilog) == (TESTS, TESTS)


def test_under_verilator(bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verilator = tools.find("verilator")
    monkeypatch.setenv("PATH", f"{Path(verilator.command[0]).parent}{os.pathsep}{os.environ['PATH']}")
    for name, value in verilator.environment:
        monkeypatch.setenv(name, value)
    # The wheel's makefile leaves the flag of precompiled headers empty, and little optimisation compiles fastest.
    monkeypatch.setenv("MAKEFLAGS", "-j2 -- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0")
    verilog = write_verilog(bench.MATMUL, bench, tmp_path)
    assert run("verilator", verilog, "-Wno-fatal", "--no-timing") == (TESTS, 0)
