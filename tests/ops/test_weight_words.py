"""The words of weights: what the multipliers see, cycle by cycle, against the loops written out."""

from itertools import product

import numpy as np
from hypothesis import given

from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from support import core_tests
from support.random_cases import many

depthwise = core_tests.load("depthwise").depthwise
matmuls = core_tests.load("matmul").matmuls


@many
@given(matmuls())
def test_words_of_a_matmul(drawn: tuple[MatMul, MatMulFolding]) -> None:
    """For each group, for each beat: results outside, inputs inside."""
    matmul, folding = drawn
    weights = matmul.constants
    outputs, inputs = weights.shape
    rows, expected = min(folding.out_lanes, outputs), []
    for first in range(0, outputs, rows):
        for beat in range(0, inputs, folding.in_lanes):
            places = product(range(first, first + rows), range(beat, beat + folding.in_lanes))
            expected.append([int(weights[at]) if at[0] < outputs and at[1] < inputs else 0 for at in places])
    assert matmul.weight_words(folding).to_beats(weights[None, None]).tolist() == expected


@many
@given(depthwise())
def test_words_of_a_depthwise(drawn: tuple[Depthwise, DepthwiseFolding]) -> None:
    """For each chunk, for some elements of the kernel at a time: elements outside, results inside."""
    operator, folding = drawn
    outputs, rows, columns = operator.weights.shape
    places, expected = list(product(range(rows), range(columns))), []
    for first in range(0, outputs, folding.out_lanes):
        for tap in range(0, len(places), folding.taps):
            word = []
            for k, c in product(range(tap, tap + folding.taps), range(first, first + folding.out_lanes)):
                there = k < len(places) and c < outputs
                word.append(int(operator.weights[(c, *places[k])]) if there else 0)
            expected.append(word)
    words = operator.weight_words(folding)
    assert words.to_beats(np.moveaxis(operator.weights, 0, -1)[None]).tolist() == expected
