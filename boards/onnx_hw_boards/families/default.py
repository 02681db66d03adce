"""Whose cells are counted where no board is in sight: the default board's family's."""

from __future__ import annotations

from onnx_hw_boards.families.ecp5.cost import cost
from onnx_hw_boards.families.family import Price

__all__ = ["usual_price"]

usual_price: Price = cost
