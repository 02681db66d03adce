"""Base of the platform classes of boards with an Arora V, which amaranth 0.5 does not know."""

from __future__ import annotations

from amaranth.vendor import GowinPlatform


class AroraVPlatform(GowinPlatform):
    """Platform of amaranth's with the name of a part that its own patterns refuse.

    A class states ``part``, as nextpnr spells it, and ``family``, a name in ``recipes.CHIPS``. It makes circuits and
    constraints; it does not call the tools.
    """

    def parse_part(self) -> None:
        self.series, _, self.size = self.family.partition("-")
        self.voltage = self.subseries = self.package = self.speed = ""
        self.series_f, self.size_f, self.subseries_f = self.series, self.size, ""
