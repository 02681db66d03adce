"""Train a network with integers of 4 bits in Brevitas, and export it as QONNX: half a minute on a laptop.

    pip install torch brevitas onnx onnxscript onnxoptimizer scikit-learn
    python train.py

Writes digits_4_bits.onnx, test.npz (images and their labels) and brevitas.npz (the scores that Brevitas computes for
them). Tried with Brevitas 0.13.4, torch 2.13 and onnxoptimizer 0.4.2.
"""

import brevitas.nn as qnn
import numpy as np
import torch
from brevitas.export import export_qonnx
from brevitas.quant import Int8WeightPerTensorFloat, Int32Bias, Uint8ActPerTensorFloat
from sklearn.datasets import load_digits
from torch import nn

import onnx

digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)  # (1797, 1, 8, 8) in 0..1
x, y = torch.from_numpy(images[:1437]), torch.from_numpy(digits.target[:1437])

weights = {"weight_quant": Int8WeightPerTensorFloat, "weight_bit_width": 4, "bias_quant": Int32Bias}
data = {"act_quant": Uint8ActPerTensorFloat, "bit_width": 4, "return_quant_tensor": True}

torch.manual_seed(0)
model = nn.Sequential(
    qnn.QuantIdentity(**data),  # the input, too
    qnn.QuantConv2d(1, 12, 3, padding=1, **weights), qnn.QuantReLU(**data), nn.MaxPool2d(2),
    qnn.QuantConv2d(12, 16, 3, padding=1, **weights), qnn.QuantReLU(**data), nn.MaxPool2d(2),
    nn.Flatten(), qnn.QuantLinear(64, 10, bias=True, **weights),
)  # fmt: skip
epochs, size = 30, 64
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=epochs * -(-len(x) // size))
for epoch in range(epochs):
    for batch in torch.randperm(len(x)).split(size):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

model.eval()
test, labels = images[1437:], digits.target[1437:]
with torch.no_grad():
    scores = model(torch.from_numpy(test)).numpy()
print(f"{(scores.argmax(axis=1) == labels).sum()} of {len(labels)} test images are right")
export_qonnx(
    model, torch.from_numpy(test[:1]), "digits_4_bits.onnx", input_names=["image"], output_names=["scores"],
    external_data=False,
)  # fmt: skip
exported = onnx.load("digits_4_bits.onnx")
for node in exported.graph.node:
    node.ClearField("metadata_props")  # half of the file: where in Python a node comes from
onnx.save(exported, "digits_4_bits.onnx")
np.savez_compressed("test.npz", image=test, labels=labels)
np.savez_compressed("brevitas.npz", scores=scores)
