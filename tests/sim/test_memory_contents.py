"""Initial contents as constant arrays; ``test_engines.py`` shows that they mean the same."""

from __future__ import annotations

import re

import pytest

from onnx_hw_sim.memory_contents import as_constants

ROM = """
  wire [7:0] a;
  reg [7:0] \\rom.words  [2:0];
  initial begin
    \\rom.words [0] = 8'h01;
    \\rom.words [1] = 8'hff;
    \\rom.words [2] = 8'h10;
  end
  reg [1:0] queue [1:0];
  initial begin
    queue[0] = 2'h0;
    queue[1] = 2'h0;
  end
  reg flags [1:0];
  initial begin
    flags[0] = 1'h1;
    flags[1] = 1'h0;
  end
  always @(posedge clk)
"""

REWRITTEN = """
  wire [7:0] a;
  localparam [7:0] initial_words_1 [2:0] = '{8'h10, 8'hff, 8'h01};
  reg [7:0] \\rom.words [2:0] = initial_words_1;
  reg [1:0] queue [1:0];
  localparam initial_words_2 [1:0] = '{1'h0, 1'h1};
  reg flags [1:0] = initial_words_2;
  always @(posedge clk)
"""


def test_last_word_first_zeros_left_out() -> None:
    assert as_constants(ROM) == REWRITTEN


@pytest.mark.parametrize(
    "unlike",
    [
        "  reg [7:0] m [1:0];\n  initial begin\n    m[0] = 8'h01;\n  end\n",  # a word is missing
        "  reg [7:0] m [1:0];\n  initial begin\n    m[1] = 8'h01;\n    m[0] = 8'h01;\n  end\n",
        "  reg [7:0] m [0:0];\n  initial begin\n    other[0] = 8'h01;\n  end\n",
        "  reg [7:0] m [0:0];\n  initial begin\n    m[0] = f(3);\n  end\n",
        "  reg [7:0] m = 8'h03;\n",
    ],
)
def test_what_looks_different_is_left_alone(unlike: str) -> None:
    assert as_constants(unlike) == unlike


def test_a_large_memory_takes_many_lines() -> None:
    """Break the lines: Verilator reads at most 40,000 tokens per line."""
    words = "".join(f"    m[{k}] = 16'h{k + 1:04x};\n" for k in range(20_000))
    rewritten = as_constants(f"  reg [15:0] m [19999:0];\n  initial begin\n{words}  end\n")
    assert max(map(len, rewritten.splitlines())) < 300
    assert re.findall(r"16'h(\w+)", rewritten) == [f"{k:04x}" for k in range(20_000, 0, -1)]
