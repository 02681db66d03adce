"""onnx-hw: an ONNX model in, a proven FPGA bitstream out.

    build = onnx_hw.build("model.onnx", board="icebreaker", calibration={"x": x_train})
    network = onnx_hw.quantize("model.onnx", {"x": x_train})
    outputs = onnx_hw.infer(build, x_test)

``onnx_hw.flow`` has the pipeline step by step; the command line is ``onnx_hw.cli.cli``. Importing this package loads
none of them: each name is imported when it is used for the first time.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_hw.messages.version import __version__

if TYPE_CHECKING:  # for editors and type checkers; ``__getattr__`` does the same at run time
    from onnx_hw import flow as flow
    from onnx_hw.api.build import build as build
    from onnx_hw.api.infer import infer as infer
    from onnx_hw.api.quantize import quantize as quantize
    from onnx_hw.api.quantized_model import QuantizedModel as QuantizedModel
    from onnx_hw.api.update import update as update
    from onnx_hw.commands.build import Build as Build
    from onnx_hw.messages.errors import UserError as UserError

__all__ = ["Build", "QuantizedModel", "UserError", "__version__", "build", "flow", "infer", "quantize", "update"]

_HOMES = {
    "Build": "onnx_hw.commands.build",
    "QuantizedModel": "onnx_hw.api.quantized_model",
    "UserError": "onnx_hw.messages.errors",
    "build": "onnx_hw.api.build",
    "infer": "onnx_hw.api.infer",
    "quantize": "onnx_hw.api.quantize",
    "update": "onnx_hw.api.update",
}
"""Modules of the names that are imported when they are used."""


def __getattr__(name: str) -> Any:
    """Import a public name of the package, or its module ``flow``, when it is used for the first time."""
    if name == "flow":
        return importlib.import_module("onnx_hw.flow")
    if name not in _HOMES:
        raise AttributeError(f"module 'onnx_hw' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, for completion in an editor or a notebook."""
    return sorted({*globals(), *__all__})


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
