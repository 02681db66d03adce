"""Order of the steps within a cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_hw_sim.lockstep.netlist import UnsupportedCircuit
from onnx_hw_sim.lockstep.steps import Step


@dataclass(frozen=True)
class Levelization:
    """Order of the steps, by their numbers.

    Attributes:
        steps: all steps, each after those that it waits for.
        late: registers and memories that must be set after everything else, because they exchange their values with
            others.
    """

    steps: Sequence[int]
    late: frozenset[int]


def order(steps: Sequence[Step]) -> Levelization:
    """Order the steps: a cell settles after those it reads; registers and memories are set after others have read them.

    The input of a register is computed right before the register, so that it is used while it is still in the cache.

    Raises:
        UnsupportedCircuit: cells wait for each other within a cycle.
    """
    maker = {step.out: k for k, step in enumerate(steps) if step.out is not None and not step.keeps}
    readers: dict[int, list[int]] = defaultdict(list)
    lookers: dict[int, list[int]] = defaultdict(list)
    for k, step in enumerate(steps):
        for driver in step.reads:
            readers[driver].append(k)
        if step.memory is not None and step.store is None:
            lookers[step.memory].append(k)

    def before(k: int) -> list[int]:
        step = steps[k]
        earlier = [maker[driver] for driver in step.reads if driver in maker]
        if step.keeps and step.out is not None:
            earlier += [other for other in readers[step.out] if other != k]
        if step.store is not None and step.memory is not None:
            earlier += [other for other in lookers[step.memory] if other != k]
        return earlier

    done: list[int] = []
    state = bytearray(len(steps))  # 1: begun, 2: done
    late: set[int] = set()
    for root in range(len(steps)):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(before(root)))]
        while path:
            k, waits = path[-1]
            for other in waits:
                if state[other] == 0:
                    state[other] = 1
                    path.append((other, iter(before(other))))
                    break
                if state[other] == 1:
                    if steps[k].out is not None and not steps[k].keeps:
                        raise UnsupportedCircuit("cells wait for each other within a cycle")
                    late.add(k)  # the other step reads it later
            else:
                state[k] = 2
                done.append(k)
                path.pop()
    return Levelization(done, frozenset(late))
