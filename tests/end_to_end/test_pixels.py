"""From an ONNX file, through a folding file, to a circuit that takes several pixels a cycle."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.folding_file import read_foldings, to_text
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.schedule_for_board import schedule_for_board
from support import qdq_models
from support.design_bench import Bench, assert_proven, no_stall, random_stall

HEIGHT, WIDTH = 5, 11  # ragged rows for 2 and for 4 pixels


def one_channel(folder: Path) -> Path:
    """A 3×3 convolution of an image of one channel, and a pool."""
    sketch = qdq_models.Sketch()
    weights = np.random.default_rng(0).integers(-127, 128, (1, 1, 3, 3)).astype(np.int8)
    x = sketch.through_integers("x", 0.1, 3)
    y = sketch.node("Conv", x, sketch.dequantized(weights, np.array(0.02)), pads=[1, 1, 1, 1])
    y = sketch.through_integers(y, 0.3, -5)
    y = sketch.through_integers(sketch.node("MaxPool", y, kernel_shape=[1, 1], strides=[2, 2]), 0.3, -5)
    return sketch.write(folder / "one_channel.onnx", (1, 1, HEIGHT, WIDTH), y)


@pytest.mark.parametrize("pixels", [2, 4])
def test_less_than_a_cycle_per_pixel(tmp_path: Path, pixels: int) -> None:
    """The text is edited as people do: as many whole windows side by side in all cores; the pool gives back half."""
    network = insert_forks(flow.quantize(flow.read(one_channel(tmp_path))))
    board, file = find_board("ecp5"), tmp_path / "folding.toml"
    lines = to_text(*schedule_for_board(board, network)).split("[fifo]")[0].splitlines()
    whole = {
        "Window": f"in_lanes = 1, out_lanes = 9, in_pixels = {pixels}, out_pixels = {pixels}",
        "MatMul": f"in_lanes = 9, out_lanes = 1, pixels = {pixels}",
        "Requantize": f"lanes = 1, pixels = {pixels}",
        "Pool": f"in_lanes = 1, out_lanes = 1, in_pixels = {pixels}, out_pixels = {pixels // 2}",
    }
    for k, line in enumerate(lines):
        core = next((type(node.operator).__name__ for node in network.nodes if line.startswith(f'"{node.name}"')), "")
        if core:
            lines[k] = re.sub("{.*}", f"{{ {whole[core]} }}", line)
    file.write_text("\n".join(lines), encoding="utf-8")
    foldings, _ = read_foldings(file, network)
    design, _ = schedule_for_board(board, network, ScheduleRequest(foldings=foldings))
    assert design.interval == HEIGHT * -(-WIDTH // pixels) < HEIGHT * WIDTH
    bench = Bench(design)
    run = bench.prove(no_stall(design, 5), frames=5)
    assert_proven(run)
    assert run.interval_cycles == design.interval
    assert_proven(bench.prove(random_stall(design, 2, pixels), frames=2))
