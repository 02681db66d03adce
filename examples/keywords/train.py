"""Train a network that hears words, on the files that sounds.py made, and export it: a minute on a laptop.

    pip install torch onnxscript
    python train.py [FOLDER]

Writes keywords.onnx. Its first layer takes the sound as it is, a stretch of 64 samples at a time: the filters are
learned, and no spectrum is computed before.
"""

import sys
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def read(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sounds of a set, float32 (n, 1, 4096) in -1 .. 1, and their labels, in alphabetical order."""
    sounds, labels = [], []
    for label, words in enumerate(sorted((folder / name).iterdir())):
        for path in sorted(words.glob("*.wav")):
            with wave.open(str(path)) as file:
                sounds.append(np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(32_768))
            labels.append(label)
    return torch.from_numpy(np.stack(sounds)[:, None].astype(np.float32)), torch.tensor(labels)


class Heard(nn.Module):
    """Three convolutions over time, the mean over time, and a score for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 16, 64, stride=16, padding=24, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(16, 16, 5, padding=2, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(16, 24, 3, padding=1, bias=False), nn.BatchNorm1d(24), nn.ReLU(),
        )  # fmt: skip
        self.scores = nn.Linear(24, 5)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.scores(self.layers(sound).mean(dim=2))


torch.manual_seed(0)
x, y = read("train")
model = Heard()
epochs, size = 24, 32
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=epochs * -(-len(x) // size))
for epoch in range(epochs):
    model.train()
    for batch in torch.randperm(len(x)).split(size):
        shift = int(torch.randint(-200, 200, ()))  # words begin earlier and later
        loss = nn.functional.cross_entropy(model(x[batch].roll(shift, 2)), y[batch], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

model.eval()
sounds, labels = read("test")
right = int((model(sounds).argmax(dim=1) == labels).sum())
print(f"{right} of {len(labels)} test sounds are right")
torch.onnx.export(
    model, (torch.zeros(1, 1, 4_096),), "keywords.onnx", input_names=["sound"], output_names=["scores"],
    dynamo=True, external_data=False,
)  # fmt: skip
