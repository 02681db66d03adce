"""Test for ``pytest``: runs the bench under Icarus Verilog, or under the simulator that ``SIM`` names."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as xml
from contextlib import suppress
from pathlib import Path

from cocotb_tools.runner import get_runner

FOLDER = Path(__file__).resolve().parent
MODULE = "@MODULE@"
FLAGS = {"verilator": ["-Wno-fatal", "--timing"]}


def test_shell() -> None:
    simulator = os.environ.get("SIM", "icarus")
    build_folder = FOLDER / "sim_build" / simulator
    sys.path.insert(0, str(FOLDER))
    runner = get_runner(simulator)
    runner.build(
        sources=[Path(os.environ.get("VERILOG", FOLDER / f"{MODULE}.v"))],
        hdl_toplevel=MODULE,
        build_dir=build_folder,
        build_args=FLAGS.get(simulator, []),
        timescale=("1ns", "1ps"),
    )
    results = build_folder / "results.xml"
    results.unlink(missing_ok=True)
    with suppress(SystemExit):  # the runner's way to say that a test failed
        runner.test(hdl_toplevel=MODULE, test_module="bench", build_dir=build_folder, results_xml=str(results))
    assert results.exists(), "the simulation ended early"
    cases = list(xml.parse(results).iter("testcase"))
    failed = [str(case.get("name")) for case in cases for part in case if part.tag in ("failure", "error")]
    assert cases
    assert not failed, f"{', '.join(failed)}: the output above says why"
