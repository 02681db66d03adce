"""Float front ends for sound drawn by seed: STFT as products with sines, power, mel bands, logarithm, classifier."""

from __future__ import annotations

import numpy as np

from support.qdq_models import Sketch
from support.random_gated_blocks import DrawnFloats


def draw_spectrogram(seed: int, samples: int = 48, least: float | None = None, loudness_db: float = 10) -> DrawnFloats:
    """Draw a front end; for odd seeds a small convolutional classifier follows it.

    Args:
        samples: number of sounds to calibrate, and of others.
        least: the number that is added before the logarithm; None to draw it.
        loudness_db: by how much the quietest sounds are quieter than the loudest, in dB.
    """
    random = np.random.default_rng(seed)
    sketch = Sketch(opset=18)
    window, bands = int(random.choice([32, 64])), int(random.choice([8, 12, 16]))
    hop, frames = window // 2, int(random.integers(8, 14))
    length, lines = window + hop * (frames - 1), window // 2 + 1
    angles = 2 * np.pi * np.outer(np.arange(lines), np.arange(window)) / window
    taper = np.hanning(window + 2)[1:-1]
    parts = [(taper * wave(angles))[:, None, :].astype(np.float32) for wave in (np.cos, np.sin)]
    if random.random() < 0.5:
        both = sketch.node("Conv", "x", sketch.constant(np.concatenate(parts)), strides=[hop])
        sketch.nodes.append(_split(sketch, both, lines))
        real, imaginary = "real", "imaginary"
    else:
        real, imaginary = (sketch.node("Conv", "x", sketch.constant(part), strides=[hop]) for part in parts)
    two = sketch.constant(np.float32(2))
    squares = [
        sketch.node("Mul", part, part) if random.random() < 0.5 else sketch.node("Pow", part, two)
        for part in (real, imaginary)
    ]
    power = sketch.node("Add", *squares)
    mel = sketch.node("Conv", power, sketch.constant(_bands(bands, lines)[:, :, None]))
    drawn = float(random.choice([1e-3, 1e-2, 1e-1]))
    least = drawn if least is None else least
    loud = sketch.node("Add", mel, sketch.constant(np.float32(least)))
    output = sketch.node("Log", loud)
    if seed % 2:
        weights = random.normal(0, (3 * bands) ** -0.5, (8, bands, 3)).astype(np.float32)
        bias = sketch.constant(random.normal(0, 0.5, 8).astype(np.float32))
        y = sketch.node("Relu", sketch.node("Conv", output, sketch.constant(weights), bias, pads=[1, 1]))
        y = sketch.node("Flatten", sketch.node("GlobalAveragePool", y))
        output = sketch.node("Gemm", y, sketch.constant(random.normal(0, 0.35, (8, 4)).astype(np.float32)))
    sounds = _sounds(random, 2 * samples, length, loudness_db)
    return DrawnFloats(sketch, {"x": (1, 1, length)}, output, sounds[:samples], sounds[samples:])


def _split(sketch: Sketch, both: str, lines: int) -> object:
    from onnx import helper

    sizes = sketch.constant(np.array([lines, lines], np.int64))
    return helper.make_node("Split", [both, sizes], ["real", "imaginary"], "the_split", axis=1)


def _bands(bands: int, lines: int) -> np.ndarray:
    """Return triangular filters, (bands, lines), the wider the higher they are."""
    edges = (np.geomspace(1, lines, bands + 2) - 1).reshape(-1, 1)
    rise, fall = (
        (np.arange(lines) - edges[:-2]) / np.maximum(edges[1:-1] - edges[:-2], 1),
        (edges[2:] - np.arange(lines)) / np.maximum(edges[2:] - edges[1:-1], 1),
    )
    return np.clip(np.minimum(rise, fall), 0, 1).astype(np.float32)


def _sounds(random: np.random.Generator, count: int, length: int, loudness_db: float) -> np.ndarray:
    """Draw decaying tones over noise, (count, 1, 1, length), loud and quiet ones."""
    time = np.arange(length)
    sounds = random.normal(0, 0.02, (count, length))
    for _ in range(3):
        pitch, phase = random.uniform(0.02, 3, (count, 1)), random.uniform(0, 7, (count, 1))
        decay = random.uniform(0.5, 4, (count, 1)) / length
        sounds += random.uniform(0.1, 1, (count, 1)) * np.sin(pitch * time + phase) * np.exp(-decay * time)
    loudness = 10 ** random.uniform(-loudness_db / 20, 0, (count, 1))
    return (np.clip(0.3 * sounds * loudness, -1, 1)[:, None, None]).astype(np.float32)
