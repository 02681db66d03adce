"""Files of the examples that come with the installation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.messages.errors import user_error
from onnx_hw.messages.text import did_you_mean
from onnx_hw.runtime.build_folder import cannot_write

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "digits": ("digits.onnx", "digits_float.onnx", "digits_calibration.npz", "digits_test.npz", "README.md"),
}
"""Files of the examples, by name; the first one is the model to build. ``setup.py`` puts them into the wheel."""


@dataclass(frozen=True)
class WrittenExample:
    """An example that was written: the model to build, and all files."""

    model: Path
    files: tuple[Path, ...]


def write_example(name: str, folder: Path) -> WrittenExample:
    """Write the files of an example into a folder, which is created if need be.

    Raises:
        UserError: there is no such example, the folder cannot be written, or it has a file of that name with other
            contents.
    """
    if name not in EXAMPLES:
        hint = did_you_mean(name, EXAMPLES)
        raise user_error("unknown-example", f"there is no example `{name}`", hint=hint, stage="arguments")
    source = _source(name)
    files = tuple(folder / file for file in EXAMPLES[name])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if file.exists() and file.read_bytes() != (source / file.name).read_bytes():
                raise user_error(
                    "example-exists",
                    f"`{file}` must not be there with other contents",
                    hint="remove it, or choose another folder with --out",
                    stage="arguments",
                )
            shutil.copyfile(source / file.name, file)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return WrittenExample(files[0], files)


def _source(name: str) -> Path:
    """Return the folder of an example: in the package as it is installed, or in the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "examples" / name
    return installed if installed.is_dir() else package.parent / "examples" / name
