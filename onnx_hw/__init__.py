"""onnx-hw: an ONNX model in, a proven FPGA bitstream out.

The pipeline, as functions to call from Python, is ``onnx_hw.flow``; the command line is ``onnx_hw.cli.cli``.
Importing this package loads neither.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

__version__ = "0.2.0.dev0"

_SIBLINGS = {
    "onnx_hw_rtl": "rtl",
    "onnx_hw_sim": "sim",
    "onnx_hw_tools": "sim",
    "onnx_hw_boards": "boards",
    "onnx_hw_link": "boards",
}
"""The packages of the same distribution, and the folder of each in a checkout."""


def _require_one_place() -> None:
    """Refuse to run with circuits or boards of another version.

    ``python -m onnx_hw`` in a checkout takes this package from the current folder and would take the others from an
    installed onnx-hw, if there is one.
    """
    home = Path(__file__).parent.parent
    for name, folder in _SIBLINGS.items():
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ImportError(f"{name} must be installed with onnx_hw, which is in {home}: pip install -e {home}")
        found = Path(spec.origin).parent.parent
        if found.resolve() not in (home.resolve(), (home / folder).resolve()):
            raise ImportError(
                f"onnx_hw and {name} must come from one place; onnx_hw is in {home}, {name} in {found}: "
                "run the command `onnx-hw`, or install the checkout with pip install -e ."
            )


_require_one_place()
