"""Registers in the model's names, from names that nextpnr gave on the three families."""

import pytest

from onnx_hw.report.register_names import register_in_words

NODES = {"n3_pool1_maxpool": "pool1/MaxPool", "n6_conv2": "conv2"}


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("design.n3_pool1_maxpool.core.address0_1_TRELLIS_FF_Q_4", "address0_1 of `pool1/MaxPool`"),
        ("shell.design.n3_pool1_maxpool.core.data_DFFE_Q_6", "data of `pool1/MaxPool`"),
        ("design.n6_conv2.core.total0_DFFRE_Q_D_ALU_SUM_1", "total0 of `conv2`"),
        ("shell.end.receiver.number_SB_DFFESR_Q_DFFLC", "end.receiver.number of the shell"),
        ("shell.end.expected_SB_DFFESR_Q_1_D_SB_LUT4_O_LC", "end.expected of the shell"),
        ("shell.end.decoder.$signal_TRELLIS_FF_Q_7", "end.decoder of the shell"),
        ("design.$signal$3_TRELLIS_FF_Q_5", "a register of the circuit"),
        ("design.rst_TRELLIS_FF_Q", "rst of the circuit"),
        ("shell.design.n6_conv2.core.ring0_0.0.0", "ring0_0 of `conv2`"),
        ("design.n6_conv2.core.weights0.block1_0", "weights0 of `conv2`"),
        ("design.n6_conv2.core.outbox_o.words_SB_RAM40_4K_RDATA_2", "outbox_o.words of `conv2`"),
        ("design.n6_conv2.core.$signal$18_LUT4_I0", "a register of `conv2`"),
        ("pin_uart$ob", "pin_uart$ob"),
    ],
)
def test_a_register_is_a_signal_and_a_core(cell, text):
    assert register_in_words(cell, NODES) == text
