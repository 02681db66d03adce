"""onnx-hw: an ONNX model in, a proven FPGA bitstream out."""

__version__ = "0.1.0"
