"""Circuit as C++: a struct with the whole state, and functions that do the steps of a cycle one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw_sim.circuit import Circuit as Bench
from onnx_hw_sim.circuit import Stream
from onnx_hw_sim.lockstep.levelize import order
from onnx_hw_sim.lockstep.netlist import WordNetlist
from onnx_hw_sim.lockstep.steps import Cycle, MemoryStep, Step, steps_of
from onnx_hw_sim.lockstep.words import words

STEPS_PER_FUNCTION = 250
"""Number of steps in a C++ function. Compilers take more than twice as long for a function twice as long."""

HEADER, TABLES = "circuit.h", "tables.bin"


@dataclass(frozen=True)
class LockstepSources:
    """Files to compile.

    Attributes:
        header: the struct, to be included by all others.
        functions: texts of functions, each of which does some of the steps.
        rest: power-up, a cycle, and the addresses of the ports.
        tables: contents of all memories, uint32.
    """

    header: str
    functions: Sequence[str]
    rest: str
    tables: np.ndarray


class WordPlacement:
    """Placement of every word: in a port, a variable of one function, or the state, in the order of their need."""

    def __init__(self, cycle: Cycle, functions: Sequence[Sequence[int]]) -> None:
        self.kept: dict[tuple[str, int, int], int] = {}
        self._ports = {driver: name for name, driver in cycle.inputs.items()}
        function_of = {step: number for number, part in enumerate(functions) for step in part}
        read_in: dict[int, set[int]] = defaultdict(set)
        for number, step in enumerate(cycle.steps):
            for driver in step.reads:
                read_in[driver].add(function_of[number])
        self.passing = {
            step.out
            for number, step in enumerate(cycle.steps)
            if step.out is not None and not step.keeps and read_in[step.out] <= {function_of[number]}
        }
        """Drivers that nothing reads outside the function that sets them."""

    def spell(self, driver: int, k: int) -> str:
        if driver in self._ports:
            return f"s.{self._ports[driver]}[{k}]"
        return f"t{driver}_{k}" if driver in self.passing else self.keep("of", driver, k)

    def keep(self, what: str, number: int, k: int) -> str:
        """Return a place in the state, one long array, because compilers are slow to find one field among thousands."""
        return f"s.v[{self.kept.setdefault((what, number, k), len(self.kept))}]"


def program(netlist: WordNetlist, bench: Bench) -> LockstepSources:
    """Write the C++ of a cycle; raise ``UnsupportedCircuit`` for an unknown cell, or cells that wait for each other."""
    cycle = steps_of(netlist)
    ordered = order(cycle.steps)
    parts = [ordered.steps[k : k + STEPS_PER_FUNCTION] for k in range(0, len(ordered.steps), STEPS_PER_FUNCTION)]
    names = WordPlacement(cycle, parts)
    cycle.of.spell = names.spell
    functions, last = list[str](), list[str]()
    for number, part in enumerate(parts):
        lines: list[str] = []
        for which in part:
            now, at_the_end = _statements(cycle.steps[which], which, names, late=which in ordered.late)
            lines += now
            last += at_the_end
        functions.append(_function(f"part{number}", lines))
    tables, places = _tables(cycle.memories)
    begins = [
        f"{names.spell(register, k)} = all({word:#x}u);"
        for register, values in cycle.begins.items()
        for k, word in enumerate(values)
        if word
    ]
    rest = _rest(cycle, bench, len(parts), begins, last, places)
    return LockstepSources(_struct(cycle, len(names.kept), places), functions, rest, tables)


def _statements(step: Step, number: int, names: WordPlacement, *, late: bool) -> tuple[list[str], list[str]]:
    """Return the statements of a step: those at its turn, and those after all other steps."""
    words_of = range(step.words)
    if late:
        to = [names.keep("late", number, k) for k in words_of]
    elif step.out is not None:
        to = [names.spell(step.out, k) for k in words_of]
    else:
        to = [f"w{number}_{k}" for k in words_of]
    local = bool(step.words) and not late and (step.out is None or step.out in names.passing)
    now = [f"const V {line}" if local else line for line in step.write(to)]
    stored = step.store(to) if step.store is not None else []
    if not late:
        return now + stored, []
    if step.out is not None:
        stored = [f"{names.spell(step.out, k)} = {name};" for k, name in enumerate(to)]
    return now, stored


def _function(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"void {name}(State& s) {{", *(f"    {line}" for line in lines), "}", ""])


def _tables(memories: Sequence[MemoryStep]) -> tuple[np.ndarray, list[int]]:
    """Return the contents of all memories in a row, without zeros of written ones, and where each begins."""
    found, places, at = [np.zeros(1, np.uint32)], [], 1
    for memory in memories:
        places.append(at)
        if memory.contents or not memory.kept:
            contents = memory.contents or [0] * (memory.depth * memory.parts)
            found.append(np.array(contents, dtype=np.uint32))
            at += len(found[-1])
    return np.concatenate(found), places


def _struct(cycle: Cycle, kept: int, places: Sequence[int]) -> str:
    of = cycle.of
    ports = [(name, of.widths[driver]) for name, driver in cycle.inputs.items()]
    ports += [(name, len(bits)) for name, bits in cycle.outputs.items()]
    return "\n".join(
        [
            "#pragma once",
            '#include "vectors.h"',
            "struct State {",
            *(f"    V {name}[{max(1, words(width))}];" for name, width in ports),
            f"    V v[{kept}];",
            "    const uint32_t* tables;",
            *(f"    V m{k}[{m.depth * m.parts}];" for k, m in enumerate(cycle.memories) if m.kept),
            "};",
            *(f"const uint32_t m{k} = {at};" for k, at in enumerate(places) if not cycle.memories[k].kept),
            "",
        ]
    )


def _rest(
    cycle: Cycle, bench: Bench, parts: int, begins: Sequence[str], last: Sequence[str], places: Sequence[int]
) -> str:
    filled = [
        f"    fill(s.m{k}, s.tables + {places[k]}, {memory.depth * memory.parts});"
        for k, memory in enumerate(cycle.memories)
        if memory.kept and memory.contents
    ]
    streams = (*bench.sources, *bench.sinks, *bench.probes)
    fires = "s->fires, sizeof(s->fires) / sizeof(V)" if bench.engines else "nullptr, 0"
    return "\n".join(
        [
            f'#include "{HEADER}"',
            '#include "bench.h"',
            "#include <cstdlib>",
            "#include <new>",
            *(f"void part{k}(State& s);" for k in range(parts)),
            "static void fill(V* memory, const uint32_t* words, int count) {",
            "    for (int k = 0; k < count; k++) memory[k] = all(words[k]);",
            "}",
            "static void power_up(State& s) {",
            *(f"    {line}" for line in begins),
            *filled,
            "}",
            "static void cycle(void* model) {",
            "    State& s = *static_cast<State*>(model);",
            *(f"    part{k}(s);" for k in range(parts)),
            *(f"    {line}" for line in last),
            "}",
            "struct Binding {",
            "    State* s;",
            f"    Port ports[{len(streams)}];",
            "    Bench bench;",
            "};",
            "const Bench* bench_open(const uint32_t* tables) {",
            "    void* room = std::aligned_alloc(64, (sizeof(State) + 63) / 64 * 64);",
            "    if (!room) throw std::bad_alloc();",
            "    std::memset(room, 0, sizeof(State));",
            "    State* s = static_cast<State*>(room);",
            "    s->tables = tables;",
            "    power_up(*s);",
            "    Binding* b = new Binding{s, {",
            *(f"        {_port(stream)}," for stream in streams),
            "    }, {}};",
            f"    b->bench = Bench{{cycle, s, b, s->rst, {fires},",
            f"        {len(bench.sources)}, {len(bench.sinks)}, {len(bench.probes)}, b->ports}};",
            "    return &b->bench;",
            "}",
            "void bench_close(const Bench* bench) {",
            "    std::free(bench->model);",
            "    delete static_cast<Binding*>(bench->owner);",
            "}",
            "",
        ]
    )


def _port(stream: Stream) -> str:
    return (
        f"{{s->{stream.name}_payload, {max(1, words(stream.width))}, s->{stream.name}_valid, s->{stream.name}_ready}}"
    )
