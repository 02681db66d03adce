"""File ``network.npz`` of a build with loadable weights: its integer network, with the types that others must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.ir.network import Network
from onnx_hw.ir.value_file import DAMAGED, decode, encode
from onnx_hw.messages.errors import user_error
from onnx_hw.messages.version import __version__
from onnx_hw.runtime.build_folder import BuildFolder

FILE = "network.npz"


@dataclass(frozen=True)
class KeptNetwork:
    """Integer network of a build, before it was scheduled.

    Attributes:
        version: version of onnx-hw that wrote it.
    """

    version: str
    network: Network


def write_network(folder: BuildFolder, note_file: Callable[[str, str], None], network: Network) -> None:
    """Write the file, and note it in the report."""
    folder.write(FILE, encode(KeptNetwork(__version__, network), {}))
    note_file("network", FILE)


def read_network(folder: Path) -> Network:
    """Return the network of the build in a folder.

    Raises:
        UserError: the file is missing or damaged, or another version of onnx-hw wrote it.
    """
    path, reason = folder / FILE, ""
    try:
        kept = decode(path, KeptNetwork, {})
    except FileNotFoundError:
        reason = "it is not there"
    except DAMAGED as error:
        reason = f"it is damaged: {str(error) or type(error).__name__}"
    else:
        if kept.version == __version__:
            return kept.network
        reason = f"it is of onnx-hw {kept.version}, and this is {__version__}"
    raise user_error(
        "network-file",
        f"the folder must hold the network of its build; {reason}",
        where=str(path),
        hint="build it again with --weights loadable",
        stage="arguments",
    )
