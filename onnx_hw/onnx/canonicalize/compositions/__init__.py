"""Compositions of ONNX operators from others that are lowered: one small function for each, grouped by family.

A composition adds the nodes of an operator with the methods of a ``Composer`` and returns the name of the result. It
raises ``NoComposition`` for a form that has none. Every file of this folder is imported here, and the decorator
``composed`` registers a function: a new composition is one function in one file.
"""

from importlib import import_module
from pkgutil import iter_modules

from onnx_hw.onnx.canonicalize.compositions.composer import MEANINGS, compose

__all__ = ["MEANINGS", "compose"]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
