"""How the registers of an outbox stand to those of a naive queue."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Mux, Value

from onnx_hw_rtl.parts.fanout import BITS_PER_COPY
from onnx_hw_rtl.streams.outbox import Outbox
from support.formal.naive_edge import NaiveEdge
from support.formal.smt import Claim


def lemmas_of_outbox(claim: Claim, path: str, outbox: Outbox, naive: NaiveEdge) -> dict[str, Value]:
    """By name.

    Args:
        path: of the outbox in the circuit.
    """
    found = {
        "places": (naive.owed + naive.count) <= outbox.depth,
        "came": all_of((naive.count <= k) | (age != 0) for k, age in enumerate(naive.ages)),
        "in_turn": all_of(
            (naive.count <= k) | (first > second) | (second == naive.seen_after)
            for k, (first, second) in enumerate(pairwise(naive.ages), 1)
        ),
        "some_credit": claim.see(f"{path}.some") == (naive.free != 0),
        "one_credit": claim.see(f"{path}.one") == (naive.free == 1),
    }
    if outbox.foretold and outbox.depth <= outbox.deepest_at_once:
        written = claim.see(f"{path}.write")
        for k in range(_copies(naive)):
            found[f"write{k}"] = claim.see(f"{path}.write_copy{k}.register") == written
    if outbox.depth == 1:
        return found
    found["credits"] = claim.see(f"{path}.credits", range(outbox.depth + 1)) == naive.free
    in_block = outbox.depth > outbox.deepest_at_once
    return found | (_in_block_ram if in_block else _in_lutram)(claim, path, outbox, naive)


def all_of(bits: Iterable[Value]) -> Value:
    return reduce(lambda a, b: a & b, bits, Const(1))


def _in_lutram(claim: Claim, path: str, outbox: Outbox, naive: NaiveEdge) -> dict[str, Value]:
    """The oldest token is in the output register, all others lie in the memory in turn."""
    words = max(2, 1 << (outbox.depth - 2).bit_length())
    stored = claim.see(f"{path}.stored", range(words + 1))
    found = {
        "stored": stored + naive.valid == naive.count,
        "some_stored": claim.see(f"{path}.some_stored") == (stored != 0),
        "one_stored": claim.see(f"{path}.one_stored") == (stored == 1),
    }
    for k in range(_copies(naive)):
        found[f"flags{k}"] = claim.see(f"{path}.flags_copy{k}.register", 2) == Cat(naive.valid, stored != 0)
    tokens = naive.tokens[1:]
    for k, at in enumerate(range(0, len(tokens[0]), BITS_PER_COPY)):
        part, its_own = str(k or ""), [token[at : at + BITS_PER_COPY] for token in tokens]
        found[f"words{k}"] = _in_turn(claim, path, f"words{part}", part, words, stored, its_own)
    return found


def _in_block_ram(claim: Claim, path: str, outbox: Outbox, naive: NaiveEdge) -> dict[str, Value]:
    """The oldest token is in the output register, then those in the spare ones, one that arrives, and the memory's."""
    words = max(2, 1 << (outbox.depth - 1).bit_length())
    width = len(naive.tokens[0])
    stored, room = claim.see(f"{path}.stored", range(outbox.depth + 1)), claim.see(f"{path}.room", range(4))
    spares, arrived = claim.see(f"{path}.spares", range(3)), claim.see(f"{path}.arrived")
    valid = claim.see(f"{path}.o__valid")
    before = valid + spares
    out = before + arrived
    spare = [claim.see(f"{path}.spare{k}", width) for k in range(2)]
    lying = [naive.token(out + k) for k in range(outbox.depth)]
    return {
        "stored": stored + out == naive.count,
        "room": room == 3 - out,
        "spares": (spares == 0) | (valid & (spares <= 2)),
        "spare0": (spares == 0) | (spare[0] == naive.token(Const(1))),
        "spare1": (spares != 2) | (spare[1] == naive.token(Const(2))),
        "arriving": ~arrived | (claim.see(f"{path}.read_port__data", width) == naive.token(before)),
        "words": _in_turn(claim, path, "memory", "", words, stored, lying),
        "is_new": (stored == 0) | (out > 1) | ((stored == 1) & (naive.age(out) == 1)),
        "is_next": ~arrived | Mux(valid, naive.age(before) >= 2, naive.age(before) == 2),
        "is_old": all_of((before <= k) | (age == naive.seen_after) for k, age in enumerate(naive.ages)),
    }


def _in_turn(claim: Claim, path: str, memory: str, part: str, words: int, stored: Value, tokens: list[Value]) -> Value:
    """The pointers of a memory are ``stored`` words apart, and between them lie the tokens, in turn."""
    write_at, read_at = (claim.see(f"{path}.{name}{part}", range(words)) for name in ("write_at", "read_at"))
    word = Array(claim.see(f"{path}.{memory}[{k}]", len(tokens[0])) for k in range(words))
    lie = [(stored <= k) | (word[(read_at + k)[: len(read_at)]] == token) for k, token in enumerate(tokens)]
    return all_of(lie) & ((write_at - read_at - stored)[: len(read_at)] == 0)


def _copies(naive: NaiveEdge) -> int:
    """How many copies of a control a word has; none where one register reaches it."""
    width = len(naive.tokens[0])
    return -(-width // BITS_PER_COPY) if width > BITS_PER_COPY else 0
