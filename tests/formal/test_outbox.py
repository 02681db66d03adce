"""An outbox is a queue, whatever is reserved, written and popped when: its three ways to store, wide words in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal, Value

from onnx_hw_rtl.parts.delay_line import delayed
from onnx_hw_rtl.streams.outbox import Outbox
from support.formal.naive_edge import NaiveEdge
from support.formal.outbox_lemmas import lemmas_of_outbox
from support.formal.smt import Claim, Solver


def outbox(kind: type[Outbox], width: int, depth: int, *, block: bool) -> Outbox:
    made = kind(width, depth)
    made.foretold = width > 16
    if block:
        made.deepest_at_once = 1
    return made


def claim_of(outbox: Outbox) -> Claim:
    claim = Claim(m := Module())
    m.submodules.outbox = outbox
    width = len(Value.cast(outbox.data))
    reserve, data, ready = claim.input(1, "reserve"), claim.input(width, "data"), claim.input(1, "ready")
    coming, write = claim.input(1, "coming"), Signal(name="written")
    if outbox.foretold:
        m.d.sync += write.eq(coming)
    else:
        m.d.comb += write.eq(coming)
    m.d.comb += [
        outbox.reserve.eq(reserve),
        outbox.write_next.eq(coming),
        outbox.write.eq(write),
        outbox.data.eq(data),
        outbox.o.ready.eq(ready),
    ]
    naive = NaiveEdge(m, width, outbox.depth, outbox.visible_after, reserve, write, data, ready)
    claim.assumed = {"has_place": ~reserve | (naive.free != 0), "was_reserved": ~write | (naive.owed != 0) | reserve}
    claim.holds = {
        "valid": outbox.o.valid == naive.valid,
        "payload": ~naive.valid | (outbox.o.payload == naive.tokens[0]),
        "credit": outbox.credit_next == naive.credit_next,
    }
    claim.lemmas = lemmas_of_outbox(claim, "outbox", outbox, naive)
    return claim


@pytest.mark.parametrize(
    ("width", "depth", "block"),
    [(2, 1, False), (1, 4, False), (1, 4, True), (17, 3, False)],
    ids=["register", "distributed", "block", "wide"],
)
def test_an_outbox_is_a_queue(width: int, depth: int, block: bool, tmp_path: Path) -> None:
    solver = Solver(claim_of(outbox(Outbox, width, depth, block=block)), tmp_path)
    assert solver.counterexample(8) is None
    assert solver.step() is None


class LosesAPlace(Outbox):
    """One that comes back while another is reserved."""

    def count_credits(self, m: Module, pop: Signal) -> None:
        super().count_credits(m, pop & ~self.reserve)


class WritesLate(Outbox):
    """The word of the cycle before."""

    def arrival(self, m: Module) -> tuple[Value, Value]:
        write, word = super().arrival(m)
        return write, delayed(m, word, 1)


@pytest.mark.parametrize(("kind", "wrong"), [(LosesAPlace, "holds_credit"), (WritesLate, "holds_payload")])
def test_a_broken_outbox_is_none(kind: type[Outbox], wrong: str, tmp_path: Path) -> None:
    claim = claim_of(outbox(kind, 1, 2, block=False)).without_lemmas()
    found = Solver(claim, tmp_path).counterexample(6)
    assert found is not None and wrong in found
