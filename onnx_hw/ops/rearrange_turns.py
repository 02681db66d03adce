"""What a rearrangement waits for and gives back, turn by turn of its outer loop, and how much it holds meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_hw.ops.affine_ranges import Numbers


@dataclass(frozen=True)
class Turns:
    """What each turn of the outer loop waits for, all its operations alike, and what has been given back after it.

    Attributes:
        needs: (turns,) the last beat that this turn or one before it reads, -1 if none.
        released: (turns,) beats that no later turn reads, as a prefix; all of them after the last turn.
        operations: of a turn.
        stored: beats of the operand.
    """

    needs: np.ndarray
    released: np.ndarray
    operations: int
    stored: int

    @property
    def kept_from(self) -> np.ndarray:
        """The first beat that is still held during each turn."""
        return np.concatenate([[0], self.released[:-1]])

    def numbers(self) -> tuple[Numbers, Numbers, Numbers]:
        """Operations that wait for a later beat, these beats, and for each beat the operation that gives it back."""
        waiting = np.flatnonzero(np.diff(self.needs, prepend=-1) > 0)
        starts, beats = waiting * self.operations, self.needs[waiting]
        counts = np.diff(self.released, prepend=0)
        (freeing,) = counts.nonzero()
        releases = Numbers.repeated((freeing + 1) * self.operations - 1, counts[freeing])
        return Numbers.rows(starts, [0]), Numbers.rows(beats, [0]), releases

    @property
    def live_capacity(self) -> int:
        return max(1, int(np.max(self.needs + 1 - self.kept_from)))

    @cached_property
    def rate_capacity(self) -> int:
        """Beats with which neither engine waits at the interval of the busier one; a power of two, as memory is.

        Enough is what admits one schedule without a pause: beat b is written in cycle b · I // N, operation k fires in
        cycle d + k · I // n, with d the least that lets no turn begin before its last beat is there. Then, before the
        end of each turn, the writer must have had room for all it wrote. Beside that, a turn finds room to the end of
        what the next one reads, so that bursts do.
        """
        turns, stored = len(self.needs), self.stored
        n = turns * self.operations
        interval = max(n, stored)
        begins = np.arange(turns) * self.operations * interval // n
        ends = ((np.arange(turns) + 1) * self.operations - 1) * interval // n
        waits = self.needs >= 0
        delay = int(np.max((self.needs * interval // stored + 1 - begins)[waits]))
        evenly = -(-(delay + ends + 1) * stored // interval) - self.kept_from
        following = np.append(self.needs[1:], stored + self.needs[0]) + 1 - self.kept_from
        return 1 << (max(2, int(evenly.max()), int(following.max())) - 1).bit_length()
