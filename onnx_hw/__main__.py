"""``python -m onnx_hw`` is ``onnx-hw``."""

from onnx_hw.cli.cli import main

if __name__ == "__main__":
    main(prog_name="onnx-hw")
