"""Command line: it turns options into calls of ``onnx_hw.commands`` and results into lines. Nothing is decided here."""
