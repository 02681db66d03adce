"""Bench of link 4 on boards: 64 sessions with the netlist of a board through its pins, and their expected results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.pin_hosts import HostKind, HostPlan, HostTimes, PinHost
from onnx_hw.prove.circuit.prove import beats_of, beats_of_sequence
from onnx_hw.prove.circuit.stalls import SEED
from onnx_hw.timing.link_times import BehindALink
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.frames import in_turns, out_of_turns
from onnx_hw_link.link import MOST_PAYLOAD, Link
from onnx_hw_link.session import Faults, hello

if TYPE_CHECKING:
    from onnx_hw_sim.gates.pin_simulator import BoardsUnderWay

HEADERS = 10
"""Bytes on the wire that a packet takes besides its payload, about."""

GREETING = 64
"""Bytes on the wire of a HELLO and its answer, about."""

RESET_PULSE = 16
"""Cycles for which a reset in mid-frame lasts."""

PACES = tuple(Fraction(10 + k, 1000) for k in range(11))
"""Shares of a bit by which the bits of hosts that hesitate are shorter or longer: 1 to 2 %. No two clocks are equal; a
line bears half a bit in ten, less what its receiver needs to find an edge.
"""

MOST_TIMED_EVENTS = 20_000_000
"""Beats, of all frames together, whose cycles are predicted at most: it takes about ten seconds."""


@dataclass(frozen=True)
class SessionComparison:
    """Comparison of all sessions: values and frames' cycles that were compared, how many differ, and the first one."""

    values: int
    cycles: int
    wrong: int
    difference: str


_KINDS = (
    HostKind.STEADY,
    HostKind.HESITANT,
    HostKind.BAD_WIRE,
    HostKind.ASKS,
    HostKind.GREETS_ANEW,
    HostKind.RESET,
)


@dataclass(frozen=True)
class BoardTimes:
    """Cycles that things take on a board, as long as nothing goes wrong.

    Attributes:
        byte: on the wire.
        reset: after power-up.
        frame: from one frame to the next.
        result: from the end of a frame's data to the end of its results.
    """

    byte: int
    reset: int
    frame: int
    result: int

    @classmethod
    def of(cls, design: Design, link: Link, board: LinkedBoard) -> BoardTimes:
        byte = max(1, round(design.clock_mhz * 1e6 / board.link.bytes_per_second))
        packets = -(-link.input_bytes // MOST_PAYLOAD)
        out = (link.results * (link.result_bytes + HEADERS) + 2 * HEADERS) * byte
        into = (link.input_bytes + packets * HEADERS) * byte
        reset = board.clock(design.clock_mhz).reset_cycles
        awake = design.flash.once if design.flash else 0
        return cls(byte, reset, max(into, out, design.interval), out + 2 * design.interval + awake)

    def session(self, frames: int) -> int:
        """Return the cycles of a session, its greeting included."""
        return GREETING * self.byte + frames * self.frame + self.result


class PinLevelBench:
    """Sessions of all runs, and the results that are due.

    Args:
        integers: by input tensor, (frames, height, width, channels); run after run takes the next
            ``per_run`` of them, and the first ones again.
        resets: whether something can reset the chip, a button or its PLL.
        whose: what is simulated, for sentences: the netlist, or the bitstream.
    """

    def __init__(
        self,
        design: Design,
        link: Link,
        integers: Mapping[str, np.ndarray],
        per_run: int,
        *,
        resets: bool,
        whose: str = "netlist",
    ) -> None:
        from onnx_hw_sim.gates.native_gates import RUNS

        board = design.target.board
        assert isinstance(board, LinkedBoard)
        self.design, self.link, self.whose, self.per_run = design, link, whose, per_run
        self._edges = {edge.tensor: edge for edge in design.edges()}
        network = design.network
        self._into = list(dict.fromkeys(boundary.tensor for boundary in network.inputs))
        self._out = list(dict.fromkeys(boundary.tensor for boundary in network.outputs))
        there = len(next(iter(integers.values())))
        used = min(there, RUNS * per_run)
        chunks = [tuple(int(k) % used for k in range(run * per_run, (run + 1) * per_run)) for run in range(RUNS)]
        given = {name: array[:used] for name, array in integers.items()}
        into = self._by_frame(beats_of(design, given, self._into))
        self.data = [in_turns(link.inputs, link.input_turns, frame) for frame in into]
        self.due = self._due(given, chunks)
        self.times = times = BoardTimes.of(design, link, board)
        self._serial = "rx" in board.link.ports
        self._hosts_times = HostTimes(
            design.clock_mhz * 1e6,
            2 * (GREETING + link.result_bytes + HEADERS) * times.byte,
            2 * (MOST_PAYLOAD + GREETING) * times.byte + 2 * times.result + 2 * design.interval,
        )
        kinds = [kind for kind in _KINDS if resets or kind is not HostKind.RESET]
        draw = np.random.default_rng(SEED)
        session, begins = times.session(per_run), 2 * times.reset + 64
        self.plans = []
        for run in range(RUNS):
            kind = kinds[run % len(kinds)]
            anew = begins + GREETING * times.byte + int(draw.integers(times.frame + times.result))
            rest = RESET_PULSE + 2 * times.reset + 64 if kind is HostKind.RESET else 0
            breaks = kind in (HostKind.GREETS_ANEW, HostKind.RESET)
            late = int(draw.integers(times.byte))
            pace = self._pace(run // len(kinds)) if kind is HostKind.HESITANT else Fraction(1)
            self.plans.append(
                HostPlan(
                    kind, chunks[run], begins + late, anew if breaks else None, anew + rest, begins + session, pace
                )
            )
        self.locks_after = [int(cycles) for cycles in draw.integers(1, 40, RUNS)]
        self.limit = begins + 6 * (session + times.frame + times.result) + 8 * self._hosts_times.retry
        self.patience = begins + 3 * (session + times.frame + times.result) + self._hosts_times.retry
        self.hosts: list[PinHost] = []
        self.awake: list[int] = []  # runs that answered while they must be in reset
        self.cycles = 0

    def _pace(self, number: int) -> Fraction:
        """Return how long a bit of a host lasts, by its number: of SPI never less than the chip is promised."""
        off = PACES[number * 3 % len(PACES)]
        return 1 - off if self._serial and number % 2 else 1 + off

    @property
    def paces(self) -> dict[int, Fraction]:
        """Times that a bit lasts, by run, where they are not the chip's own."""
        return {run: plan.pace for run, plan in enumerate(self.plans) if plan.pace != 1}

    def _by_frame(self, beats: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
        """Return (beats, width) of each tensor, frame by frame."""
        split = [rows.reshape(-1, self._edges[tensor].beats, rows.shape[-1]) for tensor, rows in beats.items()]
        return [[rows[k] for rows in split] for k in range(min(map(len, split)))]

    def _due(self, given: Mapping[str, np.ndarray], chunks: Sequence[tuple[int, ...]]) -> list[list[list[np.ndarray]]]:
        """Return the beats of the outputs by run and frame of its session, which begins with a reset."""

        def by_frame(integers: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
            beats = beats_of_sequence(self.design, integers, self._out)
            return self._by_frame({name: beats[name] for name in self._out})

        if not self.design.network.keepers:
            due = by_frame(given)
            return [[due[frame] for frame in chunk] for chunk in chunks]
        known = {
            chunk: by_frame({name: array[list(chunk)] for name, array in given.items()})
            for chunk in dict.fromkeys(chunks)
        }
        return [known[chunk] for chunk in chunks]

    @property
    def frames(self) -> int:
        return self.per_run * len(self.plans)

    @property
    def steady(self) -> list[int]:
        """Runs in which nothing disturbs the chip."""
        return [run for run, plan in enumerate(self.plans) if plan.kind is HostKind.STEADY]

    def resets_at(self) -> list[tuple[int, int, int]]:
        """Return (run, first cycle, cycle after the last one) of the resets in mid-frame."""
        return [
            (run, plan.anew, plan.anew + RESET_PULSE)
            for run, plan in enumerate(self.plans)
            if plan.kind is HostKind.RESET and plan.anew is not None
        ]

    def talk(
        self, boards: BoardsUnderWay, asks: int | None, progress: Callable[[int], None] = lambda done: None
    ) -> None:
        """Let all hosts speak with their boards until they have their results, or too much time has passed.

        Args:
            asks: net of the pin at which a chip says that it has bytes; None where it has none.
            progress: called with the number of hosts that are done.
        """
        self.hosts = [
            PinHost(plan, self._hosts_times, self._serial, self.data, SEED + run) for run, plan in enumerate(self.plans)
        ]
        step = max(64, 2 * self.times.byte)
        self._knock(boards)
        while boards.cycle < self.limit and not all(host.done for host in self.hosts):
            if boards.cycle > self.patience and not any(self.hosts[run].done for run in self.steady):
                break
            asked = (1 << len(self.hosts)) - 1 if asks is None else boards.word(asks)
            for run, host in enumerate(self.hosts):
                waiting = int(boards.waiting[run])
                words = host.exchange(boards.cycle, boards.take(run), waiting, asked=bool(asked >> run & 1))
                if words is None:
                    boards.drop(run)
                elif words:
                    boards.send(run, words)
            boards.step(step)
            progress(sum(host.done for host in self.hosts))
        self.cycles = boards.cycle

    def _knock(self, boards: BoardsUnderWay) -> None:
        """Send a HELLO to some chips that are still in reset, and see who answers, until the hosts begin.

        On iCE40 block RAMs have no contents until some time after the configuration.
        """
        begins, knocked = min(plan.begins for plan in self.plans), hello(0)
        runs = [run for run, plan in enumerate(self.plans) if plan.kind is HostKind.GREETS_ANEW]
        if not self._serial or (len(knocked) + 1) * self.times.byte > self.times.reset:
            boards.step(begins)
            return
        for run in runs:
            boards.send(run, list(knocked))
        boards.step(begins)
        self.awake = [run for run in runs if any(boards.take(run))]

    def compare(self) -> SessionComparison:
        """Compare all results, and the cycles that the chips state, run by run."""
        law = BehindALink(self.design, self.link) if len(self.link.inputs) == 1 else None
        beats = sum(port.beats for port in (*self.link.inputs, *self.link.outputs)) * self.per_run
        timed = MOST_TIMED_EVENTS // max(1, beats + self.design.interval)
        used = [self._edges[name].order.used(self._edges[name].beats) for name in self._out]
        values = cycles = wrong = 0
        differences: list[str] = []
        for run, host in enumerate(self.hosts):
            sentences = self._said(host)
            if run in self.awake:
                must = f"be in reset for {self.times.reset:,} cycles after its configuration"
                sentences.insert(0, f"the {self.whose} must {must}; it answered a HELLO in that time")
            for number, (due, result) in enumerate(zip(self.due[run], host.results, strict=False)):
                seen = out_of_turns(self.link.outputs, self.link.output_turns, result.beats)
                for tensor, own, golden, mask in zip(self._out, seen, due, used, strict=True):
                    unequal = np.argwhere((own != golden) & mask)
                    values, wrong = values + int(mask.sum()), wrong + len(unequal)
                    if len(unequal):
                        token, lane = map(int, unequal[0])
                        where = ", ".join(map(str, (number, *self._edges[tensor].order.place(token, lane)[1:])))
                        what = f"{tensor}[{where}]: golden {golden[token, lane]}, {self.whose} {own[token, lane]}"
                        sentences.append(what)
                        break
            if law is not None and timed and host.plan.kind.wire_is_good and host.results:
                compared, late = self._timed(law, host)
                timed, cycles = timed - 1, cycles + compared
                if late:
                    sentences.append(late)
            if sentences:
                wrong += 1
                differences.append(f"{sentences[0]} (run {run}: {host.plan.kind.value})")
        return SessionComparison(values, cycles, wrong, differences[0] if differences else "")

    def _said(self, host: PinHost) -> list[str]:
        """Return what is wrong in the conversation itself, in sentences."""
        if host.greeting is None:
            return [f"HELLO must be answered; nothing that the {self.whose} sends within {self.cycles:,} cycles is one"]
        if host.greeting != self.link.greeting:
            return [f"the {self.whose} must describe itself as {self.link.greeting}, not as {host.greeting}"]
        if host.answered_wrongly is not None:
            question, came = host.answered_wrongly
            due, seen = (
                " ".join(f"{kind:02x} {number:02x}" for kind, number in each) for each in (question.answers, came)
            )
            return [f"{question.what} must be answered with {due}; the {self.whose} sends {seen or 'nothing'}"]
        if not host.done:
            count = f"{len(host.results)} of {len(host.plan.frames)}"
            return [f"all results must come; {count} frames of the {self.whose} came within {self.cycles:,} cycles"]
        if host.plan.kind.wire_is_good and host.faults != Faults():
            return [f"on a good wire every packet must be right and come in time; the {self.whose} has {host.faults}"]
        return self._miscounted(host)

    def _miscounted(self, host: PinHost) -> list[str]:
        """Say where the chip counts the bytes that left its buffer otherwise; the last frame may still be there."""
        session, unit = host.session, self.link.credit_unit
        if session is None:
            return []
        sent, left = session.sent_bytes, max(0, session.sent_bytes - self.link.input_bytes)
        if (session.credit - left // unit) % 256 <= sent // unit - left // unit:
            return []
        counted = f"{left // unit % 256}..{sent // unit % 256}"
        return [f"the credit must be {counted} behind {sent:,} bytes; the {self.whose} says {session.credit}"]

    def _timed(self, law: BehindALink, host: PinHost) -> tuple[int, str]:
        """Return the frames whose cycles were compared, and the first difference."""
        free = []
        for result in host.results:
            if result.waited:
                break
            free.append(result)
        if not free or free[0].began is None or host.faults != Faults():
            return 0, ""
        times = law.compare([result.began for result in free], [result.ended for result in free])
        if not times.wrong:
            return times.frames, ""
        frame, late = times.wrong[0]
        due = (free[frame].ended - late) % (1 << 32)
        return times.frames, f"frame {frame}: predicted to end in cycle {due}, {self.whose} {free[frame].ended}"
