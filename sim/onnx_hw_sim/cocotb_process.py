"""One step of ``cocotb_engine``: ``python -m onnx_hw_sim.cocotb_process build|run SIMULATOR BUILT FOLDER``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from cocotb_tools.runner import get_runner

from onnx_hw_sim.cocotb_engine import ENDED
from onnx_hw_sim.shared_library import VERILOG

FLAGS = {"verilator": ["-Wno-fatal", "-Wno-lint", "--no-timing"]}


def main(step: str, simulator: str, built: Path, folder: Path) -> int:
    """Run a step and return the exit code: 1 if the run did not come to an end."""
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
    with suppress(SystemExit):  # the runner raises this if a test failed
        runner.test(
            hdl_toplevel="top",
            hdl_toplevel_lang="verilog",
            test_module="onnx_hw_sim.cocotb_bench",
            build_dir=built,
            test_dir=folder,
            results_xml=str(folder / "results.xml"),
        )
    return 0 if (folder / ENDED).exists() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
