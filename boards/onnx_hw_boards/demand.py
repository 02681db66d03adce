"""Demand of a circuit, in the terms of the circuit; a chip's family states what that costs in cells.

A demand is a list of parts with their numbers. Widths are those that synthesis is left with: bits that never change
and registers that always hold the same as others are no part of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar


@dataclass(frozen=True)
class Memory:
    """A memory: one port writes (unless the contents are constant), another one reads.

    Attributes:
        width: bits of a word.
        depth: words.
        constant: whether the contents are known.
        at_once: whether a word is read in the cycle of its address, which no block RAM can do.
        in_logic: whether the circuit asks for look-up tables, or leaves it to the size; where these are no memories,
            what is written is left to the size.
        latency: cycles from address to word; registers beyond the memory's own are part of it.
        read: (first bit, bit behind the last) of the parts of a word that are ever read; empty where that is all of it.
        parts: into how many parts the word is cut, of a queue in look-up tables, each with pointers of its own.
        bypassed: whether a word that is not in it may be taken instead of the one that is read.
        depends: of constants, for each bit of a word that is no constant and not like another, of how many bits of the
            address it is a function; empty where these are all bits of word and address.
    """

    width: int
    depth: int
    constant: bool = False
    at_once: bool = False
    in_logic: bool | None = None
    latency: int = 1
    read: tuple[tuple[int, int], ...] = ()
    parts: int = 1
    bypassed: bool = False
    depends: tuple[int, ...] = ()

    def columns(self, bits: int) -> int:
        """Return how many parts of ``bits`` bits the word is cut into, without those of which nothing is read."""
        count, behind = 0, 0  # columns before that one are counted
        for first, last in sorted(self.read or ((0, self.width),)):
            end = max(behind, (last - 1) // bits + 1)
            count += end - max(behind, min(first // bits, end))
            behind = end
        return count


@dataclass(frozen=True)
class Product:
    """A hardware multiplier with all its registers, for two factors.

    Attributes:
        a, b: bits of the factors.
        signed: whether each of them is in two's complement.
        delayed: whether a register that is no part of this takes the product, and nothing else does.
    """

    a: int
    b: int
    signed: tuple[bool, bool] = (True, True)
    delayed: bool = False


@dataclass(frozen=True)
class Shared:
    """Bits of factors that several products share: where their registers are flip-flops, there is one for all."""

    bits: int


@dataclass(frozen=True)
class Adder:
    """A sum or a difference.

    Attributes:
        bits: width of the result.
        gated: whether an addend, or each, is first multiplied by a bit.
        carried: number of the lowest bits that make the carry alone; nothing reads them.
        inverted: bits of the addend that is subtracted.
    """

    bits: int
    gated: bool = False
    carried: int = 0
    inverted: int = 0


@dataclass(frozen=True)
class Comparator:
    """A comparison of two numbers, which says which is the greater.

    Attributes:
        bits: width of the numbers.
        inverted: bits of one of them that have to be inverted where a carry does not; None for all of them. A constant
            has none, and one of a few constants those that are not alike.
    """

    bits: int
    inverted: int | None = None


@dataclass(frozen=True)
class Multiplexer:
    """A choice of one of several words.

    Attributes:
        ways: number of words.
        bits: width of a word.
        tree: whether it is written as a tree over the bits of the number, or case by case.
        cleared: whether one of the words is a constant, and only a register takes what is chosen, which may be cleared
            instead.
    """

    ways: int
    bits: int
    tree: bool = False
    cleared: bool = False


@dataclass(frozen=True)
class LogicFunction:
    """Functions, ``bits`` of them, of the same few bits, ``inputs``."""

    inputs: int
    bits: int = 1


@dataclass(frozen=True)
class Enable:
    """The condition, of some bits, under which registers are loaded, which may have a reset, too."""

    inputs: int
    resets: bool


@dataclass(frozen=True)
class LoopCounter:
    """A counter from 0 to ``count`` - 1 that begins anew, without its register."""

    count: int


@dataclass(frozen=True)
class UpDown:
    """A counter of ``bits`` bits that goes up, goes down or stays, without its register."""

    bits: int


@dataclass(frozen=True)
class Register:
    """Flip-flops."""

    bits: int


@dataclass(frozen=True)
class Paired:
    """Flip-flops that take what a look-up table of their own gives: where the two share a cell, that is one cell less.

    They are no cells by themselves: the flip-flops and the look-up tables are parts of their own.
    """

    bits: int


@dataclass(frozen=True)
class Unseen:
    """A part that a copied control chooses from: less is used than could be chosen.

    Attributes:
        whole: the part, where synthesis does not see through copies.
        used: the rest of it, where synthesis does.
    """

    whole: Part
    used: Part


@dataclass(frozen=True)
class Copies:
    """Parts that all hold the same, so that none has to reach far; a family whose synthesis merges them has one."""

    part: Part
    count: int


Part = (
    Memory
    | Product
    | Shared
    | Adder
    | Comparator
    | Multiplexer
    | LogicFunction
    | Enable
    | LoopCounter
    | UpDown
    | Register
    | Paired
    | Unseen
    | Copies
)
T = TypeVar("T", bound=Part)


@dataclass(frozen=True)
class Demand:
    """Parts and how many of each; a part may be listed more than once."""

    parts: tuple[tuple[Part, int], ...] = ()

    @classmethod
    def of(cls, *parts: Part) -> Demand:
        """Return a demand of one of each part."""
        return cls(tuple(zip(parts, repeat(1))))

    def __add__(self, other: Demand) -> Demand:
        return Demand(self.parts + other.parts)

    def __mul__(self, times: int) -> Demand:
        return Demand(tuple([(part, count * times) for part, count in self.parts])) if times else Demand()

    __rmul__ = __mul__

    def copied(self, count: int) -> Demand:
        """Return the demand of ``count`` equal copies; see ``Copies``."""
        return Demand(tuple((Copies(part, count), times) for part, times in self.parts))

    def all(self, kind: type[T]) -> list[tuple[T, int]]:
        """Return the parts of a kind, with their numbers."""
        return [(part, count) for part, count in self.parts if isinstance(part, kind)]

    def __repr__(self) -> str:
        total: Counter[Part] = Counter()
        for part, count in self.parts:
            total[part] += count
        return "Demand " + ", ".join(f"{count} × {part}" for part, count in total.items() if count)
