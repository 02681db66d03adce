"""Model file ``model.json`` of a build: the facts that a host needs to send arrays and to read the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_hw_link.contents import Contents
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import in_turns, out_of_turns
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_operators import run_steps
from onnx_hw_link.link import Link, LinkPort, LoadArea
from onnx_hw_link.model_schema import require_schema

__all__ = ["FORMAT", "HostModel"]

FORMAT = 2
"""Version of the file; 2 came with version 2 of the protocol."""
FILE = "model.json"
DEFAULT_LINK = "uart"
"""Kind of the link where the file names none."""


class NotOurs(LinkError):
    """The file is not a model of this version, the model needs the compiler on the host, or arrays do not fit."""

    code = "link-model"


@dataclass(frozen=True)
class Argument:
    """An input of the model."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class HostModel:
    """Description of a model and its link; ``onnx_hw.assemble.host_model_file.host_model`` writes the file.

    Attributes:
        link: facts that both ends agree on.
        baud: bits a second.
        inputs, outputs: inputs of the model, and the names of its outputs.
        data: object of the file.
        contents: contents of memories that the chip must hold; None where nothing is loaded into it.
    """

    name: str
    link: Link
    baud: int
    inputs: tuple[Argument, ...]
    outputs: tuple[str, ...]
    data: Mapping[str, Any] = field(repr=False)
    contents: Contents | None = None

    @classmethod
    def read(cls, path: str | Path) -> HostModel:
        """Read the model of a build's folder, or of the file itself.

        Raises:
            LinkError: there is no file that we can read.
        """
        path = Path(path)
        path = path / FILE if path.is_dir() else path
        try:
            data = read_json(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else f"it is no JSON: {error}"
            hint = "build the model for a board with a link first"
            raise NotOurs(f"the folder of a build must hold {FILE}; {path} cannot be read: {why}; {hint}") from error
        version = data.get("format") if isinstance(data, dict) else None
        if version != FORMAT:
            older = isinstance(version, int) and version < FORMAT
            hint = "build the model again with this version of onnx-hw" if older else "use the onnx-hw that wrote it"
            raise NotOurs(f"{path} must be of format {FORMAT}, not {version}: {hint}, and load its bitstream")
        if data.get("protocol") != PROTOCOL:
            spoken = data.get("protocol")
            raise NotOurs(
                f"{path} must be that of a chip with version {PROTOCOL} of the protocol, not {spoken}: build the model "
                "again with this version of onnx-hw, and load its bitstream"
            )
        model = cls.of(data)
        return model if model.link.load is None else replace(model, contents=_contents(path, model))

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> HostModel:
        """Return the model that the object of a ``model.json`` describes.

        Raises:
            LinkError: a field is missing, or wrong.
        """
        try:
            require_schema(data)
            return cls._of(data)
        except ValueError as error:
            hint = "build the model again with this version of onnx-hw"
            raise NotOurs(f"{FILE} must be that of a build, and is not: {error}; {hint}") from error

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> HostModel:
        sides = [tuple(_port(stream) for stream in data[side]) for side in ("streams_in", "streams_out")]
        turns = [tuple((int(k), int(beats)) for k, beats in data[side]) for side in ("turns_in", "turns_out")]
        buffers = data["input_buffer"], data["output_buffer"]
        load = data.get("load")
        area = None
        if load is not None:
            digest = bytes.fromhex(load["digest"])
            area = LoadArea(load["size"], load["address_bits"], load["word_bytes"], digest)
        into, out = sides
        link = Link(bytes.fromhex(data["digest"]), into, out, data["clock_hz"], *buffers, turns[0], turns[1], area)
        inputs = tuple(Argument(i["name"], np.dtype(i["dtype"]), tuple(i["shape"])) for i in data["inputs"])
        return cls(data["name"], link, data["baud"], inputs, tuple(data["outputs"]), data)

    @property
    def link_kind(self) -> str:
        """Kind of the link: a key of ``transport.TRANSPORTS`` where the driver speaks it."""
        kind: str = self.data.get("link", DEFAULT_LINK if self.baud else "spi")
        return kind

    @property
    def batch(self) -> int:
        """Number of frames in a sample of the model as written; ``inputs`` and the driver are about one frame."""
        batch: int = self.data.get("batch", 1)
        return batch

    @property
    def elsewhere(self) -> Sequence[str]:
        """Operators on the host that only the compiler knows."""
        operators: Sequence[str] = self.data["elsewhere"]
        return operators

    def entering(self, arrays: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, np.ndarray]]:
        """Return (the bytes of a frame, values that the outputs need) of one sample's arrays.

        Raises:
            LinkError: the arrays are not those of the model; an operator needs the compiler.
        """
        values = {name: _array(entry) for name, entry in self.data["constants"].items()}
        for argument in self.inputs:
            name, dtype, shape = argument.name, argument.dtype, argument.shape
            array = arrays.get(name)
            if array is None or array.shape != shape:
                what = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise NotOurs(f"the input `{name}` must be {dtype}{list(shape)}, not {what}")
            values[name] = array.astype(dtype, copy=False)
        self.head(values)
        beats = []
        for stream, port in zip(self.data["streams_in"], self.link.inputs, strict=True):
            if stream["value"] not in values:
                raise NotOurs(f"{FILE} must say how the host computes `{stream['value']}`")
            flat = np.append(values[stream["value"]].reshape(-1).astype(np.int64), 0)
            places = np.array(stream["places"], dtype=np.int64).reshape(port.beats, port.width)
            if places.max() >= len(flat) - 1:
                raise NotOurs(f"{FILE} must name places of `{stream['value']}`, which has {len(flat) - 1:,} elements")
            beats.append(flat[places])
        return in_turns(self.link.inputs, self.link.input_turns, beats), values

    def head(self, values: dict[str, np.ndarray]) -> None:
        """Add the values that the host computes before the hardware."""
        if self.elsewhere:
            needed = ", ".join(self.elsewhere)
            raise NotOurs(f"the host must compute {needed}, for which onnx_hw has to be installed: use onnx-hw infer")
        _run(self.data["head"], values)

    def tail(self, values: dict[str, np.ndarray]) -> None:
        """Add the values that the host computes behind the hardware."""
        _run(self.data["tail"], values)

    def leaving(self, data: bytes, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name, from the bytes of results and the values of ``entering``."""
        beats = out_of_turns(self.link.outputs, self.link.output_turns, data)
        for value in self.data["values_out"]:
            integers = beats[value["stream"]].reshape(-1)[np.array(value["places"])]
            values[value["value"]] = integers.astype(value["dtype"]).reshape(value["shape"])
        self.tail(values)
        return {name: values[name] for name in self.outputs}


def _contents(path: Path, model: HostModel) -> Contents:
    """Return the contents of memories that lie beside a ``model.json``.

    Raises:
        LinkError: the file is not there, or is not the one that is named.
    """
    assert model.link.load is not None
    place = path.with_name(Path(model.data["load"]["file"]).name)
    again = "`onnx-hw update` writes it again"
    try:
        if place.stat().st_size != model.link.load.size:
            raise NotOurs(f"{place} must have {model.link.load.size:,} bytes, not {place.stat().st_size:,}: {again}")
        contents = Contents.of(place.read_bytes())
    except OSError as error:
        raise NotOurs(
            f"the weights must lie beside {FILE}; {place} cannot be read: {error.strerror}: {again}"
        ) from error
    if contents.digest != model.link.load.digest:
        raise NotOurs(f"{place} must hold the weights that {FILE} names, and holds others: {again}")
    return contents


def read_json(path: Path) -> Any:
    """Return the contents of a file of a build.

    Raises:
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _run(steps: Sequence[Mapping[str, Any]], values: dict[str, np.ndarray]) -> None:
    try:
        run_steps(steps, values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise NotOurs(f"an operator of {FILE} must fit its inputs: {error}") from error


def _port(stream: Mapping[str, Any]) -> LinkPort:
    return LinkPort(stream["name"], stream["beats"], stream["width"], stream["bits"], stream["signed"])


def _array(entry: Mapping[str, Any]) -> np.ndarray:
    return np.array(entry["data"], dtype=entry["dtype"]).reshape(entry["shape"])
