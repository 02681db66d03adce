"""Search for a chain of equal steps in a graph: a recurrent cell that an exporter wrote once per step.

The steps have the same operators with the same constants, one behind the other in the file; a step reads values of its
own, states of the step before, and data from outside the chain. Products with equal weights, of which each depends on
the one before, are the anchors of the search. The cut between two steps is where the fewest numbers cross it. A step
at an end of the chain counts, too, if a part of it is a constant that follows from an initial state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read, readers_of, subgraphs
from onnx_hw.onnx.graph.loops import is_delay
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.evaluate import compute

MIN_STEPS = 4
"""Least number of equal steps that become one: fewer may be layers that share weights."""

NUM_COMPARED_FIRST = 256
"""Number of elements of two constants that are compared before the rest is read."""

CLOSENESS = 1e-5
"""Greatest relative difference of a constant from what an initial state gives: exporters compute it in float32."""


class Source(Enum):
    """Origin of an input of a node of a step: a constant, its own step, the step before, or data from outside."""

    CONSTANT = auto()
    OWN = auto()
    STATE = auto()
    OUTSIDE = auto()


Result = tuple[int, int]
"""Number of a node in its step, and of its output."""

Origin = tuple[Source, Result]
"""Origin of an input; the result only means something for OWN and STATE."""

NOWHERE = 0, 0
"""Result of an origin that is a constant or data."""


@dataclass(frozen=True)
class RepeatedStep:
    """Chain of equal steps.

    Attributes:
        template: nodes of one of the steps, in their order.
        origins: origin of every input of every node of a step.
        steps: nodes of each step; None for one whose results are constants, in the first step only.
        initial: for each state, the name of its first value; None for zeros.
    """

    template: tuple[Node, ...]
    origins: tuple[tuple[Origin, ...], ...]
    steps: tuple[tuple[Node | None, ...], ...]
    initial: dict[Result, str | None]


def find_repeated_steps(graph: Graph) -> Iterator[RepeatedStep]:
    """Yield the chains of equal steps in a graph; they may share nodes."""
    search = _Search(graph)
    for anchors in search.anchors():
        yield from search.chains(anchors)


class _Search:
    """Search in one graph; nodes are numbers in the order of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.makers = {
            name: (k, n) for k, node in enumerate(graph.nodes) for n, name in enumerate(node.outputs) if name
        }
        self._forms: dict[int, object] = {}

    # ---- equality ------------------------------------------------------------------------------------------------

    def form(self, k: int) -> object:
        """Return what nodes that do the same have in common, apart from their inputs."""
        if k not in self._forms:
            node = self.nodes[k]
            attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
            present = tuple(bool(name) for name in node.inputs)
            self._forms[k] = node.op_type, node.domain, node.version, attributes, present, len(node.outputs)
        return self._forms[k]

    def are_equal(self, one: str, other: str) -> bool:
        """Return whether two names are the same value, or equal constants."""
        if one == other:
            return True
        a, b = self.graph.constants.get(one), self.graph.constants.get(other)
        if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        first_a, first_b = a.reshape(-1)[:NUM_COMPARED_FIRST], b.reshape(-1)[:NUM_COMPARED_FIRST]
        return np.array_equal(first_a, first_b) and np.array_equal(a, b)  # most pairs differ at the beginning

    def size(self, name: str) -> int:
        """Return the number of elements of a value; a large one if it is not known."""
        value = self.graph.values.get(name)
        size = None if value is None else value.size
        return 1 << 30 if size is None else size

    # ---- anchors ------------------------------------------------------------------------------------------------

    def anchors(self) -> list[list[int]]:
        """Return groups of products with equal weights, each of which depends on the one before."""
        similar: dict[object, list[int]] = defaultdict(list)
        for k, node in enumerate(self.nodes):
            constants = [n for n, name in enumerate(node.inputs) if name in self.graph.constants]
            if is_product(node) and constants and not any(subgraphs(node)):
                shapes = tuple((n, self.graph.constants[node.inputs[n]].shape) for n in constants)
                similar[self.form(k), shapes].append(k)
        groups: list[list[int]] = []
        for members in similar.values():
            while len(members) >= MIN_STEPS - 1:
                first = self.nodes[members[0]]
                same = [
                    k
                    for k in members
                    if all(
                        name not in self.graph.constants or self.are_equal(name, other)
                        for name, other in zip(first.inputs, self.nodes[k].inputs, strict=True)
                    )
                ]
                members = [k for k in members if k not in same]
                if len(same) >= MIN_STEPS - 1 and self._is_chain(same):
                    groups.append(same)
        return sorted(groups)

    def _is_chain(self, group: Sequence[int]) -> bool:
        place = {k: n for n, k in enumerate(group)}
        last: dict[str, int] = {}
        for k in range(group[0], group[-1] + 1):
            behind = max((last.get(name, -1) for name in names_read(self.nodes[k])), default=-1)
            if k in place:
                if behind != place[k] - 1:
                    return False
                behind = place[k]
            last.update(dict.fromkeys(self.nodes[k].outputs, behind))
        return True

    # ---- steps --------------------------------------------------------------------------------------------------

    def chains(self, anchors: Sequence[int]) -> list[RepeatedStep]:
        """Return the chains of steps around some anchors, by the best cuts, the longest one first."""
        within = self._between(anchors)
        blocks = [[k for k in within if a <= k < b] for a, b in pairwise(anchors)]
        forms = [[self.form(k) for k in block] for block in blocks]
        # The first one may lack what does not depend on the first anchor, and the last one what no anchor needs.
        first = int(len(forms) > 2 and forms[0] != forms[1])
        end = len(forms) - (len(forms) - first > 2 and forms[-1] != forms[first])
        blocks = blocks[first:end]
        if len(blocks) < 2 or any(form != forms[first] for form in forms[first:end]):
            return []
        if any(is_delay(self.nodes[k]) or any(subgraphs(self.nodes[k])) for k in blocks[0]):
            return []
        count = len(blocks[0])
        crossing = {cut: self._crossing(within, blocks[1][cut]) for cut in (0, *range(count - 1, 0, -1))}
        found: list[RepeatedStep] = []
        for cut in (cut for cut, numbers in crossing.items() if numbers == min(crossing.values())):
            steps = [one[cut:] + other[:cut] for one, other in pairwise(blocks)] if cut else blocks
            origins = self._origins(steps) if len(steps) > 1 else None
            chain = None if origins is None else _Chain(self, steps, origins).found()
            if chain is not None:
                found.append(chain)
        return sorted(found, key=lambda chain: -len(chain.steps))

    def _between(self, anchors: Sequence[int]) -> list[int]:
        """Return the nodes on the ways from the first anchor to the last one, both included."""
        reached: set[str] = set(self.nodes[anchors[0]].outputs)
        behind = [anchors[0]]
        for k in range(anchors[0] + 1, anchors[-1] + 1):
            if not reached.isdisjoint(names_read(self.nodes[k])):
                reached.update(self.nodes[k].outputs)
                behind.append(k)
        needed: set[str] = set(names_read(self.nodes[anchors[-1]]))
        between = [anchors[-1]]
        for k in reversed(behind):
            if k != anchors[-1] and not needed.isdisjoint(self.nodes[k].outputs):
                needed |= names_read(self.nodes[k])
                between.append(k)
        return between[::-1]

    def _crossing(self, within: Sequence[int], cut: int) -> int:
        """Return how many numbers cross a cut before a node."""
        before = {name for k in within if k < cut for name in self.nodes[k].outputs if name}
        read = {name for k in within if k >= cut for name in self.nodes[k].inputs}
        return sum(self.size(name) for name in before & read)

    def _origins(self, steps: Sequence[Sequence[int]]) -> tuple[tuple[Origin, ...], ...] | None:
        """Return the origins of the inputs of a step; None if steps differ."""
        places = {k: (step, n) for step, nodes in enumerate(steps) for n, k in enumerate(nodes)}
        found: list[tuple[Origin, ...]] = []
        for n in range(len(steps[0])):
            row: list[Origin] = []
            for q, name in enumerate(self.nodes[steps[1][n]].inputs):
                each = [self._origin(self.nodes[nodes[n]].inputs[q], step, places) for step, nodes in enumerate(steps)]
                first = self.nodes[steps[0][n]].inputs[q]
                if each[1] is None or any(other != each[1] for other in each[2:]):
                    return None
                if each[1][0] is not Source.STATE and each[0] != each[1]:
                    return None
                if each[1][0] is Source.CONSTANT:
                    if not all(self.are_equal(first, self.nodes[nodes[n]].inputs[q]) for nodes in steps):
                        row.append((Source.OUTSIDE, NOWHERE))
                        continue
                elif not name:
                    return None
                row.append(each[1])
            found.append(tuple(row))
        return tuple(found)

    def _origin(self, name: str, step: int, places: dict[int, tuple[int, int]]) -> Origin | None:
        if not name or name in self.graph.constants:
            return Source.CONSTANT, NOWHERE
        maker, output = self.makers.get(name, (-1, 0))
        if maker not in places:
            return Source.OUTSIDE, NOWHERE
        of, n = places[maker]
        if of == step:
            return Source.OWN, (n, output)
        return (Source.STATE, (n, output)) if of == step - 1 else None


class _Chain:
    """Steps of which the origins are known, before and behind which more may follow.

    Attributes:
        steps: number of each node of each step; None for one whose results are constants.
        states: results that the next step reads.
    """

    def __init__(
        self, search: _Search, steps: Sequence[Sequence[int]], origins: tuple[tuple[Origin, ...], ...]
    ) -> None:
        self.search, self.nodes, self.origins = search, search.nodes, origins
        self.steps: list[list[int | None]] = [list(step) for step in steps]
        self.template = list(steps[1])
        self.states = list(dict.fromkeys(result for row in origins for source, result in row if source is Source.STATE))

    def found(self) -> RepeatedStep | None:
        """Add steps at both ends; return all of them, or None if they are few."""
        readers = readers_of(self.nodes)
        numbers = {id(node): k for k, node in enumerate(self.nodes)}
        while (following := self._following(readers, numbers)) is not None:
            self.steps.append(following)
        initial = self._read_by_first()
        while initial is not None and all(name in self.search.makers for name in initial.values()):
            before = self._before(initial)
            if before is None:
                break
            nodes, new = before
            self.steps.insert(0, nodes)
            initial = new
            if None in nodes:
                break
        if initial is None or len(self.steps) < MIN_STEPS:
            return None
        return RepeatedStep(
            tuple(self.nodes[k] for k in self.template),
            self.origins,
            tuple(tuple(None if k is None else self.nodes[k] for k in step) for step in self.steps),
            {state: name or None for state, name in initial.items()},
        )

    def _read_by_first(self) -> dict[Result, str] | None:
        """Return the name of the first value of each state; None if it is not the same for all readers."""
        names: dict[Result, str] = {}
        for k, row in zip(self.steps[0], self.origins, strict=True):
            assert k is not None  # only a step that is added later has such
            for name, (source, result) in zip(self.nodes[k].inputs, row, strict=True):
                if source is Source.STATE and not self.search.are_equal(names.setdefault(result, name), name):
                    return None
        return names

    def _following(self, readers: Mapping[str, Sequence[Node]], numbers: Mapping[int, int]) -> list[int | None] | None:
        """Return the nodes of a step behind the last one."""
        last, new = self.steps[-1], list[int]()
        taken = {k for step in self.steps for k in step}
        for n, row in enumerate(self.origins):
            given: dict[int, str] = {}
            for q, (source, (m, output)) in enumerate(row):
                if source in (Source.OWN, Source.STATE):
                    k = new[m] if source is Source.OWN else last[m]
                    assert k is not None  # only the first step has such
                    given[q] = self.nodes[k].outputs[output]
                elif source is Source.CONSTANT:
                    given[q] = self.nodes[self.template[n]].inputs[q]
            tied = [q for q, (source, _) in enumerate(row) if source in (Source.OWN, Source.STATE)]
            if not tied:
                return None
            candidates = sorted({numbers[id(node)] for node in readers.get(given[tied[0]], ())} - taken - set(new))
            fitting = (
                k
                for k in candidates
                if self.search.form(k) == self.search.form(self.template[n])
                and all(self.search.are_equal(self.nodes[k].inputs[q], name) for q, name in given.items())
            )
            chosen = next(fitting, None)
            if chosen is None:
                return None
            new.append(chosen)
        return list(new)

    def _before(self, read: dict[Result, str]) -> tuple[list[int | None], dict[Result, str]] | None:
        """Return the nodes of a step that gives the first values of the states, and the values that it reads.

        Args:
            read: names of the first values.
        """
        step: list[int | None] = [None] * len(self.template)
        first: dict[Result, str] = {}
        constant: dict[Result, str] = {}
        waiting = list(read.items())
        while waiting:
            (n, output), name = waiting.pop()
            if name in self.search.graph.constants:
                constant[n, output] = name
                continue
            k, of = self.search.makers.get(name, (-1, 0))
            if k < 0 or of != output or step[n] not in (None, k):
                return None
            if step[n] == k:
                continue
            if self.search.form(k) != self.search.form(self.template[n]):
                return None
            step[n] = k
            pairs = zip(self.nodes[k].inputs, self.nodes[self.template[n]].inputs, self.origins[n], strict=True)
            for own, other, (source, result) in pairs:
                if source is Source.OWN:
                    waiting.append((result, own))
                    continue
                if source is Source.STATE:
                    other = first.setdefault(result, own)
                if source is not Source.OUTSIDE and not self.search.are_equal(own, other):
                    return None
        for state in self.states:
            first.setdefault(state, "")
        return (step, first) if None not in step or self._follow(step, first, constant) else None

    def _follow(self, step: Sequence[int | None], first: dict[Result, str], constant: dict[Result, str]) -> bool:
        """Return whether constants in place of nodes follow from the first values of the states."""
        constants, known = self.search.graph.constants, dict[Result, np.ndarray]()
        for n, k in enumerate(step):
            if k is not None:
                continue
            node, inputs = self.nodes[self.template[n]], list[np.ndarray | None]()
            for name, (source, result) in zip(node.inputs, self.origins[n], strict=True):
                if source is Source.CONSTANT:
                    inputs.append(constants[name] if name else None)
                elif source is Source.OWN and result in known:
                    inputs.append(known[result])
                elif source is Source.STATE and first[result] in constants:
                    inputs.append(constants[first[result]])
                elif source is Source.STATE and not first[result]:
                    inputs.append(np.zeros(self.search.graph.values[name].shape, np.float32))  # type: ignore[arg-type]
                else:
                    return False
            try:
                results = compute(node, inputs)
            except UserError:
                return False
            known.update({(n, output): np.asarray(array) for output, array in enumerate(results)})
        return all(
            result in known
            and known[result].shape == constants[name].shape
            and np.allclose(known[result], constants[name], rtol=CLOSENESS, atol=CLOSENESS)
            for result, name in constant.items()
        )
