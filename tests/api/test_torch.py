"""Networks of torch: files that torch wrote, and modules where torch is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import onnx
import onnx_hw
from onnx_hw.api.torch_export import export_module
from support.optional_software import needs_torch
from support.torch_networks import FILES, SHAPES, torch_network

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch


def samples(name: str) -> np.ndarray:
    return np.random.default_rng(1).random((32, *SHAPES[name][1:]), dtype=np.float32)


@pytest.mark.parametrize("name", SHAPES)
def test_files_of_torch_become_designs(name: str, tmp_path: Path) -> None:
    """The network of integers is near what onnxruntime computes, and fits a small board."""
    path, x = FILES / f"{name}.onnx", samples(name)
    network = onnx_hw.quantize(path, x)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    wanted = np.concatenate([session.run(None, {entry.name: sample[np.newaxis]})[0] for sample in x])
    (outputs,) = network(x).values()
    assert outputs.shape == wanted.shape
    noise = ((outputs - wanted) ** 2).sum() / ((wanted - wanted.mean(axis=0)) ** 2).sum()
    assert noise < 10 ** (-20 / 10)
    build = onnx_hw.build(network, board="icebreaker", out=tmp_path, stop_after="schedule")
    assert build.design is not None and build.design.interval < 10_000


@needs_torch
@pytest.mark.parametrize("name", SHAPES)
def test_modules_of_torch_are_exported_by_torch(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In evaluation mode, whatever mode they are in; the export is the stored file, and the model has their name."""
    import torch

    monkeypatch.chdir(tmp_path)
    module, x = torch_network(name), samples(name)
    assert module.training
    network = onnx_hw.quantize(module, x, example_inputs=torch.zeros(SHAPES[name]))
    assert module.training and all(part.training for part in module.modules())
    stored = onnx.load(FILES / f"{name}.onnx")
    exported = onnx.load_from_string(export_module(module, torch.zeros(SHAPES[name])))
    assert [node.op_type for node in exported.graph.node] == [node.op_type for node in stored.graph.node]
    with torch.no_grad():
        wanted = module.eval()(torch.from_numpy(x)).numpy()
    (outputs,) = network(x).values()
    noise = ((outputs - wanted) ** 2).sum() / ((wanted - wanted.mean(axis=0)) ** 2).sum()
    assert noise < 10 ** (-20 / 10)
    build = onnx_hw.build(module, calibration=x, example_inputs=np.zeros(SHAPES[name]), stop_after="read")
    assert build.folder == Path(f"{name}-ecp5") and (build.folder / f"{name}.onnx").is_file()


@needs_torch
def test_examples_by_name_and_those_that_do_not_fit() -> None:
    import torch

    module = torch_network("Keywords")
    example = torch.zeros(SHAPES["Keywords"])
    assert onnx_hw.quantize(module, samples("Keywords"), example_inputs={"samples": example}).network.results
    for wrong, says in (
        (None, "must come with example inputs"),
        ({"image": example}, "Keywords.forward`: samples"),
        ((example, example), "Keywords.forward`: samples"),
        (torch.zeros(1, 3, 24), "must be able to export `Keywords`"),
    ):
        with pytest.raises(onnx_hw.UserError, match=says):
            onnx_hw.quantize(module, samples("Keywords"), example_inputs=wrong)


@needs_torch
def test_what_the_exporter_returns_is_a_model() -> None:
    import torch

    program: Any = torch.onnx.export(torch_network("Keywords").eval(), (torch.zeros(1, 1, 24),), dynamo=True)
    assert onnx_hw.quantize(program, samples("Keywords")).network.results
