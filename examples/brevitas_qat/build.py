"""Compare the integers with Brevitas, number by number, and build them for a board.

    pip install "onnx-hw[tools,ice40]"
    python build.py [BOARD] [LAST STAGE]

Writes digits_4_bits-BOARD/ into the current folder: the bitstream, report.html, and what onnx-hw infer needs.
"""

import sys
from pathlib import Path

import numpy as np

import onnx_hw

board = sys.argv[1] if len(sys.argv) > 1 else "icebreaker"
last_stage = sys.argv[2] if len(sys.argv) > 2 else "unpack"

here = Path(__file__).parent
test = np.load(here / "test.npz")
by_brevitas = np.load(here / "brevitas.npz")["scores"]

network = onnx_hw.quantize(here / "digits_4_bits.onnx")  # no samples for calibration: the file has its integers
print(network)
scores = network(test["image"])["scores"]
for name, each in (("Brevitas", by_brevitas), ("the integers", scores)):
    print(f"{name}: {(each.argmax(axis=1) == test['labels']).sum()} of {len(scores)} test images are right")
step = np.diff(np.unique(scores[:, 0])).min()  # between two numbers of the accumulator, or a multiple of it
print(f"largest difference of a score: {np.abs(scores - by_brevitas).max():.1e}; the least step of a score: {step:.1e}")

samples = {"image": test["image"], "labels": test["labels"]}
build = onnx_hw.build(network, board=board, inputs=samples, stop_after=last_stage, progress=True)
print(build)
print(build.report)
if build.bitstream:
    print(build.bitstream)
