"""Steps of a cycle: cells settle, registers take their next value, memories are read and written.

A register keeps its old value until its step is done; all steps that read the old value come before (``levelize``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onnx_hw_sim.lockstep.arithmetic import results
from onnx_hw_sim.lockstep.netlist import OUTPUTS, Bit, UnsupportedCircuit, WordCell, WordNetlist
from onnx_hw_sim.lockstep.words import WORD, Words, mask, values_at_power_up, words

MAX_MEMORY_WORDS = 1 << 24
"""Greatest number of 32-bit words of a memory."""


@dataclass(frozen=True)
class Step:
    """Step of a cycle.

    Attributes:
        reads: drivers whose values of this cycle it needs.
        out: driver that it sets; None if it sets none.
        keeps: whether that driver is a register, which others must have read before.
        write: returns its statements, given the names of its new words.
        memory: number of the memory that it reads or, with ``store``, writes; None for other steps.
        store: returns the statements that write the memory, given the same names; None for other steps.
        words: number of names.
    """

    reads: frozenset[int]
    write: Callable[[Sequence[str]], list[str]]
    out: int | None = None
    keeps: bool = False
    memory: int | None = None
    store: Callable[[Sequence[str]], list[str]] | None = None
    words: int = 0


@dataclass(frozen=True)
class MemoryStep:
    """Memory of the circuit.

    Attributes:
        width: bits of a word.
        depth: number of words.
        contents: (depth, 32-bit words of a word), flat; empty for zeros.
        kept: whether it is written, so that every run has its own.
    """

    width: int
    depth: int
    contents: Sequence[int]
    kept: bool

    @property
    def parts(self) -> int:
        return words(self.width)


@dataclass
class Cycle:
    """Everything that is done in a cycle, in no particular order.

    Attributes:
        begins: register -> its words at power-up.
        inputs: port -> driver.
        outputs: port -> its words.
    """

    of: Words = field(default_factory=Words)
    steps: list[Step] = field(default_factory=list)
    memories: list[MemoryStep] = field(default_factory=list)
    begins: dict[int, list[int]] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, Sequence[Bit]] = field(default_factory=dict)


def steps_of(netlist: WordNetlist) -> Cycle:
    """Return all steps of a circuit; raise ``UnsupportedCircuit`` for an unknown cell, or a clock besides ``clk``."""
    cycle = Cycle(outputs=dict(netlist.outputs))
    of = cycle.of
    for name, bits in netlist.inputs.items():
        if name != "clk":
            cycle.inputs[name] = of.drive(bits)
    driven = [(cell, _drives(of, cell)) for cell in netlist.cells]
    for cell, outs in driven:
        if cell.kind == "$mem_v2":
            _memory(cycle, netlist, cell, outs)
        elif "CLK" in cell.pins:
            (out,) = outs
            cycle.begins[out] = values_at_power_up(netlist, cell.pins["Q"])
            cycle.steps.append(_register(of, netlist, cell, out))
        else:
            cycle.steps.append(Step(_reads(of, cell), _settles(of, cell), outs[0], words=words(of.widths[outs[0]])))
    for name, bits in netlist.outputs.items():
        cycle.steps.append(Step(frozenset(of.drivers_of(bits)), _shows(of, name, bits)))
    return cycle


def _drives(of: Words, cell: WordCell) -> list[int]:
    """Return the drivers of a cell: one, or one for each read port of a memory."""
    if cell.kind == "$mem_v2":
        data, width = cell.pins["RD_DATA"], cell.number("WIDTH")
        return [of.drive(data[k : k + width]) for k in range(0, len(data), width)]
    pins = [cell.pins[name] for name in OUTPUTS if name in cell.pins]
    if len(pins) != 1:
        raise UnsupportedCircuit(f"a cell {cell.kind} is not known")
    return [of.drive(pins[0])]


def _reads(of: Words, cell: WordCell) -> frozenset[int]:
    bits = (bit for name, pin in cell.pins.items() if name not in OUTPUTS and name != "CLK" for bit in pin)
    return frozenset(of.drivers_of(list(bits)))


def _settles(of: Words, cell: WordCell) -> Callable[[Sequence[str]], list[str]]:
    def write(names: Sequence[str]) -> list[str]:
        return [f"{name} = {value};" for name, value in zip(names, results(cell, of), strict=True)]

    return write


def _shows(of: Words, port: str, bits: Sequence[Bit]) -> Callable[[Sequence[str]], list[str]]:
    def write(_names: Sequence[str]) -> list[str]:
        return [f"s.{port}[{k}] = {value};" for k, value in enumerate(of.all_of(bits))]

    return write


# ---- registers ------------------------------------------------------------------------------------------------------

_REGISTERS = {"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"}


def _register(of: Words, netlist: WordNetlist, cell: WordCell, out: int) -> Step:
    if cell.kind not in _REGISTERS:
        raise UnsupportedCircuit(f"a cell {cell.kind} is not known")
    if list(cell.pins["CLK"]) != list(netlist.clock) or not cell.number("CLK_POLARITY"):
        raise UnsupportedCircuit("a second clock is not supported")

    def write(names: Sequence[str]) -> list[str]:
        values = of.all_of(cell.pins["D"])
        before = [of.spell(out, k) for k in range(len(names))]
        enable, reset = (_control(of, cell, pin) for pin in ("EN", "SRST"))
        to = [f"all({word:#x}u)" for word in _number_words(cell, "SRST_VALUE", len(names))]
        if reset and cell.kind == "$sdffce":
            values = [f"choose({reset}, {zero}, {value})" for zero, value in zip(to, values, strict=True)]
        if enable:
            values = [f"choose({enable}, {value}, {old})" for value, old in zip(values, before, strict=True)]
        if reset and cell.kind != "$sdffce":
            values = [f"choose({reset}, {zero}, {value})" for zero, value in zip(to, values, strict=True)]
        return [f"{name} = {value};" for name, value in zip(names, values, strict=True)]

    reads = _reads(of, cell) - {out}
    return Step(reads, write, out, keeps=True, words=words(of.widths[out]))


def _control(of: Words, cell: WordCell, pin: str) -> str | None:
    """Return a pin of one bit, as a bit that is 1 where the pin acts; None without the pin."""
    if pin not in cell.pins:
        return None
    bit = of.word(cell.pins[pin])
    return bit if cell.number(f"{pin}_POLARITY") else f"({bit} ^ 1u)"


def _number_words(cell: WordCell, name: str, count: int) -> list[int]:
    return _split(cell.number(name), count)


def _split(number: int, count: int) -> list[int]:
    return [number >> WORD * k & mask(WORD) for k in range(count)]


# ---- memories -------------------------------------------------------------------------------------------------------


def _memory(cycle: Cycle, netlist: WordNetlist, cell: WordCell, outs: Sequence[int]) -> None:
    """Add a step for every port of a memory."""
    number, width, address = len(cycle.memories), cell.number("WIDTH"), cell.number("ABITS")
    reading, writing = cell.number("RD_PORTS"), cell.number("WR_PORTS")
    depth = 1 << address
    if depth * words(width) > MAX_MEMORY_WORDS:
        raise UnsupportedCircuit(f"a memory of {address} address bits is too large")
    if cell.number("OFFSET") or cell.number("RD_WIDE_CONTINUATION") or cell.number("WR_WIDE_CONTINUATION"):
        raise UnsupportedCircuit("a memory with ports of several widths is not supported")
    contents = _contents(cell.parameters["INIT"], width, cell.number("SIZE"), depth)
    memory = MemoryStep(width, depth, contents, kept=writing > 0)
    cycle.memories.append(memory)
    for port, out in enumerate(outs[:reading]):
        cycle.steps.append(_read_port(cycle, netlist, cell, number, port, out))
        if cycle.steps[-1].keeps:
            begins = cell.parameters["RD_INIT_VALUE"]
            begin = begins[len(begins) - (port + 1) * width : len(begins) - port * width]
            cycle.begins[out] = _split(int(begin.replace("x", "0") or "0", 2), memory.parts)
    for port in range(writing):
        cycle.steps.append(_write_port(cycle, netlist, cell, number, port))


def _contents(text: str, width: int, size: int, depth: int) -> Sequence[int]:
    """Return the initial words, split in 32-bit words; words that are not specified are 0."""
    if "1" not in text:
        return ()
    text = text.replace("x", "0").zfill(size * width)
    last, parts = len(text), list[int]()
    for k in range(size):
        word = text[last - (k + 1) * width : last - k * width]
        parts += [int(word[max(0, end - WORD) : end], 2) for end in range(width, 0, -WORD)]
    return parts + [0] * ((depth - size) * words(width))


def _flag(cell: WordCell, name: str, port: int) -> bool:
    return bool(cell.number(name) >> port & 1)


def _of_port(cell: WordCell, pin: str, port: int, width: int) -> Sequence[Bit]:
    return cell.pins[pin][port * width : (port + 1) * width]


def _clocked(netlist: WordNetlist, cell: WordCell, side: str, port: int) -> None:
    clock = _of_port(cell, f"{side}_CLK", port, 1)
    if list(clock) != list(netlist.clock) or not _flag(cell, f"{side}_CLK_POLARITY", port):
        raise UnsupportedCircuit("a memory with a second clock is not supported")


def _read_port(cycle: Cycle, netlist: WordNetlist, cell: WordCell, number: int, port: int, out: int) -> Step:
    of, memory = cycle.of, cycle.memories[number]
    address = _of_port(cell, "RD_ADDR", port, cell.number("ABITS"))
    enable = _of_port(cell, "RD_EN", port, 1)
    keeps = _flag(cell, "RD_CLK_ENABLE", port)
    if keeps:
        _clocked(netlist, cell, "RD", port)
        resets = [_of_port(cell, pin, port, 1)[0] for pin in ("RD_ARST", "RD_SRST")]
        writers = cell.number("WR_PORTS")
        seen_at_once = cell.number("RD_TRANSPARENCY_MASK") >> port * writers & mask(writers)
        if any(reset not in ("0", "x") for reset in resets) or seen_at_once:
            raise UnsupportedCircuit(
                "a memory with a reset, or one that shows a written word at once, is not supported"
            )

    def write(names: Sequence[str]) -> list[str]:
        where = _place(of, memory, address)
        base = f"s.m{number}" if memory.kept else f"s.tables + m{number}"
        values = [f"look_up({base}, {_part(where, k)})" for k in range(memory.parts)]
        if keeps and enable[0] != "1":
            old = [of.spell(out, k) for k in range(memory.parts)]
            values = [f"choose({of.word(enable)}, {new}, {o})" for new, o in zip(values, old, strict=True)]
        return [f"{name} = {value};" for name, value in zip(names, values, strict=True)]

    reads = of.drivers_of([*address, *(enable if keeps else ())])
    return Step(frozenset(reads - {out}), write, out, keeps, number, words=memory.parts)


def _place(of: Words, memory: MemoryStep, address: Sequence[Bit]) -> str:
    where = of.word(address)
    return where if memory.parts == 1 else f"({where} * {memory.parts}u)"


def _part(where: str, k: int) -> str:
    return f"{where} + {k}u" if k else where


def _write_port(cycle: Cycle, netlist: WordNetlist, cell: WordCell, number: int, port: int) -> Step:
    of, memory = cycle.of, cycle.memories[number]
    _clocked(netlist, cell, "WR", port)
    address = _of_port(cell, "WR_ADDR", port, cell.number("ABITS"))
    data, enable = (_of_port(cell, pin, port, memory.width) for pin in ("WR_DATA", "WR_EN"))

    once = list(dict.fromkeys(enable))

    def write(names: Sequence[str]) -> list[str]:
        values = [_place(of, memory, address), *of.all_of(enable if len(once) > 1 else once), *of.all_of(data)]
        return [f"{name} = {value};" for name, value in zip(names, values, strict=True)]

    def store(names: Sequence[str]) -> list[str]:
        at, *rest = names
        asked, words_in = rest[: -memory.parts], rest[-memory.parts :]
        on = asked if len(once) > 1 else [f"spread({asked[0]})"] * memory.parts
        writes = [f"write(s.m{number}, {_part(at, k)}, {on[k]}, {word});" for k, word in enumerate(words_in)]
        return [f"if (any({' | '.join(asked)})) {{ {' '.join(writes)} }}"]

    reads = frozenset(of.drivers_of([*address, *data, *enable]))
    names = 1 + memory.parts + (memory.parts if len(once) > 1 else 1)
    return Step(reads, write, memory=number, store=store, words=names)
