"""Firing law as a circuit: counters one operation ahead, a ``go`` register, all-or-none firing.

An engine repeats a fixed list of operations, frame after frame, without end. The loop counters hold operation k + 1;
everything that is decoded from them about operation k is a register, so that the decision to fire takes a handful of
gates:

* ``go``: every output on which the operation pushes has a credit;
* every input from which the operation pops is valid;
* ``conditions``: whatever else the law demands, one for each shared buffer and for each own result, which are made of
  flip-flops themselves.

Operations that happen only once, before the first frame, wait for none of these; meanwhile the counters stand before
the first operation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from amaranth.hdl import Const, Module, Mux, ResetSignal, Signal, Value

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.outbox import Outbox

__all__ = ["Engine", "Turn", "choose", "delayed", "pick"]

Turn = Mapping[str, Any]
"""Index of every loop at one operation: integers at elaboration, signals in the circuit."""


def innermost_ends(loops: Mapping[str, int], last_turns: int | None, turn: Turn) -> Any:
    """Return whether the innermost of the loops is in its last turn.

    Args:
        loops: count of every loop, outermost first.
        last_turns: count of the innermost loop in the last turn of the one around it; None if it is always the same.
    """
    *_, innermost = loops
    at_end = turn[innermost] == loops[innermost] - 1
    if last_turns is None:
        return at_end
    around = list(loops)[-2]
    is_short = turn[around] == loops[around] - 1
    return at_end | (is_short & (turn[innermost] == last_turns - 1))


class Engine:
    """Engine inside the module ``m``.

    Args:
        loops: count of every loop, outermost first.
        pops: for each input stream, which operations pop: a function of the turn.
        pushes: for each outbox, which operations push.
        conditions: further conditions to fire: ``has_room`` or ``has_beat`` of each shared buffer, ``has_come`` of own
            results.
        exclusive: whether no operation pops from more than one input.
        once: number of operations before the first frame, which pop and push nothing.
        last_turns: count of the innermost loop in the last turn of the one around it; None if it is always the same.

    Attributes:
        fire: high in each cycle in which an operation fires.
        works: the same, only for operations that belong to a frame.
        prepares: high until the operations that happen once have fired.
        prepared: number of those that have fired.
    """

    def __init__(
        self,
        m: Module,
        name: str,
        loops: Mapping[str, int],
        *,
        pops: Sequence[tuple[Any, Callable[[Turn], Any]]] = (),
        pushes: Sequence[tuple[Outbox, Callable[[Turn], Any]]] = (),
        conditions: Sequence[Value] = (),
        exclusive: bool = False,
        once: int = 0,
        last_turns: int | None = None,
    ):
        self.m, self.name, self.once = m, name, once
        self._last_turns = last_turns
        self.loops = dict(loops)
        self.fire: Value = Signal(name=f"{name}_fire")
        self.works: Value = self.fire
        self.prepares: Value = Const(0, 1)
        self.prepared: Value = Const(0, 1)
        self._advances: Value = self.fire
        if once:
            self._prepare()
        self._count()
        go_next: Value = Const(1, 1)
        for k, (outbox, pushes_at) in enumerate(pushes):
            push, push_next = self._decode(pushes_at, 1, f"push{k or ''}")
            m.d.comb += outbox.reserve.eq(self.fire & push)
            go_next = go_next & (self.has_credit_next(outbox) | ~push_next)
        if not conditions and (exclusive or len(pops) == 1):
            self._fire_with_one_input(go_next, pops)
            return
        held = [self.holds(which, condition) for which, condition in enumerate(conditions)] or [Const(1, 1)]
        self._fire_with_many(go_next, pops, [condition | self.prepares for condition in held] if once else held)

    # ---- the seam ---------------------------------------------------------------------------------------------------
    # What an engine asks of the rest of the circuit before it fires, and what it says about its operations
    # (``decode``). Each is one method and there is no other way around them, so a test that breaks an engine on purpose
    # overrides one.

    def has_credit_next(self, outbox: Outbox) -> Value:
        """Return rule 3: in the next cycle the outbox has a place for one more token."""
        return outbox.credit_next

    def has_token(self, stream: Any) -> Value:
        """Return rule 2: a token of an input can be popped."""
        valid: Value = stream.valid
        return valid

    def holds(self, which: int, condition: Value) -> Value:
        """Return rules 4 and 5: one of the conditions, counted from 0, lets the current operation fire."""
        return condition

    def decode(self, what: Callable[[Turn], Any], shape: Any = 1, name: str = "flag") -> Signal:
        """Return a register that holds a function of the current operation's turn; 0 before the first frame."""
        current = Signal(shape, init=self._at_first(what), name=f"{self.name}_{name}")
        with self.m.If(self._advances):
            self.m.d.sync += current.eq(what(self.next))
        return current

    def decode_copies(self, count: int, what: Callable[[Turn], Any], shape: Any = 1, name: str = "flag") -> list[Value]:
        """Return ``count`` registers that all hold what ``decode`` holds.

        A copy has no reset and starts as 0: it holds the bits in which its value differs from that of the first
        operation.
        """
        first = self._at_first(what)
        _, following = self._decode(what, shape, name)
        differs = Mux(ResetSignal(allow_reset_less=True), 0, following ^ first)
        return [(copy ^ first)[: len(following)] for copy in copies(self.m, differs, count, f"{self.name}_{name}")]

    # ---- counting and firing ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Count the operations that happen once. The frames begin with the last of them."""
        m, once = self.m, self.once
        self.prepares = Signal(init=1, name=f"{self.name}_prepares")
        self.prepared = Signal(range(once + 1), name=f"{self.name}_prepared")
        last = Signal(name=f"{self.name}_prepares_last")
        m.d.comb += last.eq(self.prepared == once - 1)
        with m.If(self.prepares & self.fire):
            m.d.sync += [self.prepared.eq(self.prepared + 1), self.prepares.eq(~last)]
        self.works = self.fire & ~self.prepares
        self._advances = self.fire & (~self.prepares | last)

    def _count(self) -> None:
        """Count the loops of the next operation; ``fire`` advances the counters."""
        m = self.m
        self.first: dict[str, int] = dict.fromkeys(self.loops, 0)
        second = dict(self.first)
        for loop in reversed(self.loops):
            if self.once:
                break
            if second[loop] < self.loops[loop] - 1:
                second[loop] += 1
                break
            second[loop] = 0
        self.next: dict[str, Signal] = {
            loop: Signal(range(max(count, 2)), init=second[loop], name=f"{self.name}_{loop}_next")
            for loop, count in self.loops.items()
        }
        carry: Value = self._advances
        innermost = next(reversed(self.loops), None)
        for loop, count in reversed(self.loops.items()):
            if count == 1:
                continue
            counter = self.next[loop]
            last = Signal(name=f"{self.name}_{loop}_last")
            m.d.comb += last.eq(self.ends(self.next) if loop == innermost else counter == count - 1)
            with m.If(carry):
                m.d.sync += counter.eq(Mux(last, 0, counter + 1))
            carry = carry & last

    def _at_first(self, what: Callable[[Turn], Any]) -> int:
        """Return the value for the very first operation; 0 if that one happens once."""
        return 0 if self.once else int(what(self.first))

    def _decode(self, what: Callable[[Turn], Any], shape: Any, name: str) -> tuple[Signal, Signal]:
        """Return a register with the value for the current operation, and its value in the next cycle."""
        current = Signal(shape, init=self._at_first(what), name=f"{self.name}_{name}")
        following = Signal(shape, name=f"{self.name}_{name}_following")
        self.m.d.comb += following.eq(Mux(self._advances, what(self.next), current))
        self.m.d.sync += current.eq(following)
        return current, following

    def ends(self, turn: Turn) -> Any:
        """Return whether the innermost loop is in its last turn."""
        return innermost_ends(self.loops, self._last_turns, turn)

    def is_last(self, *names: str) -> Callable[[Turn], Any]:
        """Return the condition that each named loop is in its last turn."""
        return lambda turn: reduce(operator.and_, (turn[name] == self.loops[name] - 1 for name in names), 1)

    def _fire_with_one_input(self, go_next: Value, pops: Sequence[tuple[Any, Callable[[Turn], Any]]]) -> None:
        """Fire with one input: each ``ready`` is a flip-flop, high if the operation pops there and has its credits."""
        m = self.m
        pops_next: Value = Const(0, 1)
        fires: Value = Const(0, 1)
        for stream, pops_at in pops:
            _, pop_next = self._decode(pops_at, 1, "pop")
            ready = Signal(init=self._at_first(pops_at), name=f"{self.name}_ready")
            m.d.sync += ready.eq(go_next & pop_next)
            m.d.comb += stream.ready.eq(ready)
            pops_next, fires = pops_next | pop_next, fires | (ready & self.has_token(stream))
        free = Signal(init=not any(self._at_first(pops_at) for _, pops_at in pops), name=f"{self.name}_free")
        m.d.sync += free.eq(go_next & ~pops_next)
        m.d.comb += self.fire.eq(free | fires)

    def _fire_with_many(self, go_next: Value, pops: Sequence[tuple[Any, Any]], conditions: Sequence[Value]) -> None:
        """Fire with several inputs (a join). An input is ready when everything *else* is there."""
        m = self.m
        go = Signal(init=1, name=f"{self.name}_go")
        m.d.sync += go.eq(go_next)
        may = reduce(operator.and_, conditions, go)
        wanted = [(stream, self._decode(pops_at, 1, "pop")[0]) for stream, pops_at in pops]
        there = [self.has_token(stream) | ~pop for stream, pop in wanted]
        m.d.comb += self.fire.eq(may & _all(there))
        for k, (stream, pop) in enumerate(wanted):
            m.d.comb += stream.ready.eq(may & pop & _all(there[:k] + there[k + 1 :]))


def _all(conditions: Iterable[Value]) -> Value:
    return reduce(operator.and_, conditions, Const(1, 1))


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes if condition else no`` for integers and for signals."""
    if isinstance(condition, int):
        return yes if condition else no
    return Mux(condition, yes, no)


def pick(index: Any, values: Sequence[int]) -> Any:
    """Return ``values[index]`` for an integer or a signal. The most frequent value costs no comparison."""
    if isinstance(index, int):
        return int(values[index])
    common = max(set(values), key=list(values).count)
    chosen: Any = common
    for k, value in enumerate(values):
        if value != common:
            chosen = Mux(index == k, value, chosen)
    return chosen
