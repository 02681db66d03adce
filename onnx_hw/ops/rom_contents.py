"""Contents of a core's read-only memories, word by word, stated without looking at the circuit.

By the memory's path within the core: ``weights`` are cut into ``weights0``, ``weights1`` ... side by side; a
requantizer has memories of its own for every lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import Requantizer


@dataclass(frozen=True, eq=False)
class RomImage:
    """Read-only words.

    Attributes:
        words: (words, lanes) integers, the lowest lane in the lowest bits.
        bits, signed: of a lane.
        what: a lane is, for people.
        pieces: it is cut into several, whose paths end in a number.
    """

    words: np.ndarray
    bits: int
    signed: bool
    what: str
    pieces: bool = False


def weight_memories(words: np.ndarray, weight: Int, *, in_logic: bool) -> dict[str, RomImage]:
    """Return the memories of weights, (words, lanes) integers, next to multipliers; in logic without constant lanes."""
    if in_logic:
        words = words[:, np.ptp(words, axis=0) != 0]
    return {"weights": RomImage(words, weight.bits, weight.signed, "weight", pieces=True)} if words.size else {}


def requantizer_memories(circuit: Requantizer, channels: np.ndarray, pixels: int, steps: int) -> dict[str, RomImage]:
    """Return the contents lane by lane: tables, thresholds or constants.

    Args:
        channels: (groups, lanes): which channel a lane has.
        pixels: side by side, each with memories of its own.
        steps: in which a beat is multiplied.
    """
    images: dict[str, RomImage] = {}
    for lane, column in enumerate(np.tile(channels, pixels).T):
        match circuit:
            case TableRequantizer():
                entries = _rows(circuit.entries, column)
                bits = Int.holding(min(int(entries.min()), -1), int(entries.max())).bits
                images[f"lane{lane}_table"] = RomImage(entries.reshape(-1, 1), bits, True, "entry of a table")
            case ThresholdRequantizer():
                rows, clamp = _rows(circuit.thresholds, column), circuit.clamp
                for step in range(circuit.depth):
                    visited = rows[:, (1 << step) - 1 :: 2 << step].reshape(-1, 1)
                    images[f"lane{lane}_step{step}"] = RomImage(visited, clamp.bits, clamp.signed, "threshold")
            case MultiplyAddShift():
                words, bits = _constants(circuit, column, steps)
                images[f"lane{lane}_constants"] = RomImage(words, bits, False, "multiplier and addend")
    return images


def _rows(rows: np.ndarray, channels: np.ndarray) -> np.ndarray:
    """Return the rows of these channels, one below the other; one row where all channels have the same."""
    return rows[channels] if len(rows) > 1 else rows


def _constants(circuit: MultiplyAddShift, channels: np.ndarray, steps: int) -> tuple[np.ndarray, int]:
    """Return (words, 1) integers and their bits: per step its digits of the multiplier, and a slice of the addend
    above.

    A digit −1, 0, 1 or 2 is two bits. The zeros at the end of all addends are left out.
    """
    many = len(circuit.multipliers) > 1
    chosen = channels.tolist() if many else [0]
    rows = circuit.rows(steps)
    addends = [int(addend) for addend in circuit.addends]
    zeros = min(((c & -c).bit_length() - 1 for c in addends if c), default=0)
    widest = Int.holding(min(-1, *addends), max(0, *addends)).bits
    part = -(-(widest - zeros) // steps)
    words = []
    for channel in chosen:
        digits, rest = [], int(circuit.multipliers[channel])
        for _ in range(rows * steps):
            digits.append(rest & 3)
            rest = rest + 1 >> 2
        for step in range(steps):
            coded = sum(digit << 2 * j for j, digit in enumerate(digits[step * rows : (step + 1) * rows]))
            addend = addends[channel] >> zeros + part * step & (1 << part) - 1
            words.append([coded | addend << 2 * rows])
    if words == words[:steps] * len(chosen):
        words = words[:steps]
    return np.array(words, dtype=object), 2 * rows + part
