"""A run of onnxruntime, in a process of its own: it may end as it likes, and takes no more memory than it is allowed.

``python -m onnx_hw.prove.model.onnxruntime_process FOLDER`` reads ``model.onnx`` and ``feeds.npz`` there, the arrays
named ``FRAME INPUT``, and writes ``results.npz``, named ``FRAME NUMBER``, or ``refusal.txt``. ``names.json`` lists the
values to return, in the order of their numbers, and the folder of external data.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

MODEL, FEEDS, NAMES, RESULTS, REFUSAL = "model.onnx", "feeds.npz", "names.json", "results.npz", "refusal.txt"

MAX_MEMORY_BYTES = 8 << 30

_EXTERNAL = "session.model_external_initializers_file_folder_path"


def run_frames(folder: Path) -> dict[str, np.ndarray]:
    """Return the values of all frames, by ``FRAME NUMBER``; texts, sequences and maps are left out."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    asked = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    options.add_session_config_entry(_EXTERNAL, asked["external"])
    session = onnxruntime.InferenceSession(str(folder / MODEL), options, providers=["CPUExecutionProvider"])
    frames: dict[str, dict[str, Any]] = {}
    with np.load(folder / FEEDS) as stored:
        for key in stored.files:
            frame, _, name = key.partition(" ")
            frames.setdefault(frame, {})[name] = stored[key]
    results = {}
    for frame, feeds in frames.items():
        for number, value in enumerate(session.run(asked["names"], feeds)):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                results[f"{frame} {number}"] = value
    return results


def main(folder: Path) -> None:
    """Run the frames in a folder, and write the results or the refusal."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        results = run_frames(folder)
    except Exception as error:  # noqa: BLE001  # onnxruntime has an exception class for each kind of refusal
        (folder / REFUSAL).write_text(str(error), encoding="utf-8", errors="backslashreplace")
        return
    np.savez(folder / RESULTS, **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
