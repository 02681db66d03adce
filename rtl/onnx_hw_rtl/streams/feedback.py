"""Rule 5 of the firing law as a circuit: an engine that waits for its own earlier results.

One signed counter holds the number of results that have come, less those that operations up to the current one have
waited for. The current operation may fire while the counter is not negative.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value

from onnx_hw_rtl.streams.engine import Engine, delayed


class FeedbackCounter:
    """Counter for a loop-carried dependency within a frame. The first operation of a frame waits for no result.

    Args:
        delay: cycles from an operation until one that needs its result may fire.
        span: the greatest number of results that come before they are waited for.

    Attributes:
        has_come: the result that the current operation needs has come.
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
