"""Many builds at once: what two workers gain, what a killed exploration costs, and a proof of 10,000 frames in shards.

    python benchmarks/explorations.py times [--board NAME] [--multipliers 3,6,12,24] [--seeds 8]
    python benchmarks/explorations.py kills [--board up5k] [--kills 10]
    python benchmarks/explorations.py rows [--board up5k] [--rows 4]
    python benchmarks/explorations.py frames [--frames 10000]
    python benchmarks/explorations.py wrong [--frames 10000] [--at 7345]
    python benchmarks/explorations.py front MODEL [--budgets 4,8,...,160]

`times` and `frames` want a machine that does nothing else. Every exploration begins with an empty store.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from onnx_hw.commands.build import build
from onnx_hw.commands.verify import verify
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.options import DEFAULT_BOARD, Stalls, VerifyOptions
from onnx_hw.runtime.stage import Stage

DIGITS = Path(__file__).parents[1] / "examples" / "digits"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "onnx_hw", *map(str, arguments)]


def explore(asked: argparse.Namespace, place: Path, *more: object, until: str = "route") -> list[str]:
    grid = ["--board", asked.board, "--multipliers", asked.multipliers, "--seeds", asked.seeds]
    return command(
        "explore", DIGITS / "digits.onnx", *grid, "--store", place / "store", "--out", place / "out", "--stop-after",
        until, *more,
    )  # fmt: skip


def found(place: Path) -> dict[str, Any]:
    return json.loads((place / "out" / "explore.json").read_text())


def table(explored: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(row["command"], row["state"], row.get("fmax_mhz"), row.get("used")) for row in explored["rows"]]


def times(asked: argparse.Namespace) -> None:
    """One worker and two, every program for real."""
    taken, tables = {}, {}
    for jobs in (2, 1):
        with tempfile.TemporaryDirectory() as place:
            began = time.monotonic()
            subprocess.run(explore(asked, Path(place), "--jobs", jobs), check=True, capture_output=True)
            taken[jobs], made = time.monotonic() - began, found(Path(place))
        tables[jobs] = table(made)
        print(f"{jobs} workers: {taken[jobs]:.0f} s, run: {made['tasks']['run']}", flush=True)
    print(f"two workers take {taken[2] / taken[1]:.2f} of one worker's time; same table: {tables[1] == tables[2]}")


def kills(asked: argparse.Namespace) -> None:
    """Killed at random moments and begun again; entries of the store tell what was made twice."""
    dice, made = random.Random(asked.seed), Counter[Any]()
    with tempfile.TemporaryDirectory() as there:
        began = time.monotonic()
        subprocess.run(explore(asked, Path(there), "--jobs", 2), check=True, capture_output=True)
        whole, latest = found(Path(there)), max(25.0, (time.monotonic() - began) / 3)
    with tempfile.TemporaryDirectory() as there:
        place = Path(there)
        for _ in range(asked.kills):
            before = entries(place)
            running = subprocess.Popen(
                explore(asked, place, "--jobs", 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            until, wait = time.monotonic() + dice.uniform(5, latest), None
            while time.monotonic() < until and wait is None:
                wait = running.poll()
                time.sleep(0.1)
            running.kill()
            running.wait()
            made.update(entries(place) - before)
            print(f"killed with {len(entries(place))} results", flush=True)
        subprocess.run(explore(asked, place, "--jobs", 2), check=True, capture_output=True)
        last = found(place)
        run, cached = (sum(last["tasks"][what].values()) for what in ("run", "cached"))
        kept = sum(made.values())
        print(f"at the end {run} run and {cached} in the store; {asked.kills} that were killed left {kept} results")
        print(f"none of them made again: {cached >= kept}; same table: {table(last) == table(whole)}")


def rows(asked: argparse.Namespace) -> None:
    """Some rows' own commands, with an empty store: is it the same bitstream?"""
    with tempfile.TemporaryDirectory() as there:
        place = Path(there)
        subprocess.run(explore(asked, place, until="pack"), check=True, capture_output=True)
        packed = [row for row in found(place)["rows"] if row["bitstream"]]
        for row in random.Random(asked.seed).sample(packed, asked.rows):
            _, *words = shlex.split(row["command"])
            own = place / f"row{row['number']}"
            subprocess.run(command(*words, "--store", own / "store", "--out", own), check=True, capture_output=True)
            (bitstream,) = (path for path in own.iterdir() if path.suffix in (".bit", ".bin", ".fs"))
            same = hashlib.sha256(bitstream.read_bytes()).hexdigest() == row["bitstream"]
            print(f"{row['command']}: {'the same bitstream' if same else 'ANOTHER bitstream'}", flush=True)


def entries(place: Path) -> set[str]:
    """Results of programs in a store."""
    return {str(path) for path in (place / "store").glob("*/*/stage.json") if path.parts[-3] != "circuit"}


def frames(asked: argparse.Namespace) -> None:
    """The proof of digits by one worker and by two."""
    images = np.load(DIGITS / "digits_test.npz")
    with tempfile.TemporaryDirectory() as place:
        data = {name: images[name][np.arange(asked.frames) % len(images[name])] for name in images.files}
        np.savez(Path(place) / "all.npz", **data)
        out, taken = Path(place) / "out", {}
        subprocess.run(
            command("build", DIGITS / "digits.onnx", "--out", out, "--stop-after", "simulate"),
            check=True, capture_output=True,
        )  # fmt: skip
        for jobs in (2, 1):
            began = time.monotonic()
            called = command("verify", out, "--inputs", Path(place) / "all.npz", "--jobs", jobs)
            done = subprocess.run(called, check=True, capture_output=True, text=True)
            taken[jobs] = time.monotonic() - began
            print(f"{jobs} workers: {taken[jobs]:.1f} s\n{done.stdout}", flush=True)
    print(f"two workers take {taken[2] / taken[1]:.2f} of one worker's time")


def wrong(asked: argparse.Namespace) -> None:
    """One wrong value in the golden of one frame of many: what one worker says, and what two say."""
    honest, fresh = golden.walk, multiprocessing.get_context
    images = np.random.default_rng(asked.seed).random((asked.frames, 1, 1, 8, 8), dtype=np.float32)

    def lies(network: Network, integers: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        ((name, marked),) = golden.integers_of(network, {"image": images[asked.at, None]}).items()
        hit = np.all(integers[name] == marked, axis=(1, 2, 3))
        (output,) = (boundary.tensor for boundary in network.outputs)
        for tensor, values in honest(network, integers):
            yield tensor, values ^ hit[:, None, None, None] if tensor == output else values

    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / "all.npz", image=images)
        out, told = Path(place) / "out", {}
        build(DIGITS / "digits.onnx", out=out, stop_after=Stage.SIMULATE)
        for jobs in (1, 2):
            began = time.monotonic()
            options = VerifyOptions(folder=out, inputs=Path(place) / "all.npz", jobs=jobs, stalls=Stalls.RANDOM)
            forked = patch.object(
                multiprocessing, "get_context", lambda _: fresh("fork")
            )  # so that workers lie as well
            try:
                with forked, patch("onnx_hw.prove.circuit.sharded.golden.walk", lies):
                    verify(options)
            except UserError as error:
                told[jobs] = [problem.message for problem in error.problems]
            print(f"{jobs} workers, {time.monotonic() - began:.1f} s: {told.get(jobs)}", flush=True)
    print(f"the same is said: {told[1] == told[2]}")


def front(asked: argparse.Namespace) -> None:
    """How many of many budgets are synthesized, and whether what is left out could have been in front."""
    with tempfile.TemporaryDirectory() as place:
        out = ["--out", Path(place) / "out", "--stop-after", "schedule"]
        called = command("explore", asked.model, "--multipliers", asked.budgets, *out)
        subprocess.run(called, check=True, capture_output=True)
        made = found(Path(place))
    print(Counter(row["state"] for row in made["rows"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    for what, board, counts in (
        (times, DEFAULT_BOARD, "3,6,12,24"),
        (kills, "up5k", "1,2,3,4"),
        (rows, "up5k", "1,2,3,4"),
    ):
        kind = kinds.add_parser(what.__name__, help=what.__doc__)
        kind.add_argument("--board", default=board)
        kind.add_argument("--multipliers", default=counts)
        kind.add_argument("--seeds", type=int, default=8)
        kind.add_argument("--kills", type=int, default=10)
        kind.add_argument("--rows", type=int, default=4)
        kind.add_argument("--seed", type=int, default=1, help="of what is drawn")
        kind.set_defaults(call=what)
    kind = kinds.add_parser("frames", help=frames.__doc__)
    kind.add_argument("--frames", type=int, default=10_000)
    kind.set_defaults(call=frames)
    kind = kinds.add_parser("wrong", help=wrong.__doc__)
    kind.add_argument("--frames", type=int, default=10_000)
    kind.add_argument("--at", type=int, default=7_345)
    kind.add_argument("--seed", type=int, default=1, help="of the frames")
    kind.set_defaults(call=wrong)
    kind = kinds.add_parser("front", help=front.__doc__)
    kind.add_argument("model", type=Path)
    kind.add_argument("--budgets", default=",".join(map(str, range(4, 161, 4))))
    kind.set_defaults(call=front)
    asked = parser.parse_args()
    asked.call(asked)


if __name__ == "__main__":
    main()
