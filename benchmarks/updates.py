"""Weights of retrained networks, one after the other, in the circuit of one build, at the simulated pins of boards.

    nice python benchmarks/updates.py [--boards A,B] [--updates N] [--frames N] [--area]
    nice python benchmarks/updates.py --model M.onnx --calibration X.npz [--epochs 0] ...

Without a model, the digits example is trained anew for each update, with another seed, as a float model and as one with
integers of its own. The float weights of another model are scaled and moved by random numbers. Between the updates,
frames pass through the chip, which stays on; every result is compared with golden's. ``--area`` also synthesizes the
circuit, and the same network with fixed weights.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "digits"))

import onnx
from onnx_hw.assemble.design_file import read_design
from onnx_hw.commands.build import build
from onnx_hw.commands.infer import InferOptions, opened_port, read_host
from onnx_hw.commands.update import UpdateOptions, update
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.options import BuildOptions, WeightStorage
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw_link.device import Device
from onnx_hw_link.host_model import HostModel
from support.retrained import retrained

HERE = Path(__file__).resolve().parents[1]

Trained = Callable[[int], onnx.ModelProto]


def digits(epochs: int, *, integers: bool) -> Trained:
    """Return a function that trains the digits example with a seed."""
    from export import float_model, int8_model
    from network import Adam, Weights, forward, gradients
    from train import BATCH, CALIBRATION_IMAGES, TEST_IMAGES, images

    x, labels = (each[TEST_IMAGES:] for each in images())

    def trained(seed: int) -> onnx.ModelProto:
        generator = np.random.default_rng(1000 + seed)
        weights = Weights.drawn(generator)
        adam = Adam(weights)
        for _ in range(epochs):
            order = generator.permutation(len(x))
            for k in range(len(x) // BATCH):
                chosen = order[k * BATCH : (k + 1) * BATCH]
                adam.step(weights, gradients(weights, forward(weights, x[chosen]), labels[chosen]), 2e-3)
        calibration = x[:CALIBRATION_IMAGES]
        return int8_model(weights, forward(weights, calibration)) if integers else float_model(weights)

    return trained


def moved(path: Path) -> Trained:
    """Return a function that gives a model other weights by a seed; seed 0 stands for its own."""
    model = onnx.load(path)
    return lambda seed: retrained(model, seed) if seed else model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", default="icebreaker,ulx3s")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--calibration", type=Path, default=HERE / "examples" / "digits" / "digits_calibration.npz")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--frames", type=int, default=1000, help="frames of all updates together")
    parser.add_argument("--area", action="store_true")
    parser.add_argument("--multipliers", type=int, help="lanes of all designs")
    given = parser.parse_args()
    kinds: dict[str, Trained] = {}
    if given.model is not None:
        kinds[given.model.stem] = moved(given.model)
    else:
        kinds |= {"digits, float": digits(given.epochs, integers=False), "digits": digits(given.epochs, integers=True)}
    for name, trained in kinds.items():
        for board in given.boards.split(","):
            with tempfile.TemporaryDirectory() as place:
                print(f"{name} on {board}: {one_circuit(trained, board, given, Path(place))}", flush=True)
            if given.area:
                with tempfile.TemporaryDirectory() as place:
                    print(f"  {areas(trained, board, given, Path(place))}", flush=True)


def one_circuit(trained: Trained, board: str, given: argparse.Namespace, place: Path) -> str:
    """Return what came of all updates of one build."""
    folder, samples = place / "build", np.load(given.calibration)
    onnx.save(trained(0), place / "0.onnx")
    build(options(place / "0.onnx", board, given, folder, WeightStorage.LOADABLE, Stage.ASSEMBLE), Silent())
    each = max(1, given.frames // (given.updates + 1))
    wrong = total = refused = sent = 0
    seconds = 0.0
    with chip_of(folder) as (port, timeout):
        for seed in range(given.updates + 1):
            if seed:
                onnx.save(trained(seed), place / f"{seed}.onnx")
                begun = time.monotonic()
                try:
                    update(UpdateOptions(folder=folder, model=place / f"{seed}.onnx"))
                except UserError as error:
                    refused += 1
                    print(f"  update {seed} refused: {error.problems[0].message}")
                seconds += time.monotonic() - begun
            design = read_design(folder).design
            chosen = np.random.default_rng(seed).integers(0, len(next(iter(samples.values()))), each)
            frames = {name: samples[name][chosen] for name in samples.files if name != "labels"}
            wanted = golden.run(design.network, frames)
            with Device.of(HostModel.read(folder), port, timeout=timeout) as device:
                made = list(device.stream({name: array[k] for name, array in frames.items()} for k in range(each)))
                sent += device.chip.loaded_bytes
            wrong += sum(any((one[key] != wanted[key][k]).any() for key in one) for k, one in enumerate(made))
            total += len(made)
    return (
        f"{given.updates - refused} of {given.updates} updates accepted, {wrong:,} of {total:,} frames wrong, "
        f"{sent // max(1, given.updates):,} bytes and {seconds / max(1, given.updates):.1f} s of proof an update"
    )


@contextmanager
def chip_of(folder: Path):  # type: ignore[no-untyped-def]
    """Yield port and timeout of a chip that stays on."""
    asked = InferOptions(folder=folder, inputs=None, port="sim")
    with opened_port(asked, read_host(folder), read_design(folder, as_built=True).design, Silent()) as opened:
        yield opened


def areas(trained: Trained, board: str, given: argparse.Namespace, place: Path) -> str:
    """Return the cells of the same foldings with fixed and with loadable weights."""
    onnx.save(trained(0), place / "0.onnx")
    found = []
    for storage in (WeightStorage.LOADABLE, WeightStorage.FIXED):
        asked = options(place / "0.onnx", board, given, place / storage, storage, Stage.SYNTHESIZE)
        made = build(asked, Silent())
        assert made.report.synthesis is not None and made.design is not None
        used = made.report.synthesis.used
        cells = ", ".join(f"{kind} {count:,}" for kind, count in used.items())
        found.append(f"{storage}: {made.design.interval:,} cycles a frame, {cells}")
    return "; ".join(found)


def options(
    model: Path, board: str, given: argparse.Namespace, folder: Path, storage: WeightStorage, last: Stage
) -> BuildOptions:
    calibration = None if given.model is None and b"QuantizeLinear" in model.read_bytes() else given.calibration
    return BuildOptions(
        model=model,
        board=board,
        calibration=calibration,
        out=folder,
        weights=storage,
        stop_after=last,
        witness=False,
        scheduling=ScheduleRequest(multipliers=given.multipliers),
    )


if __name__ == "__main__":
    main()
