"""Lowering: a quantized ONNX model becomes a network of hardware operators."""
