"""Claims about a circuit, proven with yosys' SMT-LIB of it and a solver: bounded, and by induction.

A claim is an Amaranth module with the circuit and a naive model of it side by side. Inputs are free, the reset is one
of them; ``assumed`` is what the outside keeps to, ``holds`` what is claimed. For the step of the induction ``lemmas``
say how the circuit's registers stand to the model's; they read them through inputs of their own, which are set equal to
the registers by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, Value

from onnx_hw_tools import tools

bitwuzla = pytest.importorskip("bitwuzla", reason="no SMT solver: pip install bitwuzla")


@dataclass
class Claim:
    """A module, and what is said of it.

    Attributes:
        free: the inputs.
        assumed, holds, lemmas: bits by name, true in every cycle.
        seen: inputs that stand for wires of the circuit, by the wire's name after flattening.
    """

    m: Module
    free: list[Signal] = field(default_factory=list)
    assumed: dict[str, Value] = field(default_factory=dict)
    holds: dict[str, Value] = field(default_factory=dict)
    lemmas: dict[str, Value] = field(default_factory=dict)
    seen: dict[str, Signal] = field(default_factory=dict)

    def input(self, shape: Any, name: str) -> Signal:
        """A free input."""
        self.free.append(made := Signal(shape, name=f"free_{name}"))
        return made

    def without_lemmas(self) -> Claim:
        """What is claimed alone, of a circuit that may not have the registers of the lemmas."""
        return replace(self, lemmas={}, seen={})

    def see(self, wire: str, shape: Any = 1) -> Signal:
        """A wire of the circuit."""
        if wire not in self.seen:
            self.seen[wire] = Signal(shape, name="seen_" + re.sub(r"\W", "_", wire))
        return self.seen[wire]


class Solver:
    """The circuit of a claim for a solver.

    Args:
        folder: for files of yosys.
    """

    def __init__(self, claim: Claim, folder: Path) -> None:
        self.claim = claim
        bits = {"assumed": claim.assumed, "holds": claim.holds, "lemma": claim.lemmas}
        outputs = []
        for kind, values in bits.items():
            for name, value in values.items():
                output = Signal(name=f"{kind}_{name}")
                claim.m.d.comb += output.eq(value)
                outputs.append(output)
        self.names = {kind: [f"{kind}_{name}" for name in values] for kind, values in bits.items()}
        ports = [*claim.free, *claim.seen.values(), *outputs]
        text = rtlil.convert(claim.m, name="top", ports=ports, emit_src=False)
        (folder / "claim.il").write_text(text, encoding="utf-8")
        script = (
            "read_rtlil claim.il; hierarchy -top top; proc; flatten; memory; opt_clean; dffunmap; "
            "write_smt2 -wires -stbv claim.smt2"
        )
        tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "yosys.log")
        self.definitions = (folder / "claim.smt2").read_text(encoding="utf-8")

    def counterexample(self, cycles: int) -> str | None:
        """What is claimed first fails so many cycles after power-up, or None where it never does within them."""
        return self._search(cycles, range(cycles), "(|top_i| s0)")

    def step(self, cycles: int = 1) -> str | None:
        """What need not hold in a cycle although all held in the ``cycles`` before it; None: the claim is proven."""
        return self._search(cycles + 1, [cycles], "true")

    def _search(self, cycles: int, asked: Sequence[int], begins: str) -> str | None:
        terms = bitwuzla.TermManager()
        options = bitwuzla.Options()
        options.set(bitwuzla.Option.PRODUCE_MODELS, True)
        parser = bitwuzla.Parser(terms, options)
        states = "".join(f"(declare-const s{t} |top_s|)" for t in range(cycles))
        parser.parse(f"(set-logic QF_ABV){self.definitions}{states}", True, False)
        solver = parser.bitwuzla()

        def claim(text: str) -> None:
            solver.assert_formula(parser.parse_term(text))

        claim(begins)
        names = [*self.names["holds"], *self.names["lemma"]]
        for t in range(cycles):
            if t:
                claim(f"(|top_t| s{t - 1} s{t})")
            for name in self.names["assumed"]:
                claim(f"(|top_n {name}| s{t})")
            for wire, signal in self.claim.seen.items():
                claim(f"(= (|top_n {wire}| s{t}) (|top_n {signal.name}| s{t}))")
            if t in asked:
                wrong = parser.parse_term(f"(not (and true {' '.join(f'(|top_n {name}| s{t})' for name in names)}))")
                if solver.check_sat(wrong) != bitwuzla.Result.UNSAT:
                    each = [name for name in names if self._is_false(parser, solver, name, t)]
                    return f"{', '.join(each)} after {t} cycles"
            for name in names:
                claim(f"(|top_n {name}| s{t})")
        return None

    def _is_false(self, parser: Any, solver: Any, name: str, t: int) -> bool:
        return str(solver.get_value(parser.parse_term(f"(|top_n {name}| s{t})"))) == "false"
