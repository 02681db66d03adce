"""Rule 5 of the firing law in gates: an engine that waits for its own earlier results.

One signed counter: results that have come, less those that operations up to the current one have waited for. The
current operation may fire while it is not negative.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value

from onnx_hw_rtl.streams.engine import Engine, delayed

__all__ = ["OwnResults"]


class OwnResults:
    """A loop-carried dependency, within a frame; the first operation of a frame waits for none.

    Args:
        delay: cycles from an operation until one that needs its result may fire.
        span: the most results that come before they are waited for.

    Attributes:
        has_come: what the current operation needs.
    """

    def __init__(self, delay: int, span: int) -> None:
        if delay < 1:
            raise ValueError(f"a result must take 1 cycle or more, not {delay}")
        self.delay = delay
        self._ahead = Signal(range(-max(1, span), max(1, span) + 1), name="own_results_ahead")

    @property
    def has_come(self) -> Value:
        return ~self._ahead[-1]

    def count(self, m: Module, engine: Engine, *, waited_for: Value, next_waits: Value) -> None:
        """Follow the engine.

        Args:
            waited_for: the current operation's result will be needed.
            next_waits: the operation after the current one needs a result.
        """
        came = delayed(m, engine.works & waited_for, self.delay - 1, "own_result", strobe=True)
        m.d.sync += self._ahead.eq(self._ahead + came - (engine.works & next_waits))
