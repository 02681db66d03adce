"""Build step that puts the files of `onnx-hw example` into the wheel; everything else is in pyproject.toml."""

import ast
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCE = Path("onnx_hw/commands/example.py")


class BuildWithExamples(build_py):
    """Copy the examples next to the modules, as ``onnx_hw/examples/NAME/``; not in an editable installation."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for target, source in self.examples().items():
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self.examples()]

    def examples(self) -> dict[str, str]:
        """Return the source of every file, by its path in the build folder."""
        tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
        (names,) = (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "EXAMPLES"
        )
        return {
            f"{self.build_lib}/onnx_hw/examples/{name}/{file}": f"examples/{name}/{file}"
            for name, files in names.items()
            for file in files
        }


setup(cmdclass={"build_py": BuildWithExamples})
