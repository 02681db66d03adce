"""All engines on three small networks: the same tokens and firings in the same cycles, and how long each takes.

python benchmarks/engines.py [ENGINE ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_hw.runtime.options import SimulationEngine
from sim.test_all_engines import NETWORKS, assert_same, recordings


def main() -> None:
    engines = [SimulationEngine(name) for name in sys.argv[1:]] or list(SimulationEngine)
    for name, network in NETWORKS.items():
        with tempfile.TemporaryDirectory() as place:
            wanted = recordings(network(), SimulationEngine.INTERPRETED, Path(place))
            for engine in engines:
                started = time.monotonic()
                seen = recordings(network(), engine, Path(place))
                assert_same(wanted, seen, inside=engine is not SimulationEngine.GATES)
                cycles = sum(recording.cycles for recording in seen)
                print(
                    f"{name:12} {engine.value:12} {cycles:,} cycles as all others, {time.monotonic() - started:.1f} s"
                )


if __name__ == "__main__":
    main()
