"""Cells that are made of the bits of a die, as the netlist of the chip calls them, from its outputs backwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits
from onnx_hw_boards.families.ice40.bitstream.logic_setting import logic_setting, table_wires
from onnx_hw_boards.families.ice40.bitstream.routing import ChosenPips
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell

Output = tuple[int, str]
"""A cell's output: number of the cell in the database, and name of the port."""

TABLE, REGISTER = "T", "Q"
"""Outputs of a logic cell before its flip-flop, and behind it."""

_OTHERWISE_ONE = ("CEN", "CE", "RCLKE", "WCLKE")
"""Inputs that are 1 where nothing drives them; all others are 0."""


@dataclass
class ChipCells:
    """Nets and cells; only what somebody reads is made.

    Attributes:
        die: bits of the die.
        pips: drivers of all wires.
        cells: cells made so far.
        wanted: outputs of cells that somebody reads, and whose cells are not made yet.
        net_of: net of every output that somebody reads.
        problems: what is not understood, in sentences.
        sites: sites that the cells take, by nextpnr's name of their kind and the number in the database.
        nets: number of nets.
        several: makers of the cells with several outputs, by number in the database.
    """

    die: DieBits
    pips: ChosenPips
    cells: list[ChipCell] = field(default_factory=list)
    wanted: list[Output] = field(default_factory=list)
    net_of: dict[Output, int] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    sites: set[tuple[str, int]] = field(default_factory=set)
    nets: int = 3
    several: dict[int, Callable[[], None]] = field(default_factory=dict)
    _at_root: dict[int, int] = field(default_factory=dict)
    _followed: set[int] = field(default_factory=set)

    def fresh(self) -> int:
        self.nets += 1
        return self.nets - 1

    def problem(self, sentence: str) -> None:
        self.problems[sentence] += 1

    def later(self, bel: int, make: Callable[[], None]) -> None:
        """Make a cell with several outputs once all of those that somebody reads are known.

        Args:
            make: asks for no further net.
        """
        self.several.setdefault(bel, make)

    def name(self, bel: int) -> str:
        """Return the name of a cell for people."""
        x, y, _ = self.die.database.bel_place(bel)
        return f"X{x}Y{y}.{self.die.database.bel_name(bel)}"

    def output(self, bel: int, port: str) -> int:
        """Return the net of a cell's output, whose cell is made soon."""
        output = bel, port
        if output not in self.net_of:
            self.net_of[output] = self.fresh()
            self.wanted.append(output)
        return self.net_of[output]

    def reads(self, bel: int, outputs: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """Return the outputs of a cell that somebody reads: net by pin.

        Args:
            outputs: port of each pin.
        """
        return {pin: (self.net_of[bel, port],) for pin, port in outputs.items() if (bel, port) in self.net_of}

    def inputs(self, bel: int, pins: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """Return the nets at some inputs of a cell, by pin.

        Args:
            pins: port of each pin.
        """
        return {pin: (self.net(bel, port),) for pin, port in pins.items()}

    def net(self, bel: int, port: str) -> int:
        """Return the net at an input of a cell; a constant where nothing drives it."""
        wire = self.die.database.ports(bel)[port]
        return self.on_wire(wire, ONE if port in _OTHERWISE_ONE else ZERO)

    def on_wire(self, wire: int, otherwise: int = ZERO) -> int:
        """Return the net on a wire.

        Args:
            otherwise: net where nothing drives it; RUBBISH where only a switch does.
        """
        root = self.pips.root(wire)
        if root not in self._at_root:
            net = self._net_at(root)
            if net is None:
                return otherwise if root == wire else RUBBISH
            self._at_root[root] = net
        return self._at_root[root]

    def _net_at(self, root: int) -> int | None:
        """Return the net at the beginning of a wire; None for an open end."""
        database = self.die.database
        ports = [(port, bel) for bel, port in database.drivers(root)]
        if not ports:
            return self._constant_carry(root) if database.local_name(root) == "carry_in_mux" else None
        if any(port.startswith("GLOBAL_BUFFER") for port, _ in ports):
            return self._global_net(root, ports)
        if len(ports) > 1:  # the output of a PLL is where the input of a pin is otherwise
            ports = [(port, bel) for port, bel in ports if port.startswith("PLLOUT") == self.pll_at(root)]
        port, bel = ports[0]
        if not port:
            self.problem(f"{database.wire_name(root)} drives the circuit, and its kind of cell is not known here")
            return RUBBISH
        if port == "O" and logic_setting(self.die, bel).registered:
            return self.output(bel, REGISTER)
        if port in ("O", "LO"):
            constant = self._constant_table(bel)
            return self.output(bel, TABLE) if constant is None else constant
        return self.output(bel, port)

    def _constant_table(self, bel: int) -> int | None:
        """Return the constant that a look-up table gives; None for other tables.

        Such a table is nextpnr's source of ones, or leads a constant through.
        """
        setting, wires = logic_setting(self.die, bel), table_wires(self.die.database, bel)
        driven = [k for k, wire in enumerate(wires) if self.pips.source(wire) is not None]
        if setting.leads_through(driven) and bel not in self._followed:
            self._followed.add(bel)  # where a table leads through what it gives itself, the next call ends here
            net = self.on_wire(wires[driven[0]])
            self._followed.remove(bel)
            return net if net in (ZERO, ONE) else None
        values = {setting.table >> entry & 1 for entry in range(16) if not entry & ~sum(1 << k for k in driven)}
        if len(values) > 1:
            return None
        self.sites.add(("ICESTORM_LC", bel))
        return ONE if values.pop() else ZERO

    def _constant_carry(self, root: int) -> int:
        """Return the constant carry into the first logic cell of a tile."""
        record = self.die.database.wires[root]
        return ONE if self.die.switched_on((int(record["x"]), int(record["y"])), "CarryInSet") else ZERO

    def _global_net(self, root: int, ports: list[tuple[str, int]]) -> int:
        """Return the net on a global network: that of its buffer, or of the pin or PLL that has a way of its own."""
        database = self.die.database
        network = int(database.local_name(root).rsplit("_", 1)[1])
        buffer = next(bel for _, bel in ports if database.bel_name(bel) == "gb")
        self.sites.add(("SB_GB", buffer))
        if database.pad_bits[network] not in self.die.outside:
            return self.net(buffer, "USER_SIGNAL_TO_GLOBAL_BUFFER")
        if self.pll_at(root):
            port, bel = next((port, bel) for port, bel in ports if port.startswith("PLLOUT"))
            return self.output(bel, port.removesuffix("_GLOBAL"))
        return self.output(next(bel for _, bel in ports if database.bel_name(bel).startswith("io")), "D_IN_0")

    def pll_at(self, wire: int) -> bool:
        """Return whether a PLL that is on has an output on a wire."""
        plls = [bel for bel, port in self.die.database.drivers(wire) if port.startswith("PLLOUT")]
        return any(self.die.bel_setting(bel, "PLLTYPE", 3) for bel in plls)


def bits_of(value: int, width: int) -> str:
    """Return a parameter as yosys writes it."""
    return format(value, f"0{width}b")
