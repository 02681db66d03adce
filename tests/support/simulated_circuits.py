"""Small circuits for the tests of the engines: streams with flat port names, as a network's top has them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from onnx_hw_sim import stalls
from onnx_hw_sim.circuit import Circuit, Recording, Stimulus, Stream


def stream_ports(stream: Stream, direction: wiring.Flow) -> dict[str, wiring.Member]:
    """``{name}_payload``, ``_valid`` and ``_ready``; a probe's ready is an output too."""
    return {
        f"{stream.name}_payload": direction(stream.width),
        f"{stream.name}_valid": direction(1),
        f"{stream.name}_ready": direction.flip()(1),
    }


class Adder(wiring.Component):
    """sum = a + b per lane, one stage, through a queue of ``depth`` words; ``stuck_after`` sums it stops for good.

    Engines: ``add`` fires when it pops a and b, ``out`` when the sum leaves the queue. The probe ``inner`` is the
    queue's input. ``leaks``: the count of sums survives reset.
    """

    def __init__(
        self,
        lanes: int = 3,
        bits: int = 8,
        is_signed: bool = True,
        depth: int = 4,
        stuck_after: int = 0,
        leaks: bool = False,
    ):
        self.depth, self.stuck_after, self.leaks = depth, stuck_after, leaks
        self.a, self.b = (Stream(name, lanes, bits, is_signed) for name in "ab")
        self.inner, self.sum = (Stream(name, lanes, bits + 1, is_signed) for name in ("inner", "sum"))
        ports = stream_ports(self.a, In) | stream_ports(self.b, In) | stream_ports(self.sum, Out)
        ports |= {f"inner_{signal}": Out(width) for signal, width in (("payload", self.inner.width), ("valid", 1))}
        super().__init__(ports | {"inner_ready": Out(1), "fires": Out(2)})

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        room, full, total = Signal(), Signal(range(self.depth + 1)), Signal(32, reset_less=self.leaks)
        words = [Signal(self.sum.width, name=f"word{i}", reset_less=True) for i in range(self.depth)]
        m.d.comb += room.eq(full < self.depth)
        if self.stuck_after:
            m.d.comb += room.eq((full < self.depth) & (total < self.stuck_after))
        add, out = Signal(), Signal()
        m.d.comb += [
            add.eq(self.a_valid & self.b_valid & room),
            out.eq(self.sum_valid & self.sum_ready),
            self.a_ready.eq(self.b_valid & room),
            self.b_ready.eq(self.a_valid & room),
            self.inner_valid.eq(self.a_valid & self.b_valid),
            self.inner_ready.eq(room),
            self.fires.eq(Cat(add, out)),
            self.sum_valid.eq(full != 0),
            self.sum_payload.eq(words[0]),
            self.inner_payload.eq(Cat(*self._sums())),
        ]
        m.d.sync += [full.eq(full + add - out), total.eq(total + add)]
        with m.If(out):
            m.d.sync += [word.eq(after) for word, after in itertools.pairwise(words)]
        with m.If(add):
            for i, word in enumerate(words):
                with m.If(full - out == i):
                    m.d.sync += word.eq(self.inner_payload)
        return m

    def _sums(self) -> list[Value]:
        """One bit wider than the operands, so exact."""
        shape = signed(self.a.bits) if self.a.signed else unsigned(self.a.bits)
        layout = data.ArrayLayout(shape, self.a.lanes)
        a, b = data.View(layout, self.a_payload), data.View(layout, self.b_payload)
        return [a[lane] + b[lane] for lane in range(self.a.lanes)]

    def circuit(self) -> Circuit:
        return Circuit(as_rtlil(self), (self.a, self.b), (self.sum,), (self.inner,), ("add", "out"))


class Lookup(wiring.Component):
    """word(k) = rom[a_k] ^ ram[a_k], then ram[a_k] = word(k); all memories begin with something but ``blank``.

    ``y`` is 70 bits of that and one bit of a memory of bits; a token every third cycle.
    """

    def __init__(self, seed: int = 1) -> None:
        self.rom = tuple((0x123456789ABCDEF01 * (k + seed)) % (1 << 70) for k in range(37))
        self.ram = tuple((0xFEDCBA98765432101 * (k + seed)) % (1 << 70) for k in range(37))
        self.bits = tuple((k + seed) % 3 == 1 for k in range(37))
        self.a, self.y = Stream("a", 1, 6, signed=False), Stream("y", 2, 36, signed=False)
        super().__init__(stream_ports(self.a, In) | stream_ports(self.y, Out))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        contents = {"rom": (70, self.rom), "ram": (70, self.ram), "bit": (1, self.bits), "blank": (1, ())}
        memories = {name: Memory(shape=w, depth=37, init=init) for name, (w, init) in contents.items()}
        for name, memory in memories.items():
            m.submodules[name] = memory
        reads = {name: memory.read_port() for name, memory in memories.items()}
        write = memories["ram"].write_port()
        turn = Signal(3)
        word = Signal(70)
        m.d.comb += [port.addr.eq(self.a_payload) for port in reads.values()]
        m.d.comb += word.eq(reads["rom"].data ^ reads["ram"].data)
        m.d.comb += [write.addr.eq(self.a_payload), write.data.eq(word), write.en.eq(self.a_valid & self.a_ready)]
        m.d.sync += turn.eq(Cat(self.a_valid & ~turn.any(), turn[:-1]))
        m.d.comb += [self.y_valid.eq(turn[0]), self.a_ready.eq(turn[0] & self.y_ready)]
        m.d.comb += self.y_payload.eq(Cat(word, reads["bit"].data, reads["blank"].data))
        return m

    def circuit(self) -> Circuit:
        return Circuit(as_rtlil(self), (self.a,), (self.y,))

    def golden(self, addresses: list[int]) -> list[int]:
        ram, results = list(self.ram), []
        for a in addresses:
            ram[a] ^= self.rom[a]
            results.append(ram[a] | self.bits[a] << 70)
        return results


# A stream whose valid is its own complement while `a` is valid. Amaranth refuses to build such a thing.
RING = Circuit(
    r"""
module \top
  wire input 1 \clk
  wire input 2 \rst
  wire width 8 input 3 \a_payload
  wire input 4 \a_valid
  wire output 5 \a_ready
  wire width 8 output 6 \b__c_payload
  wire output 7 \b__c_valid
  wire input 8 \b__c_ready
  wire \not_valid
  cell $not $1
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \b__c_valid
    connect \Y \not_valid
  end
  cell $and $2
    parameter \A_SIGNED 0
    parameter \A_WIDTH 1
    parameter \B_SIGNED 0
    parameter \B_WIDTH 1
    parameter \Y_WIDTH 1
    connect \A \a_valid
    connect \B \not_valid
    connect \Y \b__c_valid
  end
  connect \b__c_payload \a_payload
  connect \a_ready \b__c_ready
end
""".lstrip(),
    (Stream("a", 1, 8),),
    (Stream("b__c", 1, 8),),
)


def as_rtlil(component: Elaboratable) -> str:
    return rtlil.convert(component, name="top")


DEAD = Adder(lanes=1, bits=1, is_signed=False, depth=2, stuck_after=7, leaks=True)


def assert_same(one: Recording, *others: Recording) -> None:
    for other in others:
        _assert_same(one, other)


def stimulus(adder: Adder, tokens: int, seed: int = 0, **changes: object) -> Stimulus:
    """Random operands without stalls."""
    low, high = (-(1 << adder.a.bits - 1), 1 << adder.a.bits - 1) if adder.a.signed else (0, 1 << adder.a.bits)
    operands = np.random.default_rng(seed).integers(low, high, (2, tokens, adder.a.lanes))
    plain = Stimulus(
        tokens={"a": operands[0], "b": operands[1]},
        offers={"a": stalls.at_once(tokens), "b": stalls.at_once(tokens)},
        ready={"sum": stalls.always()},
        expected={"sum": tokens},
        cycles=20 * tokens + 100,
    )
    return replace(plain, **changes)


def _assert_same(one: Recording, other: Recording) -> None:
    assert (one.cycles, one.finished, one.deadlocked) == (other.cycles, other.finished, other.deadlocked)
    assert (one.valid, one.ready) == (other.valid, other.ready)
    for field in ("fires", "cycles_of", "tokens"):
        left, right = getattr(one, field), getattr(other, field)
        assert list(left) == list(right)
        for name in left:
            assert left[name].dtype == right[name].dtype == np.int64
            assert np.array_equal(left[name], right[name]), (field, name)
