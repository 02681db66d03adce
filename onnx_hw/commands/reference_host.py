"""Host of a build with operators before or after the hardware that only the compiler knows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_hw.ir.network import Network
from onnx_hw.onnx.evaluate import reference
from onnx_hw_link.host_model import HostModel


@dataclass(frozen=True)
class HostByReference(HostModel):
    """A ``HostModel`` whose head and tail are computed from the model itself."""

    network: Network = field(kw_only=True, repr=False)

    @classmethod
    def with_(cls, model: HostModel, network: Network) -> HostByReference:
        """Return the same host model with the network that the build was made of."""
        return cls(
            model.name, model.link, model.baud, model.inputs, model.outputs, model.data, model.contents, network=network
        )

    def head(self, values: dict[str, np.ndarray]) -> None:
        network = self.network
        wanted = [*(boundary.onnx_name for boundary in network.inputs), *network.handed]
        made = [name for name in dict.fromkeys(wanted) if name not in values]
        if network.head is not None and made:
            given = {value.name: values[value.name] for value in network.head.graph.inputs}
            values |= reference.run(network.head, given, outputs=made)

    def tail(self, values: dict[str, np.ndarray]) -> None:
        if (tail := self.network.tail) is not None:
            values |= reference.run(tail, {value.name: values[value.name] for value in tail.graph.inputs})
