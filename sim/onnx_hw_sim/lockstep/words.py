"""Words of a circuit as C++ expressions, composed of parts of what cells drive, 32 bits at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from onnx_hw_sim.lockstep.netlist import Bit, WordNetlist

WORD = 32


def words(width: int) -> int:
    """Return the number of 32-bit words that hold a number of bits."""
    return -(-width // WORD)


def mask(width: int) -> int:
    return (1 << width) - 1


class Words:
    """Drivers of all bits, and the expressions of words of any bits.

    A driver is an output of a cell or an input of the circuit; its words are ``spell(driver, k)``.

    Attributes:
        widths: width of every driver, in bits.
    """

    def __init__(self) -> None:
        self.widths: list[int] = []
        self._owner: dict[int, tuple[int, int]] = {}
        self.spell: Callable[[int, int], str] = lambda driver, k: f"d{driver}_{k}"

    def drive(self, bits: Sequence[Bit]) -> int:
        """Add a driver of these bits and return its number."""
        driver = len(self.widths)
        self.widths.append(len(bits))
        for offset, bit in enumerate(bits):
            if isinstance(bit, int):
                self._owner[bit] = (driver, offset)
        return driver

    def drivers_of(self, bits: Sequence[Bit]) -> set[int]:
        return {self._owner[bit][0] for bit in bits if isinstance(bit, int) and bit in self._owner}

    def all_of(self, bits: Sequence[Bit]) -> list[str]:
        """Return every word of these bits; a bit without a driver is 0."""
        return [self.word(bits[k : k + WORD]) for k in range(0, len(bits), WORD)]

    def word(self, bits: Sequence[Bit]) -> str:
        """Return at most 32 bits as one word; the bits above them are 0."""
        constant, terms, at = 0, [], 0
        for first, length, repeated in self._runs(bits):
            if isinstance(first, str):
                constant |= (mask(length) if first == "1" else 0) << at
            elif repeated:
                terms.append(_moved(f"spread({self._part(*first, 1)})", at, mask(length)))
            else:
                terms.append(_moved(self._part(*first, length), at))
            at += length
        if constant or not terms:
            terms.append(f"all({constant:#x}u)")
        return terms[0] if len(terms) == 1 else f"({' | '.join(terms)})"

    def _part(self, driver: int, offset: int, length: int) -> str:
        """Return some bits of a driver, moved down to bit 0; they lie in one of its words."""
        k, shift = divmod(offset, WORD)
        kept = min(WORD, self.widths[driver] - k * WORD)
        text = self.spell(driver, k)
        if shift:
            text = f"({text} >> {shift})"
        return text if shift + length == kept else f"({text} & {mask(length):#x}u)"

    def _runs(self, bits: Sequence[Bit]) -> Iterator[tuple[tuple[int, int] | str, int, bool]]:
        """Yield runs of neighbours: (driver and offset, or a constant; length; whether one bit is repeated)."""
        k, owner = 0, self._owner
        while k < len(bits):
            begin, bit = k, bits[k]
            source = owner.get(bit) if isinstance(bit, int) else None
            k += 1
            if source is None:
                value = "1" if bit == "1" else "0"
                while k < len(bits) and self._constant(bits[k]) == value:
                    k += 1
                yield value, k - begin, False
                continue
            while k < len(bits) and bits[k] == bit:
                k += 1
            if k - begin > 1:
                yield source, k - begin, True
                continue
            driver, offset = source
            while k < len(bits) and (offset + k - begin) % WORD:
                following = bits[k]
                if not isinstance(following, int) or owner.get(following) != (driver, offset + k - begin):
                    break
                k += 1
            yield source, k - begin, False

    def _constant(self, bit: Bit) -> str | None:
        if isinstance(bit, int) and bit in self._owner:
            return None
        return "1" if bit == "1" else "0"


def _moved(text: str, at: int, kept: int | None = None) -> str:
    if kept is not None:
        text = f"({text} & {kept:#x}u)"
    return f"({text} << {at})" if at else text


def values_at_power_up(netlist: WordNetlist, bits: Sequence[Bit]) -> list[int]:
    """Return the words of some bits at power-up."""
    value = sum(netlist.begins.get(bit, 0) << k for k, bit in enumerate(bits) if isinstance(bit, int))
    return [value >> k & mask(WORD) for k in range(0, len(bits), WORD)]
