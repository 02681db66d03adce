"""The question whether a model is far too large for a board, asked before it is quantized; and widths that would fit.

How many integers a model has, and how wide they are, is known when it is read. Assumed scales are enough for that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import onnx_hw_boards
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.messages.text import short
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.check.supported import require_capability
from onnx_hw.onnx.graph.dependencies import names_behind_inputs, names_read
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators import facts_of
from onnx_hw.quantization.quantize import PreparedModel, quantize_model
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.scheme import DEFAULT, Scheme
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.explain_no_fit import MAX_NAMED_NODES, NOTHING_HELPS, lanes_and_rate
from onnx_hw.schedule.schedule_for_board import far_too_large, schedule_for_board
from onnx_hw_boards.board import Board

NARROWER_BITS = ((6, 8), (4, 8), (4, 6), (4, 4), (3, 4), (2, 4))
"""Bits of weights and data that are tried where a model is too large, the least loss first."""


WEIGHTS_BEYOND_DOUBT = 16
"""Multiple of the largest chip's memory from which on the weights alone decide. Below, the whole network is lowered and
scheduled: that takes seconds, half a minute of the slowest networks of this size, says exactly what is too large, and
names everything else that is wrong.
"""

BITS_PER_LUT = 16


def refuse_too_many_weights(model: Model, scheme: Scheme | None, board: str) -> None:
    """Raise UserError if the weights of a float model take far more bits than the memory of any chip has.

    Products count whose data are not constant, each weight once. It may still have to be computed of constants, as in a
    model as written; some products, such as those of recurrent layers, are there in canonical form alone. What no
    hardware can do is named first.
    """
    bits = _bits_of_weights(model, scheme or DEFAULT)
    every = (onnx_hw_boards.board(name) for name in onnx_hw_boards.names())
    if sum(bits.values()) <= WEIGHTS_BEYOND_DOUBT * max(map(_memory_bits, every)):
        return
    require_capability(model)
    target, largest = find_board(board), sorted(bits, key=lambda name: -bits[name])[:MAX_NAMED_NODES]
    raise user_error(
        "too-big",
        f"the weights alone need {sum(bits.values()):,} bits of the {_memory_bits(target):,} in all block RAMs and "
        "look-up tables",
        where=f"most: {', '.join(f'{short(name)} {bits[name]:,}' for name in largest)}",
        hint=NOTHING_HELPS,
        stage="schedule",
        exit_code=ExitCode.DOES_NOT_FIT,
    )


def _bits_of_weights(model: Model, scheme: Scheme) -> dict[str, int]:
    """Return the bits of the constants that data are multiplied with, by the product; none of a quantized model."""
    graph, bits, seen = model.graph, dict[str, int](), set[str]()
    if is_quantized(model):
        return bits
    data = names_behind_inputs(graph)
    for node in graph.nodes:
        place = facts_of(node).weights
        if place is None or place.at >= len(node.inputs) or data.isdisjoint(names_read(node)):
            continue
        name = node.inputs[place.at]
        weights = graph.constants.get(name, graph.values.get(name))
        if name in data or name in seen or weights is None or not weights.size:
            continue
        seen.add(name)
        narrowest = 2 if scheme.goal is not None else scheme.weight_precision(node.label).bits
        bits[node.label] = weights.size * narrowest
    return bits


def _memory_bits(board: Board) -> int:
    """Return the bits that a board's chip can store."""
    return board.cells.bram * board.family.bram_bits + board.cells.lut * BITS_PER_LUT


def refuse_too_large(prepared: PreparedModel, scheme: Scheme | None, board: str, request: ScheduleRequest) -> None:
    """Raise UserError if a float model is far too large for a board; it is the one that scheduling would raise.

    With a goal, widths are not known yet, and only what no widths make fit is refused.
    """
    refuse_too_many_weights(prepared.canonical, scheme, board)
    if scheme is not None and scheme.goal is not None:
        return
    network, target = _assumed(prepared, scheme), find_board(board)
    if network is not None and far_too_large(target, network, request):
        schedule_for_board(target, network, request)


def with_widths_that_fit(
    error: UserError, prepared: PreparedModel, scheme: Scheme | None, board: str, request: ScheduleRequest
) -> UserError:
    """Return an error of a float model that is too large with the widths that would fit, if there are any."""
    if error.exit_code != ExitCode.DOES_NOT_FIT or request.foldings is not None:
        return error
    advice = _widths_that_fit(prepared, scheme or DEFAULT, board, request)
    if not advice:
        return error
    first, *others = error.problems
    hint = advice if first.hint == NOTHING_HELPS else f"{advice}; {first.hint}"
    return UserError(replace(first, hint=hint), *others, exit_code=error.exit_code)


def _widths_that_fit(prepared: PreparedModel, scheme: Scheme, board: str, request: ScheduleRequest) -> str:
    target = find_board(board)
    narrower = [(w, d) for w, d in NARROWER_BITS if w < scheme.weights.bits and d <= scheme.data.bits]

    @cache
    def network_of(weights: int, data: int) -> Network | None:
        """Return the network with these bits; None if it cannot be made, or is far too large."""
        of_weights, of_data = replace(scheme.weights, bits=weights), replace(scheme.data, bits=data)
        tried = replace(scheme, weights=of_weights, data=of_data, goal=None)
        try:
            refuse_too_many_weights(prepared.canonical, tried, board)
        except UserError:
            return None
        network = _assumed(prepared, tried)
        return None if network is None or far_too_large(target, network, request) else network

    if not narrower or network_of(*narrower[-1]) is None:  # the narrowest: of a large model each takes seconds
        return ""
    for weights, data in narrower:
        network = network_of(weights, data)
        if network is None:
            continue
        try:
            design, _ = schedule_for_board(target, network, request)
        except UserError:
            continue
        return (
            f"`--bits weights={weights},data={data}` fits: {lanes_and_rate(design)}; `--accuracy-loss 1` searches for "
            "the widths of each layer"
        )
    return ""


def _assumed(prepared: PreparedModel, scheme: Scheme | None) -> Network | None:
    """Return the network with assumed scales, or None for a model that quantization will refuse."""
    try:
        return quantize_model(prepared, assume_ranges, scheme).network
    except UserError:
        return None
