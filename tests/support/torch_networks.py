"""Networks as people write them in torch, and the files that torch makes of them (``torch_files``).

``python tests/support/torch_networks.py`` writes the files again, where torch is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "torch_files"
SHAPES = {"Convolutions": (1, 1, 8, 8), "Separable": (1, 2, 8, 8), "Keywords": (1, 1, 24)}
"""Shape of one frame of each network."""


def torch_network(name: str) -> Any:
    """Return a module with weights that are always the same, in training mode."""
    import torch
    from torch import nn

    class Convolutions(nn.Module):
        """Two convolutions, normalized, with dropout in training."""

        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
                nn.Conv2d(4, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            )  # fmt: skip
            self.classify = nn.Linear(6, 3)

        def forward(self, image: Any) -> Any:
            return self.classify(torch.flatten(self.features(image), 1))

    class Separable(nn.Module):
        """A depthwise separable convolution with a shortcut, and Hardswish."""

        def __init__(self) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(2, 2, 3, padding=1, groups=2, bias=False)
            self.pointwise = nn.Conv2d(2, 2, 1)
            self.act = nn.Hardswish()
            self.classify = nn.Linear(2 * 8 * 8, 4)

        def forward(self, image: Any) -> Any:
            return self.classify(torch.flatten(image + self.pointwise(self.act(self.depthwise(image))), 1))

    class Keywords(nn.Module):
        """Convolutions over time, and an average over it."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv1d(1, 4, 5, stride=2, padding=2), nn.Conv1d(4, 4, 3, padding=1)
            self.classify = nn.Linear(4, 2)

        def forward(self, samples: Any) -> Any:
            return self.classify(torch.relu(self.second(torch.relu(self.first(samples)))).mean(dim=2)).softmax(dim=1)

    torch.manual_seed(7)
    return {"Convolutions": Convolutions, "Separable": Separable, "Keywords": Keywords}[name]()


if __name__ == "__main__":
    import torch

    from onnx_hw.api.torch_export import export_module

    FILES.mkdir(exist_ok=True)
    for name, shape in SHAPES.items():
        (FILES / f"{name}.onnx").write_bytes(export_module(torch_network(name), torch.zeros(shape)))
