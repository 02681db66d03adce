"""Initial contents of memories in Verilog, in a form that compiles quickly.

yosys writes one statement per word. Verilator turns each into statements of a function that runs once, and compiling
those took four fifths of the time of a network with 270,000 weights. A constant array becomes a table in the data of
the library instead, and a memory that is never written *is* that table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MEMORY = re.compile(
    r"^  reg (?P<range>\[\d+:0\] )?(?P<name>\S+) +\[(?P<last>\d+):0\];\n"
    r"  initial begin\n(?P<words>(?:    \S.*;\n)+)  end\n",
    re.MULTILINE,
)
_VALUE = re.compile(r" = (\d+'[a-z][0-9a-fxz_]+);$", re.MULTILINE)
_ZERO = re.compile(r"\d+'[a-z]0+")


WORDS_PER_LINE = 16
"""Number of words per line. Verilator reads at most 40,000 tokens per line."""


def as_constants(verilog: str) -> str:
    """Set every initialised memory of a circuit from a ``localparam``; a memory of zeros needs nothing.

    Memories written in any other way are left as they are.
    """
    count = 0

    def rewrite(memory: re.Match[str]) -> str:
        nonlocal count
        # Strings, not tuples of strings: Python would check hundreds of thousands of tuples for cycles.
        values = _VALUE.findall(memory["words"])
        space = " " if memory["name"].startswith("\\") else ""
        words = (f"    {memory['name']}{space}[{index}] = {value};\n" for index, value in enumerate(values))
        if len(values) != int(memory["last"]) + 1 or "".join(words) != memory["words"]:
            return memory[0]
        width, last = memory["range"] or "", memory["last"]
        declaration = f"  reg {width}{memory['name']} [{last}:0]"
        if all(_ZERO.fullmatch(value) for value in values):
            return f"{declaration};\n"  # Verilator's --x-initial fast begins with zeros
        count += 1
        name = f"initial_words_{count}"
        # An array declared [last:0] lists its last element first.
        pattern = ",\n    ".join(", ".join(row) for row in _rows(values[::-1]))
        return f"  localparam {width}{name} [{last}:0] = '{{{pattern}}};\n{declaration} = {name};\n"

    return _MEMORY.sub(rewrite, verilog)


def _rows(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[k : k + WORDS_PER_LINE] for k in range(0, len(values), WORDS_PER_LINE))
