"""Train a small convolutional network on scikit-learn's digits, and export it with samples: seconds on a laptop.

    pip install torch onnxscript scikit-learn
    python train.py

Writes digits_cnn.onnx, calibration.npz (samples for the ranges) and test.npz (samples with their right classes).
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)  # (1797, 1, 8, 8) in 0..1
x, y = torch.from_numpy(images[:1437]), torch.from_numpy(digits.target[:1437])

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(10):
    for batch in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

model.eval()
torch.onnx.export(
    model, (torch.zeros(1, 1, 8, 8),), "digits_cnn.onnx", input_names=["image"], output_names=["scores"],
    dynamo=True, external_data=False,
)  # fmt: skip
np.savez("calibration.npz", image=images[:200])
np.savez("test.npz", image=images[1437:], labels=digits.target[1437:])
