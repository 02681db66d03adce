"""Bits of weights flipped in the Verilog of a build: the cocotb bench beside it must see each on its own edge.

    python benchmarks/cocotb_flips.py DIR [--flips 20] [--seed 0]

DIR is a build with `verilog/` and `cocotb/`. A flip that the bench does not see is shown to be unreachable: its place
in the word holds no weight, or golden with the other weight gives the same on every frame of the bench, and then on a
thousand random ones of the layer's own inputs; a flip that does differ there is a miss.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from onnx_hw import flow
from onnx_hw.assemble.elaborate import module_names
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import NetworkNode
from onnx_hw.ops.stream_order import UNUSED
from onnx_hw.report.read import options_of, read_report
from onnx_hw.schedule.folding_file import read_foldings
from onnx_hw.schedule.insert_forks import insert_forks

WORD = re.compile(r"^    memory(?P<low>\d+)\[(?P<word>\d+)\] = (?P<bits>\d+)'h(?P<value>[0-9a-f]+);$", re.MULTILINE)


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("folder", type=Path)
    asked.add_argument("--flips", type=int, default=20)
    asked.add_argument("--seed", type=int, default=0)
    asked = asked.parse_args()
    design = design_of(asked.folder)
    (file,) = (asked.folder / "verilog").glob("*_core.v")
    text = file.read_text()
    nodes = {module: node for node, module in module_names(design).items()}
    roms = ((word, rom_of(text, word.start(), file.stem)) for word in WORD.finditer(text))
    places = [(word, *rom) for word, rom in roms if rom is not None]
    generator = np.random.default_rng(asked.seed)
    missed = 0
    for number in range(asked.flips):
        word, core, rom = places[generator.integers(len(places))]
        bit = int(generator.integers(int(word["bits"])))
        node = design.network.node(nodes[core])
        value = format(int(word["value"], 16) ^ 1 << bit, "x")
        flipped = f"{text[: word.start('value')]}{value}{text[word.end('value') :]}"
        seen = first_edge(asked.folder, file.name, flipped)
        where = f"{number:2} {node.name}, rom {rom}, memory{word['low']}[{word['word']}] bit {bit}"
        if seen in node.outputs:
            print(f"{where}: seen on its own edge", flush=True)
            continue
        why = unreachable(text, file.stem, node, design, core, rom, word, bit) if not seen else ""
        missed += not why
        print(f"{where}: {why or f'MISSED, seen first on {seen or None}'}", flush=True)
    print(f"{asked.flips - missed} of {asked.flips} seen on their own edge, or unreachable")
    return int(missed > 0)


def design_of(folder: Path) -> Design:
    report = read_report(folder)
    options = options_of(report, folder)
    network = flow.quantize(flow.read(options.model, options.reading))
    foldings, _ = read_foldings(folder / "folding.toml", insert_forks(network))
    depths = {fifo.edge: fifo.depth for fifo in report.design.fifos}
    return flow.schedule(
        network, report.board.name, clock_mhz=report.design.clock_mhz, foldings=foldings, depths=depths
    )


def rom_of(text: str, place: int, module: str) -> tuple[str, int] | None:
    """Core and number of the ROM of weights that a place of the text is in."""
    begin = text.rfind("\nmodule ", 0, place)
    named = re.match(rf"\nmodule {module}__(\w+?)__core__weights(\d+) ", text[begin : begin + 200])
    return None if named is None else (named[1], int(named[2]))


def first_edge(folder: Path, name: str, text: str) -> str:
    """The first stream that differs, in the order of the network; empty where the bench passes."""
    with tempfile.TemporaryDirectory() as place:
        made = shutil.ignore_patterns("sim_build", "__pycache__")
        shutil.copytree(folder / "cocotb", Path(place) / "cocotb", ignore=made)
        (Path(place) / name).write_text(text)
        environment = {**os.environ, "VERILOG": str(Path(place) / name), "COCOTB_TEST_FILTER": "at_full_rate"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."],
            cwd=Path(place) / "cocotb", env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode == 0:
        return ""
    told = re.search(r"\n\S* *(.+): frame \d+, beat \d+, lane \d+: golden", done.stdout)
    assert told is not None, done.stdout
    return told[1]


def unreachable(
    text: str, module: str, node: NetworkNode, design: Design, core: str, rom: int, word: re.Match[str], bit: int
) -> str:
    """Why no input tells the flipped weight from its own; empty where one does."""
    folding = design.folding(node)
    words, kind = node.operator.constant_words(folding)
    first = re.search(rf"module {module}__{core}__core__weights0 .*?output \[(\d+):0\] data;", text, re.DOTALL)
    at = int(word["low"]) + bit
    lane = rom * ((int(first[1]) + 1) // kind.bits) + at // kind.bits
    if lane >= words.shape[1] or int(word["word"]) >= len(words):
        return "unreachable: no lane is there"
    element = node.operator.weight_words(folding).elements.reshape(words.shape)[int(word["word"]), lane]
    if element == UNUSED:
        return "unreachable: its place in the word is beyond the weights"
    weights = node.operator.weights.copy()
    flat = weights.reshape(-1)
    low_bits = int(flat[element]) % (1 << kind.bits) ^ 1 << at % kind.bits
    flat[element] = low_bits - (1 << kind.bits if kind.signed and low_bits >> kind.bits - 1 else 0)
    other = replace(node.operator, weights=weights)
    low, high = node.operator.operands()[0].range
    x = np.random.default_rng(0).integers(low, high + 1, (1000, *node.operator.operands()[0].shape))
    same = np.array_equal(node.operator.golden(x)[0], other.golden(x)[0])
    return "unreachable: a thousand random frames give the same" if same else ""


if __name__ == "__main__":
    sys.exit(main())
