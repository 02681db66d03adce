"""All foldings of an operator, for searches that are compared with an exhaustive one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator


def legal(operator: Operator[Any]) -> Iterator[Folding]:
    """Yield all foldings with one pixel in a beat."""
    lanes = {name: most for name, most in operator.limits().items() if name.endswith("lanes")}
    for numbers in product(*(range(1, most + 1) for most in lanes.values())):
        folding = operator.folding_type(**dict(zip(lanes, numbers, strict=True)))
        if not operator.illegal(folding):
            yield folding
