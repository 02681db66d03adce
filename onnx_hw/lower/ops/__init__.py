"""Lowerings of ONNX operators: one small function for each operator, grouped by family and registered by name.

A lowering reads the entries of the node's inputs in ``builder.values`` and sets those of its outputs. It raises
``Obstacle`` when the node cannot become hardware. Every file of this folder is imported here, and the decorator
``lowers`` registers a function: a new lowering is one function in one file, and the first paragraph of its docstring
states its limits in ``docs/operators.md``.
"""

from importlib import import_module
from pkgutil import iter_modules

from onnx_hw.lower.ops.registry import LOWERINGS, lowering_of

__all__ = ["LOWERINGS", "lowering_of"]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
