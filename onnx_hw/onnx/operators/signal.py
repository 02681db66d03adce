"""Spectra: window functions, DFT, STFT, MelWeightMatrix. Complex numbers are pairs on a last axis."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code, widen
from onnx_hw.onnx.operators.facts import OF_NO_DATA
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType, normal_axis


def window_type(size: TensorType, *, output_datatype: int = 1, **_: int) -> TensorType:
    assert size.value is not None
    return TensorType(dtype_of_code(output_datatype), (int(size.value.reshape(())),))


@operator(since=17, types=window_type, shape_inputs=(0,), facts=OF_NO_DATA)
def HannWindow(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    return _cosine_window(size, (0.5, 0.5), output_datatype, periodic)


@operator(since=17, types=window_type, shape_inputs=(0,), facts=OF_NO_DATA)
def HammingWindow(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    return _cosine_window(size, (25 / 46, 21 / 46), output_datatype, periodic)


@operator(since=17, types=window_type, shape_inputs=(0,), facts=OF_NO_DATA)
def BlackmanWindow(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
    return _cosine_window(size, (0.42, 0.5, 0.08), output_datatype, periodic)


def _cosine_window(size: Array, terms: tuple[float, ...], output_datatype: int, periodic: int) -> Array:
    """Return ``terms[0] - terms[1] cos(2 pi t) + terms[2] cos(4 pi t)``, t from 0 to 1 (without 1 when periodic)."""
    count = int(size.reshape(()))
    t = np.arange(count) / (count if periodic else max(count - 1, 1))
    y = sum((-1) ** k * term * np.cos(2 * np.pi * k * t) for k, term in enumerate(terms))
    return np.asarray(y).astype(dtype_of_code(output_datatype))


def dft_type(
    x: TensorType, dft_length: TensorType | None = None, axis: TensorType | None = None, **options: int
) -> TensorType:
    along = -2 if axis is None or axis.value is None else int(axis.value.reshape(()))
    return dft_17_type(x, dft_length, axis=along, **options)


def dft_17_type(
    x: TensorType, dft_length: TensorType | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> TensorType:
    along = normal_axis(axis, x.ndim)
    length = x.shape[along] if not (onesided and inverse) else 2 * (x.shape[along] - 1)
    if dft_length is not None and dft_length.value is not None:
        length = int(dft_length.value.reshape(()))
    shape = [*x.shape[:-1], 1 if onesided and inverse else 2]
    shape[along] = length // 2 + 1 if onesided and not inverse else length
    return x.with_shape(shape)


@operator(since=20, types=dft_type, shape_inputs=(1, 2))
def DFT(
    x: Array, dft_length: Array | None = None, axis: Array | None = None, *, inverse: int = 0, onesided: int = 0
) -> Array:
    """Transform along one axis; one-sided: only the half that a real signal's spectrum needs."""
    return _transform(x, dft_length, -2 if axis is None else int(axis.reshape(())), inverse, onesided)


@operator(since=17, types=dft_17_type, shape_inputs=(1,))
def DFT_17(x: Array, dft_length: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Array:
    """Transform along an axis that is an attribute."""
    return _transform(x, dft_length, axis, inverse, onesided)


def _transform(x: Array, dft_length: Array | None, axis: int, inverse: int, onesided: int) -> Array:
    along = normal_axis(axis, x.ndim)
    if along == x.ndim - 1:
        raise ValueError("the last axis holds real and imaginary parts; the transform must be along another one")
    wide = widen(x)
    values = wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]
    length = None if dft_length is None else int(dft_length.reshape(()))
    if onesided and inverse:
        return np.fft.irfft(values, length, along)[..., None].astype(x.dtype)
    if onesided:
        y = np.fft.rfft(values.real, length, along)
    else:
        y = (np.fft.ifft if inverse else np.fft.fft)(values, length, along)
    return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)


@operator(since=17, shape_inputs=(1, 3))
def STFT(
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """Transform windowed frames of a signal (batch, length, 1 or 2): (batch, frames, bins, 2).

    A real signal may lack the last axis, as PyTorch writes it and onnxruntime takes it.
    """
    signal = signal[:, :, None] if signal.ndim == 2 else signal
    step = int(frame_step.reshape(()))
    if frame_length is not None:
        length = int(frame_length.reshape(()))
    else:
        length = signal.shape[1] if window is None else len(window)
    frames = (signal.shape[1] - length) // step + 1
    hold((signal.shape[0], frames, length, 2))
    index = np.arange(frames)[:, None] * step + np.arange(length)
    pieces = signal[:, index]
    if window is not None:
        pieces = pieces * window[:, None]
    return _transform(pieces, None, 2, 0, onesided and signal.shape[-1] == 1)


def mel_type(bins: TensorType, length: TensorType, *_: TensorType, output_datatype: int = 1) -> TensorType:
    assert bins.value is not None and length.value is not None
    shape = (int(length.value.reshape(())) // 2 + 1, int(bins.value.reshape(())))
    return TensorType(dtype_of_code(output_datatype), shape)


@operator(since=17, types=mel_type, shape_inputs=(0, 1, 2, 3, 4), facts=OF_NO_DATA)
def MelWeightMatrix(
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: int = 1,
) -> Array:
    """Return triangles of height 1, their corners equally far apart on the mel scale: (spectrum bins, mel bins)."""
    count, length, rate = (int(x.reshape(())) for x in (num_mel_bins, dft_length, sample_rate))
    hold((length, 2))
    hold((count + 2, 2))
    low, high = (2595 * np.log10(1 + float(x.reshape(())) / 700) for x in (lower_edge_hertz, upper_edge_hertz))
    mels = low + np.arange(count + 2) * (high - low) / (count + 2)
    corners = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(np.int64)
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    k = np.arange(length // 2 + 1)[:, None]
    rising = np.where(left == centre, k == centre, (k - left) / np.maximum(centre - left, 1))
    falling = (right - k) / np.maximum(right - centre, 1)
    y = np.where((k >= left) & (k <= centre), rising, 0.0)
    y = np.where((k >= centre) & (k < right), falling, y)
    return y.astype(dtype_of_code(output_datatype))
