"""What an edge is: a queue whose tokens are seen some cycles after they came, and places that are counted."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal, Value


class NaiveEdge:
    """A queue of at most ``depth`` tokens. A place is reserved, later a token is written, later it is popped.

    Args:
        seen_after: cycles from a write until the token is offered, if all before it are gone.

    Attributes:
        owed: places reserved for tokens that have not come.
        count, tokens, ages: what is stored, the oldest first; cycles since each came, up to ``seen_after``.
        free: places that nobody has reserved.
        valid: the oldest one is offered.
        credit_next: a place will be free in the next cycle.
    """

    def __init__(
        self,
        m: Module,
        width: int,
        depth: int,
        seen_after: int,
        reserve: Value,
        write: Value,
        data: Value,
        ready: Value,
        name: str = "",
    ) -> None:
        self.depth, self.seen_after = depth, seen_after
        self.owed, self.count = Signal(range(depth + 1)), Signal(range(depth + 1))
        self.tokens = [Signal(width, name=f"{name}token{k}") for k in range(depth)]
        self.ages = [Signal(range(seen_after + 1), name=f"{name}age{k}") for k in range(depth)]
        self.free, self.valid, self.credit_next = Signal(range(depth + 1)), Signal(), Signal()
        pop = Signal(name="naive_pop")
        m.d.comb += [
            self.free.eq(depth - self.owed - self.count),
            self.valid.eq((self.count != 0) & (self.ages[0] == seen_after)),
            pop.eq(self.valid & ready),
            self.credit_next.eq(self.free + pop > reserve),
        ]
        m.d.sync += [self.owed.eq(self.owed + reserve - write), self.count.eq(self.count + write - pop)]
        stays = self.count - pop
        for k in range(depth):
            token, age = self.tokens[k], self.ages[k]
            if k + 1 < depth:
                token, age = Mux(pop, self.tokens[k + 1], token), Mux(pop, self.ages[k + 1], age)
            comes = write & (stays == k)
            m.d.sync += self.tokens[k].eq(Mux(comes, data, token))
            m.d.sync += self.ages[k].eq(Mux(comes, 1, Mux(age == seen_after, age, age + 1)))

    def token(self, place: Value) -> Value:
        """The one at a place, 0 for the oldest."""
        return Array(self.tokens)[place]

    def age(self, place: Value) -> Value:
        """Its age."""
        return Array(self.ages)[place]
