"""Arithmetic of cells as C++: one expression for each 32-bit word of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onnx_hw_sim.lockstep.netlist import Bit, UnsupportedCircuit, WordCell
from onnx_hw_sim.lockstep.words import WORD, Words, mask, words


@dataclass(frozen=True)
class CellOperands:
    """One cell and the C++ expressions of its operands."""

    cell: WordCell
    of: Words

    @property
    def width(self) -> int:
        return len(self.cell.pins["Y"])

    def pin(self, name: str) -> Sequence[Bit]:
        return self.cell.pins[name]

    def extended(self, name: str, width: int) -> list[Bit]:
        """Return the bits of an operand, cut or extended to a width."""
        bits = list(self.pin(name)[:width])
        return bits + ([bits[-1]] if self.cell.signed and bits else ["0"]) * (width - len(bits))

    def each(self, name: str) -> list[str]:
        """Return the words of an operand, extended to the result's width."""
        return self.of.all_of(self.extended(name, self.width))

    def truth(self, name: str) -> str:
        """Return whether any bit of an operand is 1, as a bit."""
        bits = self.pin(name)
        parts = self.of.all_of(bits)
        return parts[0] if len(bits) == 1 else f"bit(({' | '.join(parts)}) != 0u)"

    def number(self, name: str, width: int) -> str:
        """Return an operand as one number of a type with room for ``width`` bits: V, D or W; higher bits may be its
        sign.
        """
        bits = self.pin(name)
        if width <= WORD:
            if not self.cell.signed or len(bits) >= width:
                return self.of.word(self.extended(name, width))
            return f"widen({self.of.word(bits)}, {WORD - len(bits)})"
        if width <= 2 * WORD:
            if self.cell.signed and len(bits) < width:
                whole = self.of.all_of(bits)
                return f"widen(join({', '.join(whole)}), {2 * WORD - len(bits)})"
            return f"join({', '.join(self.of.all_of(self.extended(name, width)))})"
        return self.wide(name, width)

    def wide(self, name: str, width: int) -> str:
        return _wide(self.of.all_of(self.extended(name, words(width) * WORD)))


def results(cell: WordCell, of: Words) -> list[str]:
    """Return the words of a cell's output; raise ``UnsupportedCircuit`` for an unknown kind of cell."""
    compute = _KINDS.get(cell.kind)
    if compute is None:
        raise UnsupportedCircuit(f"a cell {cell.kind} is not known")
    return compute(CellOperands(cell, of))


def _bitwise(pattern: str) -> Callable[[CellOperands], list[str]]:
    def compute(cell: CellOperands) -> list[str]:
        operands = [cell.each(name) for name in ("A", "B") if name in cell.cell.pins]
        return _cut([pattern.format(*row) for row in zip(*operands, strict=True)], cell.width)

    return compute


def _reduced(pattern: str) -> Callable[[CellOperands], list[str]]:
    """Return a reduction of all bits of ``A``."""

    def compute(cell: CellOperands) -> list[str]:
        return _one(pattern.format(f"({' | '.join(cell.of.all_of(cell.pin('A')))})"), cell.width)

    return compute


def _reduce_and(cell: CellOperands) -> list[str]:
    bits = cell.pin("A")
    parts = [f"({word} == {mask(min(WORD, len(bits) - k * WORD)):#x}u)" for k, word in enumerate(cell.of.all_of(bits))]
    return _one(f"bit({' & '.join(parts)})", cell.width)


def _reduce_xor(pattern: str) -> Callable[[CellOperands], list[str]]:
    def compute(cell: CellOperands) -> list[str]:
        return _one(pattern.format(f"parity({' ^ '.join(cell.of.all_of(cell.pin('A')))})"), cell.width)

    return compute


def _logic(pattern: str) -> Callable[[CellOperands], list[str]]:
    def compute(cell: CellOperands) -> list[str]:
        return _one(pattern.format(*[cell.truth(name) for name in ("A", "B") if name in cell.cell.pins]), cell.width)

    return compute


def _equal(pattern: str) -> Callable[[CellOperands], list[str]]:
    def compute(cell: CellOperands) -> list[str]:
        width = max(len(cell.pin("A")), len(cell.pin("B")))
        pairs = zip(*(cell.of.all_of(cell.extended(name, width)) for name in "AB"), strict=True)
        differing = [f"({a} ^ {b})" for a, b in pairs]
        if len(differing) == 1:
            (a, b) = (cell.of.word(cell.extended(name, width)) for name in "AB")
            return _one(f"bit({a} {pattern} {b})", cell.width)
        return _one(f"bit(({' | '.join(differing)}) {pattern} 0u)", cell.width)

    return compute


def _ordered(left: str, right: str, pattern: str) -> Callable[[CellOperands], list[str]]:
    """Return ``left < right``, or with ``pattern`` its opposite."""

    def compute(cell: CellOperands) -> list[str]:
        width = max(len(cell.pin("A")), len(cell.pin("B")))
        if width > 2 * WORD:
            a, b = (_ordered_as_unsigned(cell, name, width) for name in (left, right))
            return _one(pattern.format(f"less({a}, {b})"), cell.width)
        a, b = (cell.number(name, WORD if width <= WORD else 2 * WORD) for name in (left, right))
        single = width <= WORD
        if cell.cell.signed:
            kind = "S" if single else "SD"
            a, b = f"({kind}){a}", f"({kind}){b}"
        return _one(pattern.format(f"{'bit' if single else 'bit64'}({a} < {b})"), cell.width)

    return compute


def _ordered_as_unsigned(cell: CellOperands, name: str, width: int) -> str:
    parts = cell.of.all_of(cell.extended(name, words(width) * WORD))
    if cell.cell.signed:
        parts[-1] = f"({parts[-1]} ^ 0x80000000u)"
    return _wide(parts)


def _arithmetic(operator: str) -> Callable[[CellOperands], list[str]]:
    def compute(cell: CellOperands) -> list[str]:
        a, b = (cell.number(name, cell.width) for name in "AB")
        return _whole(f"({a} {operator} {b})", cell.width)

    return compute


def _negated(cell: CellOperands) -> list[str]:
    if cell.width > 2 * WORD:
        return _whole(f"(W<{words(cell.width)}>{{}} - {cell.wide('A', cell.width)})", cell.width)
    return _whole(f"(0u - {cell.number('A', cell.width)})", cell.width)


def _mux(cell: CellOperands) -> list[str]:
    a, b = (cell.of.all_of(cell.pin(name)) for name in "AB")
    select = cell.of.word(cell.pin("S"))
    return [f"choose({select}, {yes}, {no})" for no, yes in zip(a, b, strict=True)]


def _pmux(cell: CellOperands) -> list[str]:
    width, result = cell.width, cell.of.all_of(cell.pin("A"))
    for k, select in enumerate(cell.pin("S")):
        bit = cell.of.word([select])
        taken = cell.of.all_of(cell.pin("B")[k * width : (k + 1) * width])
        result = [f"choose({bit}, {yes}, {no})" for yes, no in zip(taken, result, strict=True)]
    return result


def _bmux(cell: CellOperands) -> list[str]:
    width, values = cell.width, cell.pin("A")
    entries = [cell.of.all_of(values[k : k + width]) for k in range(0, len(values), width)]
    for select in cell.pin("S"):
        bit = cell.of.word([select])
        entries = [
            [f"choose({bit}, {yes}, {no})" for yes, no in zip(high, low, strict=True)]
            for low, high in zip(entries[::2], entries[1::2], strict=True)
        ]
    return entries[0]


def _shift_left(cell: CellOperands) -> list[str]:
    return _whole(f"shift_left({_shifted(cell, cell.width)}, {_amount(cell, cell.pin('B'))})", cell.width)


def _shift_right(cell: CellOperands) -> list[str]:
    """Shift right. Zeros come from above, or copies of the sign in an arithmetic shift of a signed number."""
    width = max(cell.width, len(cell.pin("A")))
    arithmetic = cell.cell.kind == "$sshr" and cell.cell.number("A_SIGNED")
    amount = _amount(cell, cell.pin("B"))
    if width <= 2 * WORD:
        if not arithmetic:
            return _whole(f"shift_right({_shifted(cell, width)}, {amount})", cell.width, width)
        filled = [cell.pin("A")[-1]] * (2 * WORD)
        bits = [*cell.pin("A"), *filled][: WORD if width <= WORD else 2 * WORD]
        number = cell.of.word(bits) if width <= WORD else f"join({', '.join(cell.of.all_of(bits))})"
        return _whole(f"shift_right_signed({number}, {amount})", cell.width, width)
    return _from_bit(cell, width, amount, cell.of.word([cell.pin("A")[-1]]) if arithmetic else "V{}")


def _shift(cell: CellOperands) -> list[str]:
    """Shift right. A signed ``B``, which would also shift left, is not supported."""
    if cell.cell.number("B_SIGNED"):
        raise UnsupportedCircuit("a shift in both directions is not supported")
    return _shift_right(cell)


def _shifted(cell: CellOperands, width: int) -> str:
    """Return the operand ``A`` of a shift, extended by its own sign, whether ``B`` is signed or not."""
    room = width if width <= WORD else words(width) * WORD
    bits = list(cell.pin("A")[:width])
    bits += ([bits[-1]] if cell.cell.number("A_SIGNED") else ["0"]) * (width - len(bits)) + ["0"] * (room - width)
    whole = cell.of.all_of(bits)
    if width <= WORD:
        return whole[0]
    return f"join({', '.join(whole)})" if width <= 2 * WORD else _wide(whole)


def _from_bit(cell: CellOperands, width: int, amount: str, sign: str) -> list[str]:
    number = _shifted(cell, width)
    if sign != "V{}":  # set the bits above the number, too
        whole = [*cell.pin("A"), *[cell.pin("A")[-1]] * (words(width) * WORD - len(cell.pin("A")))]
        number = _wide(cell.of.all_of(whole))
    return _cut([f"bits_from({number}, {amount} + {k * WORD}u, {sign})" for k in range(words(cell.width))], cell.width)


def _amount(cell: CellOperands, bits: Sequence[Bit]) -> str:
    """Return the amount of a shift, an unsigned number; of more than 31 bits it only matters whether it is large."""
    if len(bits) < WORD:
        return cell.of.word(bits)
    raise UnsupportedCircuit(f"a shift by a number of {len(bits)} bits is not supported")


def _wide(parts: Sequence[str]) -> str:
    """Return a number of more than 64 bits."""
    return f"W<{len(parts)}>{{{{{', '.join(parts)}}}}}"


def _one(bit: str, width: int) -> list[str]:
    """Return a truth value as a word of any width."""
    return [bit] + ["V{}"] * (words(width) - 1)


def _whole(number: str, width: int, computed: int = 0) -> list[str]:
    """Return the words of a number of type V, D or W.

    Args:
        computed: number of bits that it has room for, if these are more than ``width``.
    """
    computed = max(width, computed)
    if computed <= WORD:
        parts = [number]
    elif computed <= 2 * WORD:
        parts = [f"low({number})", f"high({number})"]
    else:
        parts = [f"({number}).w[{k}]" for k in range(words(width))]
    return _cut(parts[: words(width)], width)


def _cut(parts: list[str], width: int) -> list[str]:
    last = width - (len(parts) - 1) * WORD
    return parts if last == WORD else [*parts[:-1], f"({parts[-1]} & {mask(last):#x}u)"]


_KINDS: Mapping[str, Callable[[CellOperands], list[str]]] = {
    "$pos": _bitwise("{}"),
    "$not": _bitwise("~{}"),
    "$and": _bitwise("({} & {})"),
    "$or": _bitwise("({} | {})"),
    "$xor": _bitwise("({} ^ {})"),
    "$xnor": _bitwise("~({} ^ {})"),
    "$reduce_or": _reduced("bit({} != 0u)"),
    "$reduce_bool": _reduced("bit({} != 0u)"),
    "$logic_not": _reduced("bit({} == 0u)"),
    "$reduce_and": _reduce_and,
    "$reduce_xor": _reduce_xor("{}"),
    "$reduce_xnor": _reduce_xor("({} ^ 1u)"),
    "$logic_and": _logic("({} & {})"),
    "$logic_or": _logic("({} | {})"),
    "$eq": _equal("=="),
    "$eqx": _equal("=="),
    "$ne": _equal("!="),
    "$nex": _equal("!="),
    "$lt": _ordered("A", "B", "{}"),
    "$gt": _ordered("B", "A", "{}"),
    "$ge": _ordered("A", "B", "({} ^ 1u)"),
    "$le": _ordered("B", "A", "({} ^ 1u)"),
    "$add": _arithmetic("+"),
    "$sub": _arithmetic("-"),
    "$mul": _arithmetic("*"),
    "$neg": _negated,
    "$mux": _mux,
    "$pmux": _pmux,
    "$bmux": _bmux,
    "$shl": _shift_left,
    "$sshl": _shift_left,
    "$shr": _shift_right,
    "$sshr": _shift_right,
    "$shift": _shift,
    "$shiftx": _shift,
}
