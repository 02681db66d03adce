"""``python -m onnx_hw_sim.cocotb_process build|run SIMULATOR BUILT PLACE``: one step of ``cocotb_engine``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from cocotb_tools.runner import get_runner

from onnx_hw_sim.cocotb_engine import RECORDING
from onnx_hw_sim.shared_library import VERILOG

FLAGS = {"verilator": ["-Wno-fatal", "-Wno-lint", "--no-timing"]}


def main(step: str, simulator: str, built: Path, place: Path) -> int:
    """Exit code: 1 where there is no recording in the end."""
    runner = get_runner(simulator)
    if step == "build":
        runner.build(
            sources=[built / VERILOG],
            hdl_toplevel="top",
            build_dir=built,
            build_args=FLAGS.get(simulator, []),
            timescale=("1ns", "1ps"),
        )
        return 0
    with suppress(SystemExit):  # the runner's way to say that a test failed
        runner.test(
            hdl_toplevel="top",
            hdl_toplevel_lang="verilog",
            test_module="onnx_hw_sim.cocotb_bench",
            build_dir=built,
            test_dir=place,
            results_xml=str(place / "results.xml"),
        )
    return 0 if (place / RECORDING).exists() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
