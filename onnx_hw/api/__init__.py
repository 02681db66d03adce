"""``onnx_hw.build`` and ``onnx_hw.quantize``: the pipeline for callers from Python, with arrays instead of files."""
