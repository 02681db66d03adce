"""Program ``onnx-hw``, which is also ``python -m onnx_hw``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; end with code 130 where Ctrl-C comes while its modules are still being imported."""
    try:
        from onnx_hw.cli.cli import main as command_line

        command_line(prog_name="onnx-hw")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing is written yet\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
