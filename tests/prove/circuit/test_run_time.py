"""Long simulations of gates are announced, with the option that leaves them out."""

from __future__ import annotations

import pytest

from onnx_hw.cli.build import build
from onnx_hw.prove.circuit.run_time import OPTION_WITHOUT, announce_long_run


@pytest.mark.parametrize(("whose", "option"), [("netlist", "--no-gate-level"), ("bitstream", "--no-bitstream-check")])
def test_a_long_run_is_announced(whose: str, option: str) -> None:
    assert announce_long_run(1e6, 1000, whose) == ""
    assert announce_long_run(1.4e9, 3000, whose) == f"; about 70 minutes, {option} leaves it out"


def test_the_options_exist() -> None:
    names = {name for parameter in build.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert names.issuperset(OPTION_WITHOUT.values())
