"""What a core costs: the one function that the passes ask, handed to all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_hw.ops.operator import Operator, Resources

Cost = Callable[[Operator[Any], Any], Resources]
"""Of an operator under a folding of its own type."""


def cost(operator: Operator[Any], folding: Any) -> Resources:
    """The operator's own estimate."""
    return operator.resources(folding)
