"""A fork fires when a token is there and every output has a place; each output is a queue of what came in."""

from __future__ import annotations

from pathlib import Path

from amaranth.hdl import Module, Signal, Value

from onnx_hw_rtl.cores.fork import Fork
from onnx_hw_rtl.streams.outbox import Outbox
from onnx_hw_rtl.streams.stream import StreamShape, bits_of
from support.formal.naive_edge import NaiveEdge
from support.formal.outbox_lemmas import all_of, lemmas_of_outbox
from support.formal.smt import Claim, Solver

DEPTHS = {"a": 1, "b": 2, "c": 3}
STREAM = StreamShape(2, 1)


def claim_of(kind: type[Fork]) -> Claim:
    claim = Claim(m := Module())
    m.submodules.fork = fork = kind(STREAM, DEPTHS)
    valid, data = claim.input(1, "valid"), claim.input(STREAM.width * STREAM.bits, "data")
    fire = Signal(name="naive_fire")
    m.d.comb += [fork.i.valid.eq(valid), bits_of(fork.i.payload).eq(data)]
    edges = {}
    for name, depth in DEPTHS.items():
        ready, port = claim.input(1, f"ready_{name}"), getattr(fork, name)
        m.d.comb += port.ready.eq(ready)
        edges[name] = edge = NaiveEdge(m, len(data), depth, 1, fire, fire, data, ready, f"{name}_")
        claim.holds |= {
            f"{name}_valid": port.valid == edge.valid,
            f"{name}_payload": ~edge.valid | (bits_of(port.payload) == edge.tokens[0]),
        }
        claim.lemmas |= {
            f"{name}_{what}": lemma
            for what, lemma in lemmas_of_outbox(claim, f"fork.outbox_{name}", fork.outboxes[name], edge).items()
        }
    places: Value = all_of(edge.free != 0 for edge in edges.values())
    m.d.comb += fire.eq(valid & places)
    claim.holds |= {"ready": fork.i.ready == places, "fires": fork.fires == fire}
    always = [claim.see(f"fork.fork_{flag}") for flag in ("pop", "push", "push1", "push2")]
    claim.lemmas["one_operation"] = all_of(always) & ~claim.see("fork.fork_free")
    return claim


def test_a_fork_is_a_queue_per_output(tmp_path: Path) -> None:
    solver = Solver(claim_of(Fork), tmp_path)
    assert solver.counterexample(8) is None
    assert solver.step() is None


class AlwaysFree(Outbox):
    """Whatever it holds."""

    def count_credits(self, m: Module, pop: Signal) -> None:
        m.d.comb += self.credit_next.eq(~pop | pop)


class WaitsForNobody(Fork):
    """Outputs are written whether or not they have a place."""

    outbox_type = AlwaysFree


def test_a_broken_fork_loses_tokens(tmp_path: Path) -> None:
    found = Solver(claim_of(WaitsForNobody).without_lemmas(), tmp_path).counterexample(6)
    assert found is not None and "holds_ready" in found
