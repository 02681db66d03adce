"""RangeSource of values: seen in samples, assumed, and cut where that loses least."""
