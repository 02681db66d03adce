"""Default prices: those of the default board's family, for estimates without a board."""

from __future__ import annotations

from onnx_hw_boards.families.ecp5.cost import cost
from onnx_hw_boards.families.family import Price

usual_price: Price = cost
