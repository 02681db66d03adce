"""Quantize the trained network, look at its accuracy, and build it for a board.

    pip install "onnx-hw[tools,ice40]" scikit-learn
    python build.py [BOARD] [LAST STAGE]

Writes digits_cnn-BOARD/ into the current folder: the bitstream, report.html, and what onnx-hw infer needs.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import onnx_hw

board = sys.argv[1] if len(sys.argv) > 1 else "icebreaker"
last_stage = sys.argv[2] if len(sys.argv) > 2 else "unpack"

digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)
test, labels = images[1437:], digits.target[1437:]

network = onnx_hw.quantize(Path(__file__).with_name("digits_cnn.onnx"), {"image": images[:200]})
print(network)
right = network(test)["scores"].argmax(axis=1) == labels
print(f"{right.sum()} of {len(labels)} test images are right, with integers of 8 bits")

samples = {"image": test, "labels": labels}
build = onnx_hw.build(network, board=board, inputs=samples, stop_after=last_stage, progress=True)
print(build)
print(build.report)
if build.bitstream:
    print(build.bitstream)
