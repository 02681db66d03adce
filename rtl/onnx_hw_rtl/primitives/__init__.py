"""Cells placed by hand: for every FPGA family a module with ``PRIMITIVES``, see ``onnx_hw_rtl.target``."""
