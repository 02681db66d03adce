"""C sources next to the package's modules, compiled when they are first needed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def compiled(source: Path, *headers: Path) -> ctypes.CDLL | None:
    """Compile a source, with the headers in its folder, to a library in the user's cache; None without a compiler."""
    from onnx_hw_tools import tools
    from onnx_hw_tools.process import ToolFailed
    from onnx_hw_tools.user_cache import user_cache

    try:
        compiler = tools.find("c++")
    except tools.ToolMissing:
        return None
    text = b"".join(path.read_bytes() for path in (source, *headers))
    name = hashlib.sha256(text + compiler.version.encode()).hexdigest()[:20]
    library = user_cache() / f"{source.stem}-{name}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            compiled_file = Path(folder) / "code.so"
            arguments = ["-x", "c++", "-O2", "-fPIC", "-shared", "-o", str(compiled_file), str(source)]
            try:
                tools.run(compiler, arguments, cwd=Path(folder), log=Path(folder) / "code.log")
            except ToolFailed:
                return None
            os.replace(compiled_file, library)
    return ctypes.CDLL(str(library))
