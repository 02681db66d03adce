"""Contents of a core's read-only memories, word by word, stated without looking at the circuit.

By the memory's path within the core: ``weights`` are cut into ``weights0``, ``weights1`` ... side by side; a
requantizer has memories of its own for every lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import Requantizer
from onnx_hw.exact.rounding_shift import RoundingShift


@dataclass(frozen=True, eq=False)
class RomImage:
    """Read-only words.

    Attributes:
        words: (words, lanes) integers, the lowest lane in the lowest bits.
        bits, signed: of a lane.
        what: a lane is, for people.
        pieces: it is cut into several, whose paths end in a number.
        loaded: its words can be written at run time.
    """

    words: np.ndarray
    bits: int
    signed: bool
    what: str
    pieces: bool = False
    loaded: bool = False


def weight_memories(words: np.ndarray, weight: Int, *, in_logic: bool) -> dict[str, RomImage]:
    """Return the memories of weights, (words, lanes) integers, next to multipliers; in logic without constant lanes."""
    if in_logic:
        words = words[:, np.ptp(words, axis=0) != 0]
    return {"weights": RomImage(words, weight.bits, weight.signed, "weight", pieces=True)} if words.size else {}


LOADED_BITS = 128
"""Greatest width, in bits, of a memory whose words are loaded: the bytes of a word meet in a register first."""


def loaded_weight_memories(words: np.ndarray, weight: Int) -> dict[str, RomImage]:
    """Return the memories of weights that are loaded, (words, lanes) integers."""
    return {"weights": RomImage(words, weight.bits, weight.signed, "weight", pieces=True, loaded=True)}


def loaded_type(weights: np.ndarray) -> Int:
    """Return the type of weights that may take the place of these: of 2, 4 or 8 bits, or as wide as they are."""
    bits = Int.holding(min(int(weights.min()), -1), max(int(weights.max()), 0)).bits
    return Int(next((usual for usual in (2, 4, 8) if bits <= usual), bits))


def check_loaded_type(weights: np.ndarray, loaded: Int | None) -> None:
    """Raise ``ValueError`` for weights that are not of the type of those that may be loaded."""
    if loaded is not None and not loaded.min <= int(weights.min()) <= int(weights.max()) <= loaded.max:
        raise ValueError(f"weights must be {loaded!r}, not {int(weights.min())}..{int(weights.max())}")


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
                entries, loaded = _rows(circuit.entries, column), circuit.form is not None
                low, high = (int(entries.min()), int(entries.max()))
                if circuit.form is not None:
                    low, high = circuit.form.entry.min, circuit.form.entry.max
                words, bits = entries.reshape(-1, 1), Int.holding(min(low, -1), high).bits
                images[f"lane{lane}_table"] = RomImage(words, bits, True, "entry of a table", loaded=loaded)
            case RoundingShift():
                pass  # it has single numbers only
            case ThresholdRequantizer():
                rows, clamp = _rows(circuit.thresholds, column), circuit.clamp
                for step in range(circuit.depth):
                    visited = rows[:, (1 << step) - 1 :: 2 << step].reshape(-1, 1)
                    images[f"lane{lane}_step{step}"] = RomImage(visited, clamp.bits, clamp.signed, "threshold")
            case DigitTable():
                words = _rows(circuit.words, column).reshape(-1, 1)
                images[f"lane{lane}_words"] = RomImage(words, circuit.word_type.bits, True, "product with a digit")
            case MultiplyAddShift():
                words, bits = _constants(circuit, column, steps)
                what, loaded = "multiplier and addend", circuit.form is not None
                images[f"lane{lane}_constants"] = RomImage(words, bits, False, what, loaded=loaded)
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
    if circuit.form is not None:
        zeros, widest = circuit.form.zeros, circuit.form.addend.bits
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
    if circuit.form is None and words == words[:steps] * len(chosen):
        words = words[:steps]
    return np.array(words, dtype=object), 2 * rows + part
