"""Meaning of ONNX operators in numpy: one small function per operator, whose signature is the schema.

Every module of this folder is imported, so that an operator in any file registers itself. ``docs/operators.md`` lists
them all.
"""

import importlib
import pkgutil

from onnx_hw.onnx.operators.registry import Call, OnnxOperator, facts_of, lookup, operator_of, operators

__all__ = ["Call", "OnnxOperator", "facts_of", "lookup", "operator_of", "operators"]

for _name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_name}")
