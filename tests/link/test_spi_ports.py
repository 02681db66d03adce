"""SPI ports by spidev and by pyftdi: what is exchanged, and a sentence for every port that cannot be opened."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from onnx_hw_link.errors import PortFailed
from onnx_hw_link.spi_transport import SpiTransport, SpiWire

SCK_HZ = 1_000_000


class UsbToolsError(Exception):
    """As pyftdi raises it: no OSError."""


class Controller:
    """Stand-in of pyftdi's controller, with one device."""

    def configure(self, name: str) -> None:
        if name.endswith("?"):
            raise SystemExit(0)
        if name != "ftdi://ftdi:232h/1":
            raise UsbToolsError("No USB device matches URL")

    def get_port(self, cs: int, freq: float, mode: int) -> Any:
        assert (cs, freq, mode) == (0, SCK_HZ, 0)
        return SimpleNamespace(exchange=lambda data, duplex: bytes(byte ^ 0xFF for byte in data))

    def terminate(self) -> None:
        pass


class Device:
    """Stand-in of spidev's device, of which there is 0.0 alone; 4,096 bytes fit into an exchange."""

    max_speed_hz, mode = 0, 3

    def open(self, bus: int, device: int) -> None:
        if (bus, device) != (0, 0):
            raise FileNotFoundError(2, "No such file or directory")

    def xfer2(self, data: list[int]) -> list[int]:
        assert len(data) <= 4096 and (self.max_speed_hz, self.mode) == (SCK_HZ, 0)
        return [byte ^ 0xFF for byte in data]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    members_of: dict[str, dict[str, Any]] = {
        "spidev": {"SpiDev": Device},
        "pyftdi": {},
        "pyftdi.spi": {"SpiController": Controller},
        "pyftdi.usbtools": {"UsbToolsError": UsbToolsError},
    }
    for name, members in members_of.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def opened(port: str) -> SpiWire:
    return SpiTransport(SCK_HZ).open(port, 1.0)


@pytest.mark.parametrize("port", ["spidev0.0", "/dev/spidev0.0", "ftdi://ftdi:232h/1"])
def test_bytes_are_exchanged(port: str) -> None:
    wire, sent = opened(port), bytes(k % 255 for k in range(10_000))
    wire.write(sent)
    assert wire.in_waiting == len(sent)
    assert wire.read(len(sent)) == bytes(byte ^ 0xFF for byte in sent)
    wire.close()


@pytest.mark.parametrize(
    "port",
    ["spidev0.1", "spidev0", "spidevx.y", "nonsense", "ftdi://ftdi:4232h/1", "ftdi://nonsense", "ftdi:///?", ""],
)
def test_a_port_that_cannot_be_opened_is_a_sentence(port: str) -> None:
    with pytest.raises(PortFailed, match="must be there and free"):
        opened(port)


@pytest.mark.parametrize(("port", "package"), [("spidev0.0", "spidev"), ("ftdi://ftdi:232h/1", "pyftdi")])
def test_a_missing_package_is_named(port: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]  # as Python marks what is not there
    with pytest.raises(PortFailed, match=f"pip install {package}"):
        opened(port)
