"""The outputs of a circuit for all frames of a user, in shards that are compared with golden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.engines import build_simulator
from onnx_hw.prove.circuit.sharded import Shard, ShardBench, add_samples, difference_error, prove_shards, shards_of
from onnx_hw.runtime.countdown import Countdown
from onnx_hw.runtime.listener import Listener
from onnx_hw.runtime.options import SimulationEngine, Stalls
from onnx_hw.runtime.progress import Running
from onnx_hw.runtime.workers.executors import InlineExecutor, Workers
from onnx_hw.runtime.workers.open_executor import open_executor
from onnx_hw.samples.samples import frame_count

MAX_SHARDS_INLINE = 2
"""Number of shards that are not worth another process."""


def circuit_run(
    design: Design,
    frames: Mapping[str, np.ndarray],
    engine: SimulationEngine | None,
    folder: Path,
    listener: Listener,
    running: Running,
) -> dict[str, np.ndarray]:
    """Return the graph's outputs of the circuit for every frame, (frames, *shape) by name.

    Args:
        frames: samples by graph input, (frames, *shape).
        engine: simulator; None for the fastest one.
        folder: folder where the simulator is made.

    Raises:
        UserError: the circuit differs from golden, with exit code 4.
        ToolMissing, ToolFailed: a program is missing or failed.
    """
    from onnx_hw_sim.lockstep.library import RUNS

    count = frame_count(frames)
    shards = shards_of(design, count, in_sequence=True)
    running.fact = "compiling"
    simulator, names = build_simulator(design, folder, engine, listener)
    compiled = simulator.name == SimulationEngine.COMPILED
    bench = ShardBench(uuid4().hex, design, Stalls.NONE, engine, folder, (simulator, names), keeps_outputs=True)
    tensors = {boundary.tensor: design.network.tensors[boundary.tensor] for boundary in design.network.outputs}
    outputs = {name: np.zeros((count, *tensor.shape), np.int64) for name, tensor in tensors.items()}

    def filled() -> Iterator[Shard]:
        for shard in shards:
            yield add_samples(shard, frames, count, None)

    alone = not compiled or len(shards) <= MAX_SHARDS_INLINE
    here: AbstractContextManager[Workers] = nullcontext(Workers(InlineExecutor(), 1, folder))
    with here if alone else open_executor(None, None, folder) as workers:
        if compiled:
            bench = replace(bench, together=max(1, min(RUNS, len(shards) // workers.width)))
        countdown = Countdown(count)
        running.fact = countdown.after(0)
        done = 0
        for result in prove_shards(bench, filled(), workers):
            if not result.run.agrees:
                raise difference_error(result)
            own = slice(result.shard.before, result.shard.before + len(result.shard.frames))
            for tensor, values in result.run.outputs.items():
                outputs[tensor][result.shard.frames.start : result.shard.frames.stop] = values[own]
            done += len(result.shard.frames)
            running.fact = countdown.after(done)
    running.fact = f"{done:,} frames bit-exact with golden, every firing as predicted"
    return golden.outputs_of(design.network, outputs, frames)
